"""Tenants as their operator sees them, with real books and a real kvstored."""

import dataclasses
import hashlib
import json
import time

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import load_lease
from kvctl.connector.snapshotfile import read_snapshot
from kvctl.connector.wire import PutStatus
from kvctl.controller.books import site_identity
from kvctl.controller.push import MOST, push
from kvctl.controller.settings import StoreSettings
from kvctl.controller.tenants import complete
from kvctl.types.chunks import Ack, Scope
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    EpochRotate,
    KeyCreate,
    KeyNamed,
    LeaseRequest,
    TenantChange,
    TenantCreate,
    TenantNamed,
    TenantOffboard,
    TenantQuota,
    TenantScope,
)
from tests.controller.people import ACME_ADMIN, OPERATOR, controller, kinds, service, tables
from tests.store.daemon import Daemon

ACME = TenantCreate("acme", "Acme SAS", "FR", "gold", 1 << 40, 600, 10**9, 8, "refuse", ["common", "user"])


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        made.call("tenant.create", OPERATOR, ACME)
        yield made


def snapshot(ctl):
    return read_snapshot(ctl.directory / "snapshot.json", [ctl.books.identity.public], now=time.time())


def hold(ctl, domain=None, until=None):
    """A hold in force, as its row."""
    with ctl.books.state.writing() as db:
        db.execute(
            """INSERT INTO holds BY NAME SELECT 'h7' AS id, 'acme' AS tenant, ? AS domain, 'case 7' AS reason,
               'dpo' AS set_by, TIMESTAMP '2020-01-01' AS from_at, ?::TIMESTAMP AS until_at""",
            [domain, until],
        )


def code(error):
    return error.value.code


# --- create, ls, show -----------------------------------------------------------------------------------------------
def test_a_tenant_has_what_was_asked_for(ctl):
    shown = ctl.call("tenant.show", OPERATOR, TenantNamed("acme"))
    about = shown["about"]
    assert (about["state"], about["sla"], about["quota_bytes"], about["entity_country"]) == (
        "active", "gold", 1 << 40, "FR",
    )  # fmt: skip
    assert [(e["domain"], e["retired_at"]) for e in shown["epochs"]] == [("common", None), ("user", None)]
    (view,) = snapshot(ctl).tenants
    assert (view.name, view.state, view.max_concurrent, view.require_subject) == ("acme", "active", 8, "refuse")
    assert (view.requests_per_minute, view.tokens_per_day, view.processing_countries) == (600, 10**9, None)
    assert [domain.name for domain in view.domains] == ["common", "user"]
    assert view.subject_key == ctl.keystore.subject_key("acme")


def test_a_dry_run_changes_nothing(ctl):
    before = kinds(ctl), sorted(path.name for path in ctl.keystore.directory.iterdir())
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex", dry_run=True))
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme", dry_run=True))
    would = ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", dry_run=True))["would"]
    assert sum("destroy the key of acme/" in line for line in would) == 2
    ctl.call("key.create", OPERATOR, KeyCreate("acme", dry_run=True))
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", True, True))
    assert (kinds(ctl), sorted(path.name for path in ctl.keystore.directory.iterdir())) == before


def test_names_are_given_once_also_after_the_tenant_left(ctl):
    with pytest.raises(RefusedError) as caught:
        ctl.call("tenant.create", OPERATOR, ACME)
    assert code(caught) == "KV-TEN-003"
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
    with pytest.raises(RefusedError, match="there was a tenant"):
        ctl.call("tenant.create", OPERATOR, ACME)


def test_an_entity_keeps_its_country(ctl):
    with pytest.raises(UsageError) as caught:
        ctl.call("tenant.create", OPERATOR, TenantCreate("other", "Acme SAS", "DE"))
    assert code(caught) == "KV-TEN-006"


def test_an_administrator_of_one_tenant_sees_that_one(ctl):
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
    assert [t["tenant"] for t in ctl.call("tenant.ls", OPERATOR, TenantScope())["tenants"]] == ["acme", "globex"]
    assert [t["tenant"] for t in ctl.call("tenant.ls", ACME_ADMIN, TenantScope())["tenants"]] == ["acme"]
    ctl.call("key.create", OPERATOR, KeyCreate("globex"))
    assert ctl.call("key.ls", ACME_ADMIN, TenantScope())["keys"] == []
    for name, request in (
        ("tenant.show", TenantNamed("globex")),
        ("key.create", KeyCreate("globex")),
        ("tenant.suspend", TenantChange("globex")),
    ):
        with pytest.raises(RefusedError, match="KV-API-002"):
            ctl.call(name, ACME_ADMIN, request)


# --- API keys -------------------------------------------------------------------------------------------------------
def test_an_api_key_is_shown_once_and_kept_nowhere(ctl):
    made = ctl.call("key.create", ACME_ADMIN, KeyCreate("acme", label="chat", days=30))
    key = made["api_key"]
    assert key.startswith(f"kv-acme-{made['id']}-")
    (view,) = snapshot(ctl).tenants[0].keys
    assert (view.id, view.sha256, view.domain) == (made["id"], hashlib.sha256(key.encode()).hexdigest(), "user")
    assert abs(view.expires_at - time.time() - 30 * 86400) < 60
    ctl.books.log.checkpoint()
    secret = key.rpartition("-")[2].encode()
    files = [path for path in ctl.directory.rglob("*") if path.is_file()]
    assert [path for path in files if secret in path.read_bytes()] == []
    (row,) = ctl.call("key.ls", OPERATOR, TenantScope("acme"))["keys"]
    assert (row["state"], row["label"], row["created_by"]) == ("live", "chat", "local:ann")
    assert "sha256" not in row


def test_a_revoked_key_is_in_no_later_snapshot(ctl):
    one, two = (ctl.call("key.create", OPERATOR, KeyCreate("acme")) for _ in range(2))
    before = snapshot(ctl).number
    assert ctl.call("key.revoke", OPERATOR, KeyNamed("acme", one["id"]))["changed"]
    after = snapshot(ctl)
    assert [key.id for key in after.tenants[0].keys] == [two["id"]]
    assert after.number > before
    assert not ctl.call("key.revoke", OPERATOR, KeyNamed("acme", one["id"]))["changed"]
    assert {k["id"]: k["state"] for k in ctl.call("key.ls", OPERATOR, TenantScope())["keys"]} == {
        one["id"]: "revoked", two["id"]: "live",
    }  # fmt: skip


def test_another_tenants_key_is_not_found(ctl):
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
    made = ctl.call("key.create", OPERATOR, KeyCreate("globex"))
    with pytest.raises(UsageError) as caught:
        ctl.call("key.revoke", ACME_ADMIN, KeyNamed("acme", made["id"]))
    assert code(caught) == "KV-TEN-009"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (KeyCreate("acme", domain="nope"), "KV-TEN-010"), (KeyCreate("nobody"), "KV-TEN-004"),
        (KeyCreate("acme", days=0), "KV-TEN-002"), (KeyCreate("acme", days=400), "KV-TEN-002"),
        (KeyCreate("acme", label="a\nb"), "KV-TEN-002"),
    ],
)  # fmt: skip
def test_keys_that_are_not_made(ctl, request_, expected):
    with pytest.raises(KvctlError) as caught:
        ctl.call("key.create", OPERATOR, request_)
    assert code(caught) == expected


# --- epochs ---------------------------------------------------------------------------------------------------------
def test_rotation_gives_another_salt_and_keeps_the_old_key(ctl):
    old = snapshot(ctl).tenants[0].domains
    done = ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
    new = snapshot(ctl).tenants[0].domains
    assert old[0] == new[0]
    assert (old[1].epoch.hex(), new[1].epoch.hex()) == (done["old_epoch"], done["epoch"])
    assert old[1].salt_key != new[1].salt_key
    assert done["destroyed"] == []
    assert ctl.keystore.root(Scope("acme", "user", old[1].epoch))


def test_destroying_takes_every_older_epoch_of_the_domain(ctl):
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
    done = ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    assert len(done["destroyed"]) == 2
    assert {scope.domain for scope in ctl.keystore.scopes()} == {"common", "user"}
    assert len(ctl.keystore.scopes()) == 2
    rows = ctl.call("tenant.show", OPERATOR, TenantNamed("acme"))["epochs"]
    assert [bool(e["destroy_receipt"]) for e in rows] == [False, True, True, False]


def test_a_hold_keeps_keys(ctl):
    hold(ctl, "user")
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "common", destroy_old=True))
    before = kinds(ctl)
    for name, request in (
        ("key.rotate", EpochRotate("acme", "user", destroy_old=True)),
        ("tenant.offboard", TenantOffboard("acme", "acme")),
        ("tenant.offboard", TenantOffboard("acme", dry_run=True)),
    ):
        with pytest.raises(RefusedError) as caught:
            ctl.call(name, OPERATOR, request)
        assert code(caught) == "KV-TEN-008"
        assert "h7" in str(caught.value)
    assert kinds(ctl) == before
    assert len(ctl.keystore.scopes()) == 3


def test_a_hold_that_is_over_keeps_nothing(ctl):
    hold(ctl, until="2021-01-01")
    assert ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))["destroyed"]


def test_what_goes_cold_is_unknown_until_every_store_was_read(tmp_path):
    stores = {"s1": StoreSettings(f"unix:{tmp_path}/none.sock"), "s2": StoreSettings(f"unix:{tmp_path}/none.sock")}
    with controller(tmp_path, stores=stores) as ctl:
        ctl.call("tenant.create", OPERATOR, ACME)
        asked = EpochRotate("acme", "user", dry_run=True)
        epoch = ctl.call("key.rotate", OPERATOR, asked)["old_epoch"]
        with ctl.books.state.writing() as db:
            db.execute("INSERT INTO sources BY NAME SELECT 's1' AS source, '' AS boot, 0 AS next, now()::TIMESTAMP "
                       "AS seen_at, 0 AS sent, 0 AS stored, 0 AS clock_ms, 'ok' AS state, '' AS why")  # fmt: skip
            db.execute(
                """INSERT INTO chunks BY NAME SELECT 's1' AS store, t AS tier, 'acme' AS tenant, 'user' AS domain,
                   ? AS epoch, k::BLOB AS key, 100 AS bytes, '' AS model, 'conversation' AS class,
                   now()::TIMESTAMP AS stored_at, now()::TIMESTAMP AS placed_at, 'aes' AS sealed
                   FROM (VALUES ('flash', 'a'), ('disk', 'a'), ('flash', 'b')) v(t, k)""",
                [epoch],
            )
        assert ctl.call("key.rotate", OPERATOR, asked)["cold"] == {
            "chunks": None, "bytes": None, "unread_stores": ["s2"],
        }  # fmt: skip
        with ctl.books.state.writing() as db:
            db.execute("INSERT INTO sources SELECT * REPLACE ('s2' AS source) FROM sources")
        assert ctl.call("key.rotate", OPERATOR, asked)["cold"] == {"chunks": 2, "bytes": 300, "unread_stores": []}


# --- suspend, resume, off-board -------------------------------------------------------------------------------------
def test_a_suspended_tenant_is_in_the_snapshot_as_such(ctl):
    done = ctl.call("tenant.suspend", ACME_ADMIN, TenantChange("acme", "invoice"))
    assert done["changed"]
    assert snapshot(ctl).tenants[0].state == "suspended"
    assert not ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))["changed"]
    with pytest.raises(RefusedError, match="KV-TEN-005"):
        ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    assert ctl.call("tenant.resume", OPERATOR, TenantChange("acme"))["changed"]
    assert snapshot(ctl).tenants[0].state == "active"


def test_offboarding_wants_the_name_typed(ctl):
    for typed in ("", "ACME", "globex"):
        with pytest.raises(UsageError) as caught:
            ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", typed))
        assert code(caught) == "KV-TEN-007"
    assert len(ctl.keystore.scopes()) == 2


def test_offboarding_destroys_every_key_and_says_what_is_left(ctl):
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
    ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
    ctl.keystore.create("acme", "user")  # of a creation that was cut off: no event knows it
    done = ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
    assert {scope.tenant for scope in ctl.keystore.scopes()} == {"globex"}
    assert not list(ctl.keystore.directory.glob("acme*"))
    assert len(done["destroyed"]) == 3
    assert all("overwritten" in one["receipt"] for one in done["destroyed"])
    assert len(done["revoked_keys"]) == 1
    assert any("engines" in line for line in done["not_covered"])
    assert [tenant.name for tenant in snapshot(ctl).tenants] == ["globex"]
    with pytest.raises(RefusedError, match="KV-TEN-005"):
        ctl.call("tenant.resume", OPERATOR, TenantChange("acme"))
    assert ctl.call("tenant.show", OPERATOR, TenantNamed("acme"))["about"]["state"] == "offboarded"


def test_reindexing_gives_the_same_tables(ctl):
    ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    made = ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    ctl.call("key.revoke", OPERATOR, KeyNamed("acme", made["id"]))
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme", "x"))
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("globex", "globex"))
    before, shot = tables(ctl), snapshot(ctl)
    assert before["epochs"]
    ctl.books.reindex()
    assert tables(ctl) == before
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    assert (snapshot(ctl).number, snapshot(ctl).tenants) == (shot.number, shot.tenants)


def test_a_lost_key_shuts_its_domain_and_no_other(ctl):
    """One file that is gone does not keep every tenant's next snapshot from being published."""
    ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
    epoch = snapshot(ctl).tenants[0].domains[1].epoch
    (ctl.keystore.directory / f"acme.user.{epoch.hex()}.root").unlink()
    answer = ctl.call("key.create", OPERATOR, KeyCreate("globex"))["snapshot"]
    assert [(p["tenant"], p["domain"], p["code"]) for p in answer["left_out"]] == [("acme", "user", "KV-TEN-020")]
    acme, globex = snapshot(ctl).tenants
    assert [domain.name for domain in acme.domains] == ["common"]
    assert len(globex.keys) == 1


def test_a_snapshot_that_cannot_be_written_does_not_keep_stores_from_being_told(ctl, tmp_path):
    (ctl.directory / "snapshot.json").unlink()
    (ctl.directory / "snapshot.json").symlink_to(tmp_path / "elsewhere")
    done = ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    assert done["changed"]
    assert done["snapshot"]["error"]["code"] == "KV-CONN-011"
    assert "stores" in done
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_cannot_be_destroyed_yet_is_not_forgotten(ctl, monkeypatch):
    """The books open, the tenant is not called off-boarded, and the key goes at a later attempt."""

    def full(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(ctl.keystore, "destroy", full)
        with pytest.raises(OSError, match="Input/output"):
            ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
        assert all("error" in row for row in complete(ctl))
        shown = ctl.call("tenant.show", OPERATOR, TenantNamed("acme"))
        assert shown["about"]["state"] == "offboarding"
        assert [(bool(e["destroying_at"]), e["destroyed_at"]) for e in shown["epochs"]] == [(True, None)] * 2
    assert ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))["state"] == "offboarded"
    assert ctl.keystore.scopes() == []


# --- with a store ---------------------------------------------------------------------------------------------------
@pytest.fixture
def site(tmp_path):
    """A controller and a kvstored that trusts it."""
    (tmp_path / "mount").mkdir()
    directory = tmp_path / "paris"
    directory.mkdir()
    identity = site_identity(directory / "site.key")
    (tmp_path / "revoked").touch()
    daemon = Daemon(
        tmp_path, module="kvctl.store.main", revoked=f"{tmp_path}/revoked", controllers={"paris": identity.public.hex()}
    ).start()
    settings = {
        "stores": {"s1": StoreSettings(f"unix:{tmp_path}/admin.sock")},
        "connectors": {"gpu1": daemon.connector.public.hex()},
    }
    with controller(tmp_path, **settings) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS"))
        yield ctl, daemon
    daemon.stop()


def lease(ctl, daemon, tmp_path):
    asked = LeaseRequest("acme", "user", daemon.connector.public.hex())
    file = tmp_path / "lease"
    file.touch(0o600)
    file.write_text(json.dumps(ctl.call("lease.issue", service("gpu1"), asked)))
    return load_lease(file)


def outcomes(told):
    return {a["verb"]: a["ok"] for one in told for a in one["answers"]}


def test_a_suspended_tenants_leases_end_at_the_store(site, tmp_path):
    ctl, daemon = site
    held, client = lease(ctl, daemon, tmp_path), StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    client.put(held, b"k" * 32, b"x" * 4096, ack=Ack.DURABLE)
    assert client.has(held, [b"k" * 32]) == [True]
    done = ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    (told,) = done["stores"]
    assert told["ok"], told
    assert outcomes([told])["revoke"]
    assert told["ms"] < 5000
    assert done["revoked_capabilities"] == 1
    with pytest.raises(Exception, match=r"(?i)revoked|suspended"):
        StoreClient(daemon.unix, daemon.connector, daemon.identity.public).has(held, [b"k" * 32])
    ctl.call("tenant.resume", OPERATOR, TenantChange("acme"))
    again = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    assert again.has(lease(ctl, daemon, tmp_path), [b"k" * 32]) == [True]
    again.close()
    client.close()


def test_offboarding_erases_at_the_store(site, tmp_path):
    ctl, daemon = site
    held, client = lease(ctl, daemon, tmp_path), StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    client.put(held, b"k" * 32, b"x" * 4096, ack=Ack.DURABLE)
    client.close()
    done = ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
    assert "store s1: chunks erased" in done["covered"]
    assert daemon.admin("GET", "/v1/ls?tenant=acme")[1] == {"chunks": []}
    assert any("leased them, until" in line for line in done["not_covered"])
    assert "scope.erased" in kinds(ctl)
    assert "erase" not in outcomes(push(ctl))


def test_a_store_that_is_away_is_told_later(site):
    ctl, daemon = site
    daemon.stop()
    done = ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", "acme"))
    (told,) = done["stores"]
    assert not told["ok"]
    assert told["answers"][0]["error"]["code"] == "KV-STORE-030"
    assert any("store s1 has not erased yet" in line for line in done["not_covered"])
    events = kinds(ctl)
    push(ctl)
    assert kinds(ctl) == events  # the same failure again is no news
    daemon.events.clear()
    daemon.start()
    (told,) = push(ctl)
    assert told["ok"], told
    assert outcomes([told])["erase"]
    assert kinds(ctl)[len(events) :] == ["scope.erased", "store.told"]


def test_a_store_of_an_older_version_says_so(site, monkeypatch):
    ctl, _ = site
    from kvctl.controller import push as module

    real = module._requests
    monkeypatch.setattr(
        module, "_requests", lambda *a: [("people" if v == "tenants" else v, b, s) for v, b, s in real(*a)]
    )
    (told,) = ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))["stores"]
    assert not told["ok"]
    (answer,) = [a for a in told["answers"] if a["verb"] == "people"]
    assert answer["error"]["code"] == "KV-STORE-012"
    assert "does not know" in answer["error"]["what"]


def test_a_site_without_tenants_tells_stores_nothing_of_them(tmp_path):
    with controller(tmp_path, stores={"s1": StoreSettings(f"unix:{tmp_path}/none.sock")}) as ctl:
        ctl.books.commit(OPERATOR, [Event("policy.activated", {"changes": []})])
        (told,) = push(ctl)
        assert told["ok"]
        assert told["answers"] == []


def many(ctl, count, first=0):
    """Tenants with names as long as names may be, as rows of the table alone."""
    with ctl.books.state.writing() as db:
        db.execute(
            """INSERT INTO tenants BY NAME SELECT 'tenant-' || lpad(i::VARCHAR, 56, '0') AS tenant, 'E' AS entity,
               'active' AS state, 'gold' AS sla, 9007199254740992 AS quota_bytes, 16 AS max_concurrent,
               'warn' AS require_subject, now()::TIMESTAMP AS created_at, now()::TIMESTAMP AS changed_at, '' AS reason
               FROM range(?, ?) r(i)""",
            [first, first + count],
        )


def test_five_thousand_tenants_are_told_to_a_store(site):
    ctl, _ = site
    many(ctl, 5000)
    ctl.books.commit(OPERATOR, [Event("policy.activated", {"changes": []})])  # a newer version of the list
    (told,) = push(ctl)
    assert told["ok"], told
    assert next(a for a in told["answers"] if a["verb"] == "tenants")["answer"]["tenants"]["count"] == 5002


def test_the_longest_list_is_taken_and_a_longer_one_is_refused_in_words(site):
    ctl, _ = site
    many(ctl, MOST - 2)
    ctl.books.commit(OPERATOR, [Event("policy.activated", {"changes": []})])
    (told,) = push(ctl)
    assert told["ok"], told
    many(ctl, 1, MOST)
    (told,) = push(ctl)
    (error,) = [a["error"] for a in told["answers"] if not a["ok"]]
    assert (error["code"], f"{MOST} tenants" in error["why"]) == ("KV-TEN-013", True)


def test_new_limits_reach_store_gateways_and_the_record(site):
    ctl, _ = site
    asked = TenantQuota("acme", quota_bytes=1 << 20, tokens_per_day=5000, reason="invoice 4711")
    would = ctl.call("tenant.quota", OPERATOR, dataclasses.replace(asked, dry_run=True))["would"]
    assert would == [
        f"set quota_bytes of acme from no limit to {1 << 20}", "set tokens_per_day of acme from no limit to 5000",
    ]  # fmt: skip
    assert "tenant.quota-changed" not in kinds(ctl)
    done = ctl.call("tenant.quota", OPERATOR, asked)
    assert done["limits"]["max_concurrent"] == 16
    assert outcomes(done["stores"]) == {"tenants": True}
    (view,) = snapshot(ctl).tenants
    assert (view.tokens_per_day, view.requests_per_minute) == (5000, None)
    (event,) = [e for e in ctl.books.recorded(0) if e.kind == "tenant.quota-changed"]
    assert event.data["changed"]["quota_bytes"] == {"from": None, "to": 1 << 20}
    assert event.data["reason"] == "invoice 4711"
    before = tables(ctl)
    ctl.books.reindex()
    assert tables(ctl) == before
    again = ctl.call("tenant.quota", OPERATOR, asked)
    assert (again["changed"], kinds(ctl).count("tenant.quota-changed")) == ({}, 1)


def test_a_store_takes_no_more_than_the_new_limit(site, tmp_path):
    ctl, daemon = site
    held = lease(ctl, daemon, tmp_path)
    with StoreClient(daemon.unix, daemon.connector, daemon.identity.public) as client:
        assert client.put(held, b"a" * 32, b"x" * 60_000, ack=Ack.DURABLE) is PutStatus.STORED
        ctl.call("tenant.quota", OPERATOR, TenantQuota("acme", quota_bytes=70_000))
        assert client.put(held, b"b" * 32, b"x" * 80_000, ack=Ack.DURABLE) is not PutStatus.STORED
        ctl.call("tenant.quota", OPERATOR, TenantQuota("acme", unlimited=["quota_bytes"]))
        assert client.put(held, b"c" * 32, b"x" * 80_000, ack=Ack.DURABLE) is PutStatus.STORED


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (TenantQuota("acme"), "KV-TEN-012"),
        (TenantQuota("acme", quota_bytes=0), "KV-TEN-002"),
        (TenantQuota("acme", max_concurrent=2**60), "KV-TEN-002"),
        (TenantQuota("acme", unlimited=["max_concurrent"]), "KV-TEN-002"),
        (TenantQuota("acme", unlimited=["sla"]), "KV-TEN-002"),
        (TenantQuota("acme", quota_bytes=5, unlimited=["quota_bytes"]), "KV-TEN-002"),
        (TenantQuota("nobody", quota_bytes=5), "KV-TEN-004"),
    ],
)
def test_limits_that_are_not_given(ctl, asked, expected):
    with pytest.raises(KvctlError) as caught:
        ctl.call("tenant.quota", OPERATOR, asked)
    assert code(caught) == expected


def test_a_tenants_administrator_does_not_set_its_limits(ctl):
    with pytest.raises(RefusedError):
        ctl.call("tenant.quota", ACME_ADMIN, TenantQuota("acme", quota_bytes=2**50))


@pytest.mark.parametrize("name", ["erase.subject", "erase.tenant", "key.rotate", "tenant.offboard", "hold.lift"])
def test_what_destroys_or_lets_be_destroyed_wants_the_password_once_more(ctl, name):
    assert OPERATIONS[name].step_up
    assert OPERATIONS[name].changes
    assert not OPERATIONS[name].roles & {Role.VIEWER, Role.AUDITOR, Role.APPROVER, Role.SERVICE, Role.BREAK_GLASS}
    if name == "tenant.offboard":
        stale = Principal("local:ann", frozenset({Role.OPERATOR}))
        with pytest.raises(RefusedError) as caught:
            ctl.call(name, stale, TenantOffboard("acme", "acme"))
        assert code(caught) == "KV-API-003"
