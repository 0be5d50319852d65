"""Moves between the tiers of a running kvstored, asked for over its admin socket."""

import os

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.types.chunks import Ack, Meta, Scope
from tests.store.daemon import SCOPE, Daemon

OTHER = Scope("globex", "users", b"o" * 16)
ALICE = b"a" * 16


def tier(folder, name):
    (folder / name).mkdir()
    return {"mounts": [{"path": f"{folder}/{name}", "capacity": "256MiB"}]}


@pytest.fixture
def daemon(tmp_path):
    tiers = {name: tier(tmp_path, name) for name in ("flash", "disk")}
    made = Daemon(tmp_path, module="kvctl.store.main", tiers=tiers, state=f"{tmp_path}/state").start()
    yield made
    assert made.stop() == 0


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Site:
    """Chunks of two tenants in flash, and what they were."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
        self.leases = {s: KeyLease(RootKey(s, os.urandom(32)), daemon.token(scope=s), 2**40) for s in (SCOPE, OTHER)}
        self.data = {(s, i): os.urandom(200_000) for s in (SCOPE, OTHER) for i in range(8)}
        for (scope, number), data in self.data.items():
            meta = Meta(position=number, subject=ALICE if number % 2 else bytes(16))
            self.client.put(self.leases[scope], name(number), data, meta, Ack.DURABLE)

    def wrong(self) -> list[tuple[str, int]]:
        """Chunks that are not read back as they were."""
        bad = []
        for (scope, number), data in self.data.items():
            target = bytearray(len(data))
            (result,) = self.client.get_into(self.leases[scope], [(name(number), memoryview(target))])
            if not result.hit or target != data:
                bad.append((scope.tenant, number))
        return bad

    def places(self) -> dict[str, int]:
        self.daemon.admin("POST", "/v1/flush")
        return {tier["name"]: tier["chunks"] for tier in self.daemon.admin("GET", "/v1/stat")[1]["tiers"]}

    def move(self, **asked: object) -> tuple[int, dict]:
        return self.daemon.admin("POST", "/v1/move", {"id": "m1", "source": "flash", "target": "disk", **asked})


@pytest.fixture
def site(daemon):
    made = Site(daemon)
    yield made
    made.client.close()


def test_one_tenant_s_chunks_move_and_all_are_read_back(site):
    status, moved = site.move(tenant="acme")
    assert (status, moved["moved"], moved["failed"]) == (200, 8, {})
    assert site.places() == {"flash": 8, "disk": 8}
    assert site.wrong() == []
    used = site.daemon.admin("GET", "/v1/stat")[1]["tenants"]
    assert {tenant: row["used"] for tenant, row in used.items()} == dict.fromkeys(("acme", "globex"), 8 * 200_104)


def test_tails_can_be_moved_alone(site):
    assert site.move(least_position=6)[1]["moved"] == 4
    assert site.places() == {"flash": 12, "disk": 4}


def test_leased_chunks_stay_where_they_are(site):
    site.client.has(site.leases[SCOPE], [name(0), name(1)], lease_ms=60_000)
    moved = site.move(tenant="acme")[1]
    assert (moved["moved"], moved["skipped"]) == (6, {"leased": 2})


def test_erasure_reaches_what_was_moved(site):
    site.move(tenant="acme")
    gone = site.daemon.admin("POST", "/v1/erase", {"tenant": "acme", "subject": ALICE.hex()})[1]["removed"]
    assert gone["disk"] == 4
    assert site.wrong() == [("acme", number) for number in (1, 3, 5, 7)]


def test_a_move_that_cannot_be_meant_is_refused(site):
    for asked in ({"target": "archive"}, {"target": "flash"}, {"id": "../m"}, {"who": 1}, {"least_position": "x"}):
        status, error = site.move(**asked)
        assert (status, error["exit_code"]) == (400, 2), asked
    assert site.places() == {"flash": 16, "disk": 0}
