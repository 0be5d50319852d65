"""Leases for connectors and snapshots for gateways: who gets them, and what is in them."""

import base64
import json
import threading
import time

import pytest

from kvctl.connector.capability import ALL, READ, verify_token
from kvctl.connector.keys import Identity, load_lease
from kvctl.connector.snapshotfile import read_snapshot
from kvctl.controller import leases, snapshots
from kvctl.controller.settings import EngineSettings
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.events import Event
from kvctl.types.requests import (
    EpochRotate,
    KeyCreate,
    LeaseRequest,
    SnapshotRequest,
    TenantChange,
    TenantCreate,
    TenantNamed,
    TenantOffboard,
)
from tests.controller.people import OPERATOR, controller, kinds, service, tables

GPU1, OTHER = Identity.generate(), Identity.generate()
ASKED = LeaseRequest("acme", "user", GPU1.public.hex())
SETTINGS = {
    "connectors": {"gpu1": GPU1.public.hex(), "gpu2": OTHER.public.hex()},
    "gateways": {"front": EngineSettings("unix:/x")},
    "lease_seconds": 600,
}


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path, **SETTINGS) as made:
        made.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", domains=["common", "user"]))
        yield made


def test_a_lease_is_a_lease_file(ctl, tmp_path):
    answer = ctl.call("lease.issue", service("gpu1"), ASKED)
    file = tmp_path / "lease"
    file.touch(0o600)
    file.write_text(json.dumps(answer))
    held = load_lease(file)
    (epoch,) = [e for e in ctl.call("tenant.show", OPERATOR, TenantNamed("acme"))["epochs"] if e["domain"] == "user"]
    assert held.scope == Scope("acme", "user", bytes.fromhex(epoch["epoch"]))
    assert held.key.root == ctl.keystore.root(held.scope).root
    assert abs(held.expires_at - time.time() - 600) < 30
    capability = verify_token(held.capability, [ctl.books.identity.public], now=time.time(), holder=GPU1.public)
    assert (capability.scope, capability.operations, capability.expires_at) == (held.scope, ALL, held.expires_at)


def test_what_is_on_record_opens_nothing(ctl):
    answer = ctl.call("lease.issue", service("gpu1"), ASKED)
    (event,) = [event for event in ctl.books.recorded(0) if event.kind == "capability.issued"]
    assert (event.actor, event.data["holder"], event.tenant) == ("service:gpu1", GPU1.public.hex(), "acme")
    assert answer["root_key"] not in json.dumps(dict(event.data))
    assert answer["capability"] not in json.dumps(dict(event.data))


def test_fewer_operations(ctl):
    asked = LeaseRequest("acme", "user", GPU1.public.hex(), sorted(READ))
    token = base64.b64decode(ctl.call("lease.issue", service("gpu1"), asked)["capability"])
    held = verify_token(token, [ctl.books.identity.public], now=time.time(), holder=GPU1.public)
    assert held.operations == READ
    with pytest.raises(KvctlError, match="KV-TEN-032"):
        ctl.call("lease.issue", service("gpu1"), LeaseRequest("acme", "user", GPU1.public.hex(), ["delete"]))


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("gpu1", OTHER.public.hex()), ("gpu2", GPU1.public.hex()), ("store1", GPU1.public.hex()), ("", ""),
        ("front", GPU1.public.hex()), ("gpu1", GPU1.public.hex().upper()), ("gpu1", ""), ("gpu1", "zz" * 32),
    ],
)  # fmt: skip
def test_only_the_registered_connector_itself_gets_one(ctl, name, holder):
    with pytest.raises(RefusedError) as caught:
        ctl.call("lease.issue", service(name), LeaseRequest("acme", "user", holder))
    assert caught.value.code == "KV-TEN-030"
    assert "capability.issued" not in kinds(ctl)


def test_people_get_none(ctl):
    with pytest.raises(RefusedError, match="KV-API-001"):
        ctl.call("lease.issue", OPERATOR, ASKED)


def test_none_for_tenants_that_are_not_active(ctl):
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    with pytest.raises(RefusedError, match="KV-TEN-005"):
        ctl.call("lease.issue", service("gpu1"), ASKED)
    ctl.call("tenant.resume", OPERATOR, TenantChange("acme"))
    ctl.call("lease.issue", service("gpu1"), ASKED)
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
    with pytest.raises(RefusedError, match="KV-TEN-005"):
        ctl.call("lease.issue", service("gpu1"), ASKED)


def test_suspending_revokes_what_was_leased(ctl):
    for _ in range(3):
        ctl.call("lease.issue", service("gpu1"), ASKED)
    assert ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))["revoked_capabilities"] == 3
    assert ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))["revoked_capabilities"] == 0
    before = tables(ctl)
    assert all(row[-1] is not None for row in before["capabilities"])
    ctl.books.reindex()
    assert tables(ctl) == before


def test_many_leases_are_revoked_in_events_that_fit_the_log(ctl):
    with ctl.books.deciding():
        one = leases._issued
        from kvctl.connector.capability import NO_LIMITS, Capability

        now = int(time.time())
        events = [
            one(
                Capability("acme", "user", b"e" * 16, ALL, GPU1.public, NO_LIMITS, n.to_bytes(16, "big"), now, now + 99)
            )
            for n in range(2500)
        ]
        ctl.books.commit(OPERATOR, events)
    assert ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))["revoked_capabilities"] == 2500
    assert kinds(ctl).count("capability.revoked") == 3


def test_rotation_leases_the_new_epoch(ctl):
    old = ctl.call("lease.issue", service("gpu1"), ASKED)
    done = ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    new = ctl.call("lease.issue", service("gpu1"), ASKED)
    assert (old["epoch"], new["epoch"]) == (done["old_epoch"], done["epoch"])
    assert old["root_key"] != new["root_key"]
    (row,) = [row for row in tables(ctl)["capabilities"] if row[3] == old["epoch"]]
    assert row[-1] is not None  # what was leased on the destroyed key is revoked


# --- snapshots ------------------------------------------------------------------------------------------------------
def test_a_gateway_gets_what_the_file_says(ctl, tmp_path):
    ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    answer = ctl.call("snapshot.get", service("front"), SnapshotRequest())
    file = tmp_path / "snapshot"
    file.touch(0o600)
    file.write_text(answer["signed"])
    trusted = [ctl.books.identity.public]
    got = read_snapshot(file, trusted, now=time.time())
    own = read_snapshot(ctl.directory / snapshots.FILE, trusted, now=time.time())
    assert (got.number, got.tenants, got.site) == (own.number, own.tenants, "paris")
    assert got.number == answer["number"] > 0


def test_nothing_newer_is_said_as_that(ctl):
    number = ctl.call("snapshot.get", service("front"), SnapshotRequest())["number"]
    again = ctl.call("snapshot.get", service("front"), SnapshotRequest(after=number))
    assert (again["number"], again["signed"]) == (number, None)


def test_leases_make_no_new_snapshot(ctl):
    number = ctl.call("snapshot.get", service("front"), SnapshotRequest())["number"]
    ctl.call("lease.issue", service("gpu1"), ASKED)
    assert ctl.call("snapshot.get", service("front"), SnapshotRequest(after=number))["signed"] is None


def test_a_gateway_that_waits_hears_of_a_change(ctl):
    number = ctl.call("snapshot.get", service("front"), SnapshotRequest())["number"]
    answers = []
    asked = SnapshotRequest(after=number, wait=30)
    waiting = threading.Thread(target=lambda: answers.append(ctl.call("snapshot.get", service("front"), asked)))
    listeners = len(ctl.books.on_commit)
    waiting.start()
    while len(ctl.books.on_commit) == listeners and waiting.is_alive():
        time.sleep(0.001)
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    waiting.join(20)
    (answer,) = answers
    assert answer["signed"] is not None
    assert answer["number"] > number
    assert len(ctl.books.on_commit) == listeners


@pytest.mark.parametrize(
    ("kind", "name", "emptied"),
    [("deploy.forgotten", "front", True), ("service.removed", "front", True), ("deploy.forgotten", "front2", False)],
)
def test_a_gateway_that_is_forgotten_while_it_waits_gets_a_snapshot_that_serves_nobody(
    ctl, tmp_path, kind, name, emptied
):
    first = ctl.call("snapshot.get", service("front"), SnapshotRequest())
    answers = []
    asked = SnapshotRequest(after=first["number"], wait=0.5 if not emptied else 30)
    waiting = threading.Thread(target=lambda: answers.append(ctl.call("snapshot.get", service("front"), asked)))
    listeners = len(ctl.books.on_commit)
    waiting.start()
    while len(ctl.books.on_commit) == listeners and waiting.is_alive():
        time.sleep(0.001)
    ctl.books.commit(OPERATOR, [Event(kind, {"name": name, "from": "gateways"})])
    waiting.join(20)
    (answer,) = answers
    assert (answer["signed"] is not None) == emptied
    if emptied:
        file = tmp_path / "snapshot"
        file.touch(0o600)
        file.write_text(answer["signed"])
        trusted = [ctl.books.identity.public]
        assert read_snapshot(file, trusted, now=time.time(), newest=first["number"]).tenants == ()
    assert len(ctl.books.on_commit) == listeners


@pytest.mark.parametrize("name", ["gpu1", "store1", "", "front2"])
def test_others_than_gateways_get_no_snapshot(ctl, name):
    with pytest.raises(RefusedError, match="KV-TEN-031"):
        ctl.call("snapshot.get", service(name), SnapshotRequest())


def test_policies_reach_the_snapshot(ctl):
    with ctl.books.state.writing() as db:
        db.execute(
            """INSERT INTO residency_policies BY NAME SELECT 'acme' AS tenant, 1 AS version, 'x' AS sha256,
               ['FR'] AS storage_countries, ['FR', 'DE'] AS processing_countries, [] AS support_countries,
               TIMESTAMP '2020-01-01' AS valid_from"""
        )
        db.execute(
            """INSERT INTO retention_policies BY NAME SELECT 'acme' AS tenant, 1 AS version, 'conversation' AS class,
               0 AS minimum_s, 3600 AS maximum_s, TIMESTAMP '2020-01-01' AS valid_from, 'x' AS sha256"""
        )
    with ctl.books.deciding() as db:
        (tenant,) = snapshots.build(ctl, db)[0].tenants
    assert tenant.processing_countries == ("FR", "DE")
    assert tenant.retention == {"conversation": 3600}
