"""After a fork the child has no threads of its parent's, and must not speak on its connections: it begins anew."""

import os
from typing import Protocol
from weakref import WeakSet


class Restarting(Protocol):
    def restart(self) -> None:
        """Forget connections, threads and locks; they are the parent's."""


def restart_in_child(living: Restarting) -> None:
    """Call its `restart` first thing in every child that is forked while it lives."""
    LIVING.add(living)


def _restart_all() -> None:
    for living in tuple(LIVING):
        living.restart()


LIVING: WeakSet[Restarting] = WeakSet()
os.register_at_fork(after_in_child=_restart_all)
