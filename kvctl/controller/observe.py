"""Observe: probe the nodes and hand on what they said as facts."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kvctl.controller.clock import now
from kvctl.controller.site import Site
from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.remote.collect import Collected, collect
from kvctl.fleet.remote.target import resolve
from kvctl.state.database import make_private
from kvctl.types.facts import NodeFacts
from kvctl.types.reports import Unreachable


@dataclass(frozen=True)
class Observation:
    facts: dict[str, NodeFacts]
    unreachable: tuple[Unreachable, ...]
    at: str
    seconds: float
    rows: tuple[dict[str, Any], ...]  # of state.fleet.add_observations


def observe(site: Site, nodes: Iterable[Node]) -> Observation:
    """Read the nodes over SSH, all at once. KvctlError when the state that this is for cannot be written."""
    started = time.monotonic()
    at = now()
    make_private(site.directory)  # before anything is asked of a node
    targets = resolve(site.inventory, site.directory, nodes=[n.name for n in nodes], transport=site.transport or None)
    collected = collect(list(targets.values()), concurrency=site.concurrency, timeout=site.timeout)
    return Observation(
        facts={name: node_facts(name, one.raw) for name, one in collected.items() if one.raw is not None},
        unreachable=tuple(Unreachable.of(name, one.error) for name, one in collected.items() if one.error is not None),
        at=at,
        seconds=time.monotonic() - started,
        rows=tuple(row(node, at, one) for node, one in collected.items()),
    )


def row(node: str, at: str, one: Collected) -> dict[str, Any]:
    return {
        "node": node,
        "collected_at": at,
        "seconds": one.seconds,
        "document": None if one.raw is None else json.dumps(one.raw, separators=(",", ":")),
        "error_code": one.error.code if one.error else None,
        "error": str(one.error) if one.error else None,
    }
