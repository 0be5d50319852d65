"""Preconditions of a step, read from the node right before it."""

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kvctl.fleet.remote.collect import Program, collect, probe
from kvctl.fleet.remote.failures import where
from kvctl.fleet.remote.processes import RUN_MARKER
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, RefusedError

if TYPE_CHECKING:
    from kvctl.types.facts import Fact, NodeFacts


def observe(
    target: Target, keys: Iterable[str], *, run: str = "", cancel: threading.Event | None = None, timeout: float = 60.0
) -> dict[str, str | None]:
    """What the node says now of each key; None where it does not say. Raises what the collection raises.

    Keys: nic.psid:NETDEV, nic.pci:NETDEV, drive.pci:SERIAL, drive.model:SERIAL, host.machine_id.
    """
    from kvctl.fleet.facts.build import node_facts

    program = probe()
    if run:  # so that a cut run's sweep finds the probe
        program = Program(f"export {RUN_MARKER}={run}; {program.command}", program.stdin)
    found = collect([target], timeout=timeout, cancel=cancel, program=program)[target.node]
    if found.error is not None:
        raise found.error
    assert found.raw is not None
    facts = node_facts(target.node, found.raw)
    return {key: read(facts, key) for key in keys}


def read(facts: "NodeFacts", key: str) -> str | None:
    kind, _, subject = key.partition(":")
    fact: Fact[str] | None = None
    if kind in ("nic.psid", "nic.pci"):
        nic = facts.nic(subject)
        if nic is not None:
            fact = nic.psid if kind == "nic.psid" else nic.pci
    elif kind in ("drive.pci", "drive.model"):
        drive = next((drive for drive in facts.drives if drive.serial.or_none() == subject), None)
        if drive is not None:
            fact = drive.pci if kind == "drive.pci" else drive.model
    elif kind == "host.machine_id":
        fact = facts.host.machine_id
    return None if fact is None else fact.or_none()


def mismatch(target: Target, wanted: Mapping[str, str], seen: Mapping[str, str | None]) -> KvctlError | None:
    """KV-RUN-021 when the node differs from what the plan saw, KV-RUN-022 when it does not say."""
    other = [
        f"{key} is {seen[key]}, the plan saw {value}"
        for key, value in wanted.items()
        if seen.get(key) is not None and seen[key] != value
    ]
    if other:
        return RefusedError(
            "KV-RUN-021",
            f"{target.node} is not what the plan saw",
            where=where(target),
            why="; ".join(other),
            fix="kvctl plan makes a new plan from new facts",
        )
    silent = [key for key in wanted if seen.get(key) is None]
    if silent:
        return RefusedError(
            "KV-RUN-022",
            f"{target.node} does not say what the plan relies on",
            where=where(target),
            why=f"unknown: {', '.join(silent)}",
            fix=f"kvctl facts show {target.node} says why it is unknown",
        )
    return None
