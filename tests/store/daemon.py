"""A real kvstored in a process of its own, and what talks to it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvctl.connector import wire
from kvctl.connector.capability import ALL, NO_LIMITS, Capability, Limits, Operation, sign
from kvctl.connector.connection import Connection
from kvctl.connector.keys import Identity, verify
from kvctl.connector.wire import Frame, GetStatus, Refusal, Type
from kvctl.types.chunks import Scope

SCOPE = Scope("acme", "users", bytes(range(16)))
PATIENCE = 15.0  # seconds


def soon() -> float:
    return time.monotonic() + PATIENCE


def key(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


def send(process: subprocess.Popen[Any], number: int) -> None:
    """A signal to a child. After SIGSTOP the last of its threads stands still when this returns."""
    process.send_signal(number)
    if number == signal.SIGSTOP:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


class Daemon:
    """Writes a configuration in `folder` and runs kvstored with it. `limits` go into it as they are."""

    prefix: tuple[str, ...] = ()  # a command that ends in exec: what runs kvstored in another environment

    def __init__(
        self,
        folder: Path,
        limits: Mapping[str, object] = {},
        *,
        module: str = "tests.store.memory",
        **sections: object,
    ) -> None:
        self.module = module
        self.folder = folder
        self.config = folder / "kvstored.yaml"
        self.identity, self.connector, self.controller = (Identity.generate() for _ in range(3))
        self.unix = f"unix:{folder}/store.sock"
        self.limits = {"frame_seconds": 2, "send_seconds": 3, "hello_seconds": 2, "drain_seconds": 5, **limits}
        self.sections = sections
        self.gate = folder / "gate"
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self.identity.save(folder / "store.key")
        self.write()

    def write(self, **changes: object) -> None:
        made: dict[str, object] = {
            "schema": 1,
            "node": "storage1",
            "listen": ["tcp:127.0.0.1:0", self.unix],
            "admin": {"socket": f"{self.folder}/admin.sock", "metrics": "tcp:127.0.0.1:0"},
            "identity": f"{self.folder}/store.key",
            "connectors": {"gpu1": self.connector.public.hex()},
            "controllers": {"site": self.controller.public.hex()},
            "ram": "256MiB",
            "state": f"{self.folder}/state",
            "tiers": {"flash": {"mounts": [{"path": f"{self.folder}/mount", "capacity": "256MiB"}]}},
            "limits": self.limits,
            **self.sections,
            **changes,
        }
        self.config.write_text(json.dumps(made))  # JSON is YAML

    def start(self, *, environ: Mapping[str, str] = {}) -> "Daemon":
        self.process = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", self.module, "--config", str(self.config)],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "KVSTORED_TEST_GATE": str(self.gate), **environ},
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        ready = self.event("ready")
        self.tcp = ready["listen"].split(", ")[0]
        self.metrics_port = int(ready["admin"].split(", ")[1].rpartition(":")[2])
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            (self.events.append(json.loads(line)) if line.startswith("{") else self.noise.append(line))

    def event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first log line with these fields; waits for it."""
        end = soon()
        while time.monotonic() < end:
            for event in self.events:
                if event["event"] == name and fields.items() <= event.items():
                    return event
            time.sleep(0.01)
        raise AssertionError(f"no event {name!r} {fields} among {self.events} {self.noise}")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        assert self.process is not None
        send(self.process, number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        if self.alive:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            assert self.process is not None
            self.process.kill()
            raise

    def raw(self, address: str | None = None) -> socket.socket:
        address = address or self.tcp
        if address.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(PATIENCE)
            sock.connect(address[5:])
            return sock
        host, _, port = address[4:].rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE)

    def session(self, address: str | None = None, *, attach: bool = True) -> "Raw":
        raw = Raw(self.raw(address))
        raw.greet(self)
        if attach:
            assert raw.ask(Type.ATTACH, self.token())[0].type is Type.ATTACHED
        return raw

    def connection(self, address: str | None = None) -> tuple[Connection, int]:
        """The product's own client, attached to SCOPE."""
        made = Connection.open(address or self.tcp, self.connector, self.identity.public, soon())
        return made, made.attach(SCOPE, self.token(), soon())

    def token(
        self,
        *,
        scope: Scope = SCOPE,
        operations: frozenset[Operation] = ALL,
        holder: bytes | None = None,
        limits: Limits = NO_LIMITS,
        number: bytes = b"capability one..",
        lasts: float = 3600,
        signer: Identity | None = None,
    ) -> bytes:
        now = int(time.time())
        holder = holder or self.connector.public
        end = int(time.time() + lasts)
        start = min(now, end - 1)
        made = Capability(scope.tenant, scope.domain, scope.epoch, operations, holder, limits, number, start, end)
        return sign(made, signer or self.controller)

    def admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return admin(f"{self.folder}/admin.sock", method, path, body)

    def page(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def metric(self, line: str) -> float:
        """A sample by its name and labels as written; 0 when it was never counted."""
        status, text = self.page("/metrics")
        assert status == 200
        return next((float(row.rpartition(" ")[2]) for row in text.splitlines() if row.rpartition(" ")[0] == line), 0)

    def until_metric(self, line: str, value: float) -> None:
        end = soon()
        while self.metric(line) != value:
            assert time.monotonic() < end, f"{line} is {self.metric(line)}, not {value}"
            time.sleep(0.02)


def admin(path: str, method: str, url: str, body: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(PATIENCE)
    connection.sock.connect(path)
    connection.request(method, url, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


class Raw:
    """The block protocol by hand, for peers that do not keep to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.request = 0

    def send(self, kind: Type, body: bytes = b"", *, slot: int = 0, length: int | None = None) -> None:
        self.request += 1
        size = len(body) if length is None else length
        self.sock.sendall(wire.pack(kind, size, slot=slot, request=self.request) + body)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += part
        return data

    def frame(self) -> tuple[Frame, bytes]:
        head = wire.unpack(self.receive(wire.HEADER.size))
        return head, self.receive(head.length)

    def ask(self, kind: Type, body: bytes = b"", *, slot: int = 0) -> tuple[Frame, bytes]:
        self.send(kind, body, slot=slot)
        return self.frame()

    def refusal(self) -> tuple[Refusal, bool]:
        """(reason, whether the session ended) of the ERROR that comes next."""
        frame, body = self.frame()
        assert frame.type is Type.ERROR
        return wire.unpack_error(body).refusal, bool(frame.flags & wire.FATAL)

    def closed(self) -> bool:
        """Whether the peer closes; waits for it."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def greet(self, daemon: Daemon, identity: Identity | None = None) -> bytes:
        """HELLO to WELCOME; the proof, so that a test can replay it."""
        identity = identity or daemon.connector
        nonce = os.urandom(32)
        self.sock.sendall(wire.pack(Type.HELLO, 68) + wire.pack_hello(identity.public, nonce))
        frame, challenge = self.frame()
        assert frame.type is Type.CHALLENGE
        assert challenge[:32] == daemon.identity.public
        nonces = (challenge[:32], challenge[32:], identity.public, nonce)
        proof = identity.sign(wire.proof_text(wire.HELLO_LABEL, *nonces))
        self.sock.sendall(wire.pack(Type.PROVE, 64) + proof)
        frame, welcome = self.frame()
        assert frame.type is Type.WELCOME
        assert verify(daemon.identity.public, welcome[:64], wire.proof_text(wire.WELCOME_LABEL, *nonces))
        return proof

    def get(self, *keys: bytes, within_ms: int = 0) -> dict[bytes, tuple[GetStatus, bytes]]:
        self.send(Type.GET, wire.pack_keys(Type.GET, list(keys), within_ms))
        found = {}
        while len(found) < len(keys):
            frame, body = self.frame()
            assert frame.type is Type.CHUNK
            assert frame.request == self.request
            index, status = wire.CHUNK_HEAD.unpack(body[: wire.CHUNK_HEAD.size])
            found[keys[index]] = (GetStatus(status), body[wire.CHUNK_HEAD.size :])
        return found
