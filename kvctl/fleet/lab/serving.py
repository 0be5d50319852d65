"""An engine and a gateway beside a lab's stores: started, awaited, asked, and ended with everything they left."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvctl.connector.unixhttp import UnixConnection
from kvctl.fleet.lab import host, processes
from kvctl.fleet.lab.layout import Layout
from kvctl.fleet.lab.processes import Started
from kvctl.types.errors import KvctlError, UsageError

NAMES = ("supervisor", "gateway", "engine")  # in the order in which they are ended
START = 240.0  # seconds for an engine to answer on a busy machine
STOP = 40.0  # seconds for all of them to end
ANSWER = 300.0
POLL = 0.1  # seconds between two looks at a socket that nobody listens on yet


@dataclass(frozen=True, slots=True)
class Files:
    """What a lab's serving keeps, in one directory of mode 0700."""

    directory: Path

    @classmethod
    def of(cls, layout: Layout) -> "Files":
        return cls(layout.directory / "serving")

    @property
    def plan(self) -> Path:
        return self.directory / "plan.json"

    @property
    def engine(self) -> Path:
        return self.directory / "engine.sock"

    @property
    def gateway(self) -> Path:
        return self.directory / "gateway.sock"

    @property
    def admin(self) -> Path:
        return self.directory / "gateway-admin.sock"

    @property
    def leases(self) -> Path:
        return self.directory / "leases"

    @property
    def model(self) -> Path:
        return self.directory / "model"

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def pid(self, name: str) -> Path:
        return self.directory / f"{name}.pid"


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


class Plan(msgspec.Struct, frozen=True):
    """What the supervisor is to run, and which leases it keeps fresh for it. No secret: paths and public keys."""

    engine: list[str]
    gateway: list[str]
    engine_id: str
    holder: str  # the connector's public key, hexadecimal
    endpoint: str  # of kvctld
    certificate: str
    key: str
    ca: str
    tenant: str
    domains: list[str]


def write_pid(path: Path, process: Started) -> None:
    path.write_text(json.dumps({"pid": process.pid, "start": process.start}))


def read_pid(path: Path) -> Started | None:
    """None when it was never started. KV-LAB-052 for a file that names no process."""
    try:
        found = json.loads(path.read_text())
        return Started(int(found["pid"]), int(found["start"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise KvctlError("KV-LAB-052", "this file names no process", where=str(path), why=str(error)) from error


def running(files: Files) -> list[str]:
    """Which of them are alive."""
    found = {name: read_pid(files.pid(name)) for name in NAMES}
    return [name for name, process in found.items() if process is not None and process.alive()]


def start(files: Files, plan: Plan) -> None:
    """Start the supervisor and wait until engine and gateway answer. KV-LAB-053 when one of them does not."""
    files.plan.write_bytes(msgspec.json.encode(plan))
    for name in NAMES:
        files.pid(name).unlink(missing_ok=True)
    with files.log("supervisor").open("ab") as log:
        command = [sys.executable, "-m", "kvctl.fleet.lab.serving_supervisor", str(files.directory)]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    process = processes.started(child.pid)
    if process is None:
        raise not_started(files, "supervisor")
    write_pid(files.pid("supervisor"), process)
    until = time.monotonic() + START
    await_true(files, child, "engine", lambda: healthy(files), until)
    await_true(files, child, "gateway", lambda: routed(files), until)


def await_true(
    files: Files, child: "subprocess.Popen[bytes]", name: str, true: Callable[[], bool], until: float
) -> None:
    """Until something answers so; nobody listening yet is a no."""
    while time.monotonic() < until and child.poll() is None:
        with suppress(OSError, http.client.HTTPException):
            if true():
                return
        time.sleep(POLL)
    raise not_started(files, name)


def healthy(files: Files) -> bool:
    return ask(files.engine, "GET", "/health", seconds=5)[0] == http.client.OK


def routed(files: Files) -> bool:
    """Whether the gateway sends requests to the engine."""
    status, said = ask(files.admin, "GET", "/v1/stat", seconds=5)
    return status == http.client.OK and all(one["up"] for one in json.loads(said)["engines"])


def not_started(files: Files, name: str) -> KvctlError:
    path = files.log(name)
    why = path.read_text(errors="replace")[-600:] if path.exists() else "it wrote no log"
    return KvctlError("KV-LAB-053", f"the {name} did not come up", where=str(path), why=why)


def stop(files: Files) -> bool:
    """End what `start` started, also when its supervisor was killed; False when nothing was there."""
    if not files.directory.exists():
        return False
    found = {name: process for name in NAMES if (process := read_pid(files.pid(name))) is not None}
    first = [process for name, process in found.items() if name == "supervisor"]
    for process in first:
        processes.send(process, signal.SIGTERM)
    processes.await_all(first, STOP)
    for process in found.values():
        processes.send(process, signal.SIGTERM)
    for process in processes.await_all(list(found.values()), STOP):
        processes.send(process, signal.SIGKILL)
    remove_host_tier(files)
    shutil.rmtree(files.directory)
    return True


def remove_host_tier(files: Files) -> None:
    """The file of an engine's host tier, which stays in /dev/shm when the engine was killed."""
    if files.plan.exists():
        plan = msgspec.json.decode(files.plan.read_bytes(), type=Plan)
        for left in Path("/dev/shm").glob(f"vllm_offload_{plan.engine_id}*"):
            left.unlink()


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
