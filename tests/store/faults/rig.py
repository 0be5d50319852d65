"""kvstored with tiers on a disk, as a connector, an operator and the kernel see it."""

import json
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.connector.receipt import GetResult
from kvctl.types.chunks import Scope
from tests.store.daemon import PATIENCE, Daemon

ACME = Scope("acme", "users", bytes(range(16)))
ZEN = Scope("zen", "users", bytes(range(16, 32)))
TEXT = random.Random(11).randbytes(12 << 20)  # content, no key


def content(seed: int, length: int) -> bytes:
    """A chunk's plaintext, of 8 bytes or more, unlike that of any other seed."""
    at = seed * 4099 % (len(TEXT) - length)
    return seed.to_bytes(8, "little") + TEXT[at : at + length - 8]


def await_that(true: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait until a condition holds. AssertionError that says what did not come."""
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, f"not within {patience:.0f} s: {what}"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a process holds of the machine. Anonymous memory: file pages, such as an index's, are the kernel's."""

    memory: int
    threads: int
    descriptors: int


class Kvstored(Daemon):
    """A real kvstored below `folder`, which gets the directories of its mounts."""

    def __init__(
        self, folder: Path, *, capacity: str = "8GiB", ram: str = "192MiB", mounts: int = 1, **more: Any
    ) -> None:
        self.mounts = [folder / ("mount" if number == 0 else f"mount{number}") for number in range(mounts)]
        for path in self.mounts:
            path.mkdir(exist_ok=True)
        places = [{"path": str(path), "capacity": capacity} for path in self.mounts]
        limits = more.pop("limits", {})
        sections: dict[str, Any] = {"tiers": {"flash": {"mounts": places}}, "ram": ram, **more}
        super().__init__(folder, limits, module="kvctl.store.main", **sections)

    def open(self) -> float:
        """Start; seconds until it served."""
        self.events.clear()
        began = time.monotonic()
        self.start()
        return time.monotonic() - began

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def restart(self) -> None:
        assert self.stop() == 0
        self.open()

    def client(self, over: str = "tcp", **options: Any) -> StoreClient:
        address = self.tcp if over == "tcp" else self.unix
        return StoreClient(address, self.connector, self.identity.public, **{"timeout": 10.0, **options})

    def lease(self, scope: Scope = ACME) -> KeyLease:
        """Every scope has a root key of its own, the same after a restart."""
        root = RootKey(scope, (scope.tenant.encode() + scope.epoch).ljust(32, b"#")[:32])
        return KeyLease(root, self.token(scope=scope), int(time.time()) + 3600)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def vitals(self) -> Vitals:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        descriptors = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        return Vitals(int(status["RssAnon"].split()[0]) << 10, int(status["Threads"]), descriptors)

    def stat(self) -> dict[str, Any]:
        return self.post_ok("GET", "/v1/stat")

    def place(self, path: Path) -> dict[str, Any]:
        """What /v1/stat says about one mount."""
        places = self.stat()["tiers"][0]["places"]
        return next(place for place in places if place["name"] == str(path))

    def post_ok(self, method: str, path: str, body: object = None) -> Any:
        status, told = self.admin(method, path, body)
        assert status == 200, json.dumps(told)
        return told

    def erase(self, scope: Scope | None = None, *, tenant: str = "", subject: bytes = b"") -> dict[str, int]:
        """Erase a whole scope, or a subject in all domains of a tenant; chunks removed by place."""
        body = (
            {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex()}
            if scope is not None
            else {"tenant": tenant, "subject": subject.hex()}
        )
        removed: dict[str, int] = self.post_ok("POST", "/v1/erase", body)["removed"]
        return removed

    def end(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        if self.alive:
            self.signal(signal.SIGCONT)
            self.kill()


def fetch(
    client: StoreClient, lease: KeyLease, wanted: Sequence[tuple[bytes, int]], deadline: float | None = None
) -> list[tuple[GetResult, bytes]]:
    """(result, what the target holds) of each (key, plain length)."""
    targets = [memoryview(bytearray(length)) for _, length in wanted]
    wants = [(key, target) for (key, _), target in zip(wanted, targets, strict=True)]
    results = client.get_into(lease, wants, deadline)
    return [(result, bytes(target)) for result, target in zip(results, targets, strict=True)]
