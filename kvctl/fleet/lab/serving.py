"""The engine and the gateway that are deployed on a lab's host, as this machine reaches them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.connector.unixhttp import UnixConnection
from kvctl.fleet.lab import host
from kvctl.fleet.lab.layout import Layout
from kvctl.types.errors import KvctlError, UsageError

ANSWER = 300.0


@dataclass(frozen=True, slots=True)
class Sockets:
    """Where an engine and its gateway answer."""

    engine: Path
    gateway: Path


def deployed(layout: Layout, node: str) -> Sockets:
    """Those of a host that they were deployed to, seen through its first process. UsageError KV-LAB-062."""
    pid = host.leader(layout, node)
    root = Path(f"/proc/{pid}/root/run")
    found = Sockets(root / "kvctl-engine/engine.sock", root / "kvctl-gateway/gate.sock")
    if pid is None or not found.engine.is_socket() or not found.gateway.is_socket():
        raise UsageError(
            "KV-LAB-062", f"no engine and gateway are deployed on {node}",
            fix="kvctl deploy serving, then kvctl deploy gateway",
        )  # fmt: skip
    return found


def ask(
    sock: Path, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *,
    seconds: float = ANSWER,
) -> tuple[int, bytes]:  # fmt: skip
    """(status, answer). OSError and HTTPException when nobody answers."""
    connection = UnixConnection(sock, seconds)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def metric(text: str, name: str, labels: str = "") -> float:
    """The sum over the labels of a sample in Prometheus' text; `labels`: a part that its line must have.

    A counter that has not counted yet is named without a sample. KV-LAB-060 for one that is not named.
    """
    if f"# TYPE {name} " not in text:
        raise KvctlError("KV-LAB-060", f"the engine has no metric {name}", why="it runs without kvctl's tier")
    rows = [row for row in text.splitlines() if row.startswith((name + "{", name + " ")) and labels in row]
    return sum(float(row.rpartition(" ")[2]) for row in rows)
