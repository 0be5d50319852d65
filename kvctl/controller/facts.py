"""Stored facts of one node, and facts of this machine."""

import json
from typing import Any

from kvctl.controller.site import Site
from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.probe.collect import collect
from kvctl.state import fleet
from kvctl.types.codec import to_builtins
from kvctl.types.errors import UsageError
from kvctl.types.facts import NodeFacts


def stored_facts(site: Site, node: str) -> dict[str, Any]:
    """The typed facts of what the node last said."""
    site.select((node,))
    with site.database.reading() as db:
        text = fleet.latest_documents(db).get(node) if db else None
    if text is None:
        raise UsageError("KV-FACT-001", f"{node} was never read", fix=f"kvctl check --limit {node}")
    found: dict[str, Any] = to_builtins(node_facts(node, json.loads(text)))
    return found


def local_facts() -> NodeFacts:
    """The typed facts of this machine, read without changing anything."""
    return node_facts("localhost", collect())
