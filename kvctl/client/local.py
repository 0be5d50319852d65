"""This machine's own facts, for faces that show them."""

from typing import Any


def local_facts() -> Any:
    """NodeFacts of this machine, read without SSH and without changing anything."""
    from kvctl.controller.facts import local_facts as read

    return read()
