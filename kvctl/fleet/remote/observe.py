"""Preconditions of a step, read from the node right before it."""

import threading
from collections.abc import Iterable, Mapping

from kvctl.fleet.remote.collect import Program, collect, probe
from kvctl.fleet.remote.failures import where
from kvctl.fleet.remote.processes import RUN_MARKER
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, RefusedError


def observe(
    target: Target, keys: Iterable[str], *, run: str = "", cancel: threading.Event | None = None, timeout: float = 60.0
) -> dict[str, str]:
    """What the node says now of each key of `plan.preconditions`, "" where it does not say.

    Raises what the collection raises.
    """
    from kvctl.fleet.facts.build import node_facts
    from kvctl.fleet.plan.preconditions import read

    program = probe()
    if run:  # so that a cut run's sweep finds the probe
        program = Program(f"export {RUN_MARKER}={run}; {program.command}", program.stdin)
    found = collect([target], timeout=timeout, cancel=cancel, program=program)[target.node]
    if found.error is not None:
        raise found.error
    assert found.raw is not None
    return read(node_facts(target.node, found.raw), keys)


def mismatch(target: Target, wanted: Mapping[str, str], seen: Mapping[str, str | None]) -> KvctlError | None:
    """KV-RUN-021 when the node differs from what the plan saw, KV-RUN-022 when it does not say."""
    other = [
        f"{key} is {seen[key]}, the plan saw {value}"
        for key, value in wanted.items()
        if seen.get(key) and seen[key] != value
    ]
    if other:
        return RefusedError(
            "KV-RUN-021",
            f"{target.node} is not what the plan saw",
            where=where(target),
            why="; ".join(other),
            fix="kvctl plan makes a new plan from new facts",
        )
    silent = [key for key in wanted if not seen.get(key)]
    if silent:
        return RefusedError(
            "KV-RUN-022",
            f"{target.node} does not say what the plan relies on",
            where=where(target),
            why=f"unknown: {', '.join(silent)}",
            fix=f"kvctl facts show {target.node} says why it is unknown",
        )
    return None
