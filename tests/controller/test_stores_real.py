"""The controller's catalogue, holds, retention and erasure against a kvstored in a process of its own."""

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.controller.catalogue import compare, sync
from kvctl.controller.settings import StoreSettings
from kvctl.state.governance import rows
from kvctl.types.chunks import Ack, Meta, Scope
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import EraseSubject, EraseTenant, HoldSet, RetentionApply, TenantCreate
from tests.controller import people
from tests.store.daemon import SCOPE, Daemon

DPO = Principal("local:dora", frozenset({Role.DPO}), fresh=True)
ALICE, BOB = b"a" * 16, b"b" * 16


@pytest.fixture
def daemon(tmp_path):
    (tmp_path / "mount").mkdir()
    made = Daemon(tmp_path, module="kvctl.store.main").start()
    yield made
    made.stop()


@pytest.fixture
def ctl(tmp_path, daemon):
    how = StoreSettings(admin=f"unix:{daemon.folder}/admin.sock")
    with people.controller(tmp_path, stores={"s1": how}) as made:
        made.call("tenant.create", people.OPERATOR, TenantCreate("acme", "Acme SAS", "FR", domains=["users"]))
        yield made


@pytest.fixture
def put(ctl, daemon):
    """Stores a durable chunk in the present epoch, and says whether a key is still readable."""
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    with ctl.books.state.reading() as db:
        (row,) = rows(db, "SELECT epoch FROM epochs WHERE retired_at IS NULL")
    scope = Scope("acme", "users", bytes.fromhex(row["epoch"]))
    from kvctl.controller.push import push

    push(ctl)
    lease = KeyLease(RootKey(scope, b"r" * 32), daemon.token(scope=scope), 2**40)

    def put(name, **meta):
        client.put(lease, name.ljust(32, b"."), b"x" * 70_000, meta=Meta(**meta), ack=Ack.DURABLE)

    yield put
    client.close()


def names(daemon):
    status, found = daemon.admin("GET", "/v1/ls?limit=1000")
    assert status == 200
    return sorted(bytes.fromhex(row["key"]).rstrip(b".") for row in found["chunks"])


def live(ctl):
    with ctl.books.state.reading() as db:
        found = rows(db, "SELECT key FROM chunks WHERE removed_at IS NULL")
    return sorted(bytes.fromhex(row["key"]).rstrip(b".") for row in found)


def test_the_catalogue_follows_a_kvstored_over_a_restart(ctl, daemon, put):
    sync(ctl, "s1")
    for number in range(5):
        put(b"chunk%d" % number, subject=ALICE)
    done = sync(ctl, "s1")
    assert (done["taken"]["put"], live(ctl)) == (5, names(daemon))
    daemon.stop()
    assert sync(ctl, "s1")["state"] == "unreachable"
    assert len(live(ctl)) == 5
    daemon.events.clear()
    daemon.start()
    assert sync(ctl, "s1")["gap"] == "another run"
    assert live(ctl) == names(daemon)
    found = compare(ctl, "s1")
    assert (found["catalogued"], found["untracked"], found["missing"]) == (5, 0, 0)


def test_what_has_ended_goes_and_a_hold_keeps(ctl, daemon, put):
    put(b"old", subject=ALICE)
    put(b"held", subject=BOB)
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=BOB.hex()))
    sync(ctl, "s1")
    with ctl.books.state.writing() as db:
        db.execute("UPDATE chunks SET expires_at = now()::TIMESTAMP - INTERVAL 1 SECOND")
        db.execute("UPDATE holds SET lifted_at = now()::TIMESTAMP")  # the store alone knows of it
    (row,) = ctl.call("retention.apply", DPO, RetentionApply())["stores"]
    assert (row["asked"], row["removed"], row["held"], row["error"]) == (2, 1, 1, None)
    assert names(daemon) == [b"held"]


def test_a_user_is_erased_and_a_held_chunk_is_frozen(ctl, daemon, put):
    put(b"one", subject=ALICE)
    put(b"two", subject=ALICE, model=b"m" * 16)
    put(b"bob", subject=BOB)
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", model=(b"m" * 16).hex()))
    done = ctl.call("erase.subject", DPO, EraseSubject("acme", subject=ALICE.hex()))
    assert (done["outcome"], names(daemon)) == ("restricted", [b"bob", b"two"])
    assert done["receipt"]["negative_probes"] == {"known": 2, "probed": 2, "absent": 1, "present": 0, "anew": 0}
    status, found = daemon.admin("GET", "/v1/governance")
    assert (status, found["frozen"]) == (200, 1)


def test_a_tenant_is_erased(ctl, daemon, put):
    for number in range(20):
        put(b"chunk%d" % number, subject=ALICE)
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", confirm="acme"))
    assert (done["outcome"], names(daemon), live(ctl)) == ("erased", [], [])
    assert done["receipt"]["totals"]["copies"] == 20
    assert len(done["receipt"]["keys_destroyed"]) == 1


def test_index_values_go_from_tiers_that_the_chunks_have_left(tmp_path):
    """A chunk that was moved leaves its names in freed pages of the first tier's index; an erasure goes there, too."""
    for tier in ("flash", "disk"):
        (tmp_path / tier).mkdir()
    tiers = {tier: {"mounts": [{"path": f"{tmp_path}/{tier}", "capacity": "256MiB"}]} for tier in ("flash", "disk")}
    daemon = Daemon(tmp_path, module="kvctl.store.main", tiers=tiers).start()
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    lease = KeyLease(RootKey(SCOPE, b"r" * 32), daemon.token(), 2**40)
    for number in range(8):
        client.put(lease, b"key %d" % number + bytes(27), b"x" * 9000, meta=Meta(subject=ALICE), ack=Ack.DURABLE)
    client.close()
    done = daemon.admin("POST", "/v1/move", {"id": "m1", "source": "flash", "target": "disk", "tenant": SCOPE.tenant})
    assert done[1]["moved"] == 8
    assert found_in(tmp_path / "flash", ALICE)
    daemon.admin("POST", "/v1/erase", {"tenant": SCOPE.tenant, "subject": ALICE.hex()})
    left = [found_in(tmp_path / tier, name) for tier in ("flash", "disk") for name in (ALICE, b"key 3" + bytes(27))]
    daemon.stop()
    assert left == [[], [], [], []]


def found_in(directory, needle):
    return [str(file) for file in directory.rglob("*") if file.is_file() and needle in file.read_bytes()]
