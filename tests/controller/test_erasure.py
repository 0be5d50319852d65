"""Erasure: everything of a user or a tenant goes, holds win, and the receipt says what was not reached."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import _duckdb as duckdb
import pytest

from kvctl.controller.catalogue import sync_all
from kvctl.controller.checks import checks, run
from kvctl.controller.erasure import resume_erasures
from kvctl.controller.schedule import Job, Schedule
from kvctl.controller.settings import EngineSettings
from kvctl.ledger.proof import check_proof
from kvctl.state import erasures
from kvctl.state.governance import SCHEMA, VERSION, GovernanceState, rows
from kvctl.types.chunks import Scope
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    EpochRotate,
    EraseChunks,
    EraseSubject,
    EraseTenant,
    ErasureNamed,
    HoldSet,
    StoreDestroyed,
    TenantCreate,
    TenantScope,
)
from tests.controller import people
from tests.controller.policy_site import ANN, vote
from tests.controller.stores import ALICE, BOB, MODEL, Gateway, Store, key, serving

DPO = Principal("local:dora", frozenset({Role.DPO}), fresh=True)


@pytest.fixture
def gateway(tmp_path):
    with serving(Gateway(tmp_path / "g"), tmp_path / "g") as made:
        yield made


@pytest.fixture
def stores(tmp_path):
    with (
        serving(Store(tmp_path / "s1"), tmp_path / "s1") as one,
        serving(Store(tmp_path / "s2"), tmp_path / "s2") as two,
    ):
        yield one, two


@pytest.fixture
def ctl(tmp_path, stores, gateway):
    named = {"s1": stores[0].settings, "s2": stores[1].settings}
    gateways = {"g1": EngineSettings(admin=f"unix:{gateway.socket}")}
    with people.controller(tmp_path, stores=named, gateways=gateways) as made:
        for tenant in ("acme", "beta"):
            made.call(
                "tenant.create", people.OPERATOR, TenantCreate(tenant, "Acme SAS", "FR", domains=["user", "code"])
            )
        yield made


def erase(ctl, **asked):
    return ctl.call("erase.subject", DPO, EraseSubject("acme", **asked))


def later(minutes):
    return datetime.now(UTC) + timedelta(minutes=minutes)


def names(store):
    return sorted(name[4] for name in store.chunks)


def epoch(ctl, domain="user", tenant="acme"):
    with ctl.books.state.reading() as db:
        (row,) = rows(
            db, "SELECT epoch FROM epochs WHERE tenant = ? AND domain = ? AND retired_at IS NULL", [tenant, domain]
        )
    return row["epoch"]


def test_a_users_chunks_go_everywhere_and_the_receipt_proves_it(ctl, stores):
    stores[0].put("a")
    stores[0].put("a", tier="disk")
    stores[1].put("b", length=7)
    stores[1].put("bob's", subject=BOB)
    stores[1].put("beta's", tenant="beta")
    done = erase(ctl, subject=ALICE)
    assert (names(stores[0]), names(stores[1])) == ([], sorted([key("bob's"), key("beta's")]))
    assert (done["outcome"], done["receipt"]["totals"]) == ("erased", {"copies": 3, "bytes": 207, "rows": 3})
    probes = done["receipt"]["negative_probes"]
    assert (probes["probed"], probes["absent"], probes["present"]) == (2, 2, 0)
    found = ctl.call("erase.receipt", DPO, ErasureNamed(done["erasure"]))
    assert found["receipt"] == done["receipt"]
    log = ctl.books.log
    check_proof(found["proof"], found["entry"].encode(), log.origin, ctl.books.identity.public)
    assert json.loads(found["entry"])["data"]["receipt"] == done["receipt"]


def test_private_blocks_that_the_user_shared_go_too_and_common_ones_stay(ctl, stores):
    sync_all(ctl)
    shared = stores[0].put("shared", subject=BOB)
    stores[0].seen(shared, ALICE)
    common = stores[0].put("common", subject=None, kind="common")
    stores[0].seen(common, ALICE)
    erase(ctl, subject=ALICE)
    assert names(stores[0]) == [key("common")]
    with ctl.books.state.reading() as db:
        assert rows(db, "SELECT * FROM lineage") == []


def test_a_user_is_named_by_id_and_the_id_is_kept_nowhere(ctl, stores):
    pseudonym = ctl.keystore.pseudonym("acme", "alice@example.org")
    stores[0].put("a", subject=pseudonym)
    done = erase(ctl, user="alice@example.org")
    assert names(stores[0]) == []
    assert "alice@example.org" not in json.dumps(done)
    for path in ctl.directory.rglob("*"):
        if path.is_file():
            assert b"alice@example.org" not in path.read_bytes()


def test_a_tenants_keys_are_destroyed_and_it_begins_anew(ctl, stores):
    old = {domain: epoch(ctl, domain) for domain in ("user", "code")}
    stores[0].put("a", epoch=old["user"])
    stores[1].put("b", epoch=old["code"], domain="code", subject=None)
    stores[1].put("stray", epoch="dd" * 16)  # of an epoch that no book knows
    stores[1].put("beta's", tenant="beta")
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", confirm="acme"))
    assert done["outcome"] == "erased"
    assert (names(stores[0]), names(stores[1])) == ([], [key("beta's")])
    assert {(k["domain"], k["epoch"]) for k in done["receipt"]["keys_destroyed"]} == set(old.items())
    for domain, was in old.items():
        assert epoch(ctl, domain) != was
        with pytest.raises(RefusedError):
            ctl.keystore.root(Scope("acme", domain, bytes.fromhex(was)))
    methods = {row["domain"]: row["method"] for row in done["receipt"]["copies"]}
    assert methods["user"].startswith("key destroyed")


def test_one_domain_alone(ctl, stores):
    stores[0].put("a", epoch=epoch(ctl))
    stores[0].put("b", epoch=epoch(ctl, "code"), domain="code")
    before = epoch(ctl, "code")
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", "user", confirm="acme"))
    assert (done["outcome"], names(stores[0]), epoch(ctl, "code")) == ("erased", [key("b")], before)


def test_a_hold_restricts_and_the_erasure_ends_when_it_is_over(ctl, stores):
    stores[0].put("a", model="aa" * 16)
    stores[0].put("b")
    held = ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=ALICE, model="aa" * 16))
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], names(stores[0])) == ("restricted", [key("a")])
    assert done["receipt"]["holds"] == [held["hold"]]
    assert any(f"under hold {done['receipt']['holds'][0]}" in line for line in done["receipt"]["not_covered"])
    (row,) = ctl.call("erase.ls", DPO, TenantScope())["erasures"]
    assert (row["outcome"], row["closed"]) == ("restricted", None)
    assert resume_erasures(ctl) == []
    with ctl.books.state.writing() as db:
        db.execute("UPDATE holds SET until_at = now()::TIMESTAMP - INTERVAL 1 SECOND")
    (again,) = resume_erasures(ctl)
    assert (again["outcome"], names(stores[0])) == ("erased", [])


def test_a_hold_in_a_domain_keeps_its_key(ctl, stores):
    was = epoch(ctl)
    stores[0].put("a", epoch=was)
    stores[0].put("b", epoch=was, subject=BOB)
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", domain="user", subject=ALICE))
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", confirm="acme"))
    assert done["outcome"] == "restricted"
    assert (done["receipt"]["keys_kept_under_hold"], epoch(ctl)) == (["user"], was)
    assert names(stores[0]) == [key("a")]


def test_a_hold_on_everything_keeps_every_key(ctl, stores):
    stores[0].put("a", epoch=epoch(ctl))
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=ALICE))
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", confirm="acme"))
    assert (done["outcome"], done["receipt"]["keys_kept_under_hold"]) == ("restricted", ["code", "user"])
    assert (names(stores[0]), done["receipt"]["keys_destroyed"]) == ([key("a")], [])


def test_a_store_that_does_not_know_of_the_hold_is_not_told_to_erase(ctl, stores):
    stores[0].put("a")
    stores[0].broken.add("holds")
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=ALICE))
    assert erase(ctl, subject=ALICE)["outcome"] == "open"
    assert names(stores[0]) == [key("a")]
    assert "erase" not in [verb for verb, _ in stores[0].asked]


def test_a_store_that_is_away_leaves_it_open_until_it_is_back(ctl, stores):
    stores[0].put("a")
    stores[1].put("b")
    stores[1].broken.add("erase")
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], names(stores[0]), names(stores[1])) == ("open", [], [key("b")])
    assert done["why"][0].startswith("s2: KV-STORE-030")
    receipt = ctl.call("erase.receipt", DPO, ErasureNamed(done["erasure"]))
    assert (receipt["outcome"], receipt["receipt"], receipt["proof"]) == ("open", None, None)
    stores[1].broken.clear()
    (again,) = resume_erasures(ctl, later(5))
    assert (again["outcome"], names(stores[1])) == ("erased", [])
    assert again["receipt"]["totals"]["copies"] == 2  # what the first run removed is told as well
    assert resume_erasures(ctl) == []


def test_what_was_cut_off_after_it_was_received_is_completed(ctl, stores, monkeypatch):
    stores[0].put("a")
    with monkeypatch.context() as patch:
        patch.setattr("kvctl.controller.erasure.push_holds", lambda ctl: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            erase(ctl, subject=ALICE)
    assert names(stores[0]) == [key("a")]
    assert [one["outcome"] for one in resume_erasures(ctl)] == ["erased"]
    assert names(stores[0]) == []


def test_a_place_that_could_not_be_probed_is_not_a_no(ctl, stores):
    stores[0].put("a")
    stores[0].not_reached = ["flash:mount1"]
    done = erase(ctl, subject=ALICE)
    assert done["outcome"] == "open"
    assert "store s1: flash:mount1 could not be read" in done["receipt"]["not_covered"]


def test_what_another_stores_under_the_same_name_later_does_not_keep_it_open(ctl, stores, monkeypatch):
    stores[0].put("a")
    plain = Store.post_erase

    def erase_and_store(store, body):
        answer = plain(store, body)
        store.ahead = 60
        store.put("a", subject=BOB)
        return answer

    monkeypatch.setattr(Store, "post_erase", erase_and_store)
    monkeypatch.setattr("kvctl.controller.catalogue.NEAR_MS", 1e9)
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], done["receipt"]["negative_probes"]["anew"]) == ("erased", 1)


def test_the_receipt_says_which_engines_answered(ctl, gateway):
    gateway.engines = {"engine1": True, "engine2": False}
    covered = erase(ctl, subject=ALICE)["receipt"]
    assert [(e["engine"], e["answered"]) for e in covered["engines"]] == [("g1/engine1", True), ("g1/engine2", False)]
    assert any(line.startswith("memory of engine g1/engine2") for line in covered["not_covered"])
    gateway.broken.add("flush")
    away = erase(ctl, subject=ALICE)["receipt"]
    assert any("g1/*" in line for line in away["not_covered"])
    with ctl.books.state.reading() as db:
        assert len(rows(db, "SELECT * FROM engine_flushes")) == 3


def test_without_gateways_and_stores_it_says_that_nothing_was_told(tmp_path):
    with people.controller(tmp_path) as bare:
        bare.call("tenant.create", people.OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        lines = erase(bare, subject=ALICE)["receipt"]["not_covered"]
    assert any("no gateway is registered" in line for line in lines)
    assert any("no store is configured" in line for line in lines)


def test_copies_of_unknown_users_and_backups_are_not_covered(ctl, stores):
    stores[0].put("x", subject=None)
    with ctl.books.state.writing() as db:
        db.execute(
            "INSERT INTO backups VALUES ('b1', now()::TIMESTAMP, 'nightly', now()::TIMESTAMP + INTERVAL 9 DAY, 'paris')"
        )
    lines = erase(ctl, subject=ALICE)["receipt"]["not_covered"]
    assert any("no user was named" in line for line in lines)
    assert any(line.startswith("backup b1, kept at paris") for line in lines)


def test_a_dry_run_changes_nothing_and_shows_what_it_would(ctl, stores):
    stores[0].put("a", epoch=epoch(ctl))
    sync_all(ctl)
    before = people.kinds(ctl)
    found = ctl.call("erase.tenant", DPO, EraseTenant("acme", dry_run=True))["would"]
    assert [row["copies"] for row in found["copies"]] == [1]
    assert {k["domain"] for k in found["destroy_keys"]} == {"user", "code"}
    assert erase(ctl, subject=ALICE, dry_run=True)["erasure"] is None
    assert people.kinds(ctl) == before
    assert names(stores[0]) == [key("a")]


def test_a_wrong_confirmation_or_name_is_refused_before_anything(ctl):
    for request, code in (
        (EraseTenant("acme", confirm="acm"), "KV-ERA-002"),
        (EraseTenant("acme", "nope", confirm="acme"), "KV-ERA-003"),
        (EraseTenant("nope", confirm="nope"), "KV-RET-005"),
    ):
        with pytest.raises(UsageError) as error:
            ctl.call("erase.tenant", DPO, request)
        assert error.value.code == code
    with pytest.raises(UsageError):
        erase(ctl)
    assert "erasure.received" not in people.kinds(ctl)


def test_a_tenants_admin_sees_its_own_erasures_alone(ctl):
    done = ctl.call("erase.subject", DPO, EraseSubject("beta", subject=ALICE))
    assert ctl.call("erase.ls", people.ACME_ADMIN, TenantScope())["erasures"] == []
    with pytest.raises(UsageError):
        ctl.call("erase.receipt", people.ACME_ADMIN, ErasureNamed(done["erasure"]))


def test_the_rows_are_made_again_from_the_log(ctl, stores):
    stores[0].put("a")
    erase(ctl, subject=ALICE)
    with ctl.books.state.reading() as db:
        before = rows(db, "SELECT * FROM erasures"), rows(db, "SELECT * FROM engine_flushes")
    ctl.books.reindex()
    with ctl.books.state.reading() as db:
        assert (rows(db, "SELECT * FROM erasures"), rows(db, "SELECT * FROM engine_flushes")) == before


def test_a_clock_that_is_ahead_hides_nothing(ctl, stores):
    stores[0].ahead = 600.0
    stores[0].put("a")
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], done["receipt"]["negative_probes"]["probed"]) == ("erased", 1)


def test_what_was_stored_before_the_clock_was_put_back_is_erased(ctl, stores):
    sync_all(ctl)
    with people.ahead(60, *stores):
        stores[0].put("a", epoch=epoch(ctl))
        stores[1].put("b", epoch=epoch(ctl), subject=BOB)
        sync_all(ctl)
    assert erase(ctl, subject=ALICE, dry_run=True)["would"]["copies"][0]["copies"] == 1
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], names(stores[0]), names(stores[1])) == ("erased", [], [key("b")])
    assert (done["receipt"]["totals"]["copies"], done["receipt"]["negative_probes"]["absent"]) == (1, 1)
    done = chunks(ctl, model=MODEL)
    assert (done["outcome"], names(stores[1])) == ("erased", [])


def test_keys_that_were_made_while_the_clock_was_ahead_are_destroyed(ctl, stores):
    with people.ahead(10_800, *stores):
        ctl.call("key.rotate", people.OPERATOR, EpochRotate("acme", "user"))
    made = epoch(ctl)
    stores[0].put("a", epoch=made)
    done = ctl.call("erase.tenant", DPO, EraseTenant("acme", confirm="acme"))
    assert (done["outcome"], names(stores[0])) == ("erased", [])
    assert made in {one["epoch"] for one in done["receipt"]["keys_destroyed"]}
    assert epoch(ctl) != made
    with pytest.raises(RefusedError):
        ctl.keystore.root(Scope("acme", "user", bytes.fromhex(made)))


def test_what_comes_while_a_clock_that_was_put_back_catches_up_does_not_keep_it_open(ctl, stores, monkeypatch):
    sync_all(ctl)
    with people.ahead(60, *stores):
        stores[0].put("a")
        sync_all(ctl)
    plain = Store.post_remove

    def remove_and_store(store, body):
        answer = plain(store, body)
        store.put("a", subject=BOB)
        return answer

    monkeypatch.setattr(Store, "post_remove", remove_and_store)
    done = chunks(ctl, model=MODEL)
    probes = done["receipt"]["negative_probes"]
    assert (done["outcome"], probes["anew"], probes["present"]) == ("erased", 1, 0)


def test_a_clock_that_is_put_back_before_the_next_try_leaves_nothing_unprobed(ctl, stores):
    stores[0].put("a")
    stores[0].broken.add("erase")
    with people.ahead(60):
        assert erase(ctl, subject=ALICE)["outcome"] == "open"
    stores[0].broken.clear()
    (again,) = resume_erasures(ctl, later(10))
    probes = again["receipt"]["negative_probes"]
    assert (again["outcome"], names(stores[0]), probes["known"], probes["absent"]) == ("erased", [], 1, 1)


def chunks(ctl, **asked):
    return ctl.call("erase.chunks", DPO, EraseChunks("acme", confirm="acme", **asked))


def test_what_was_stored_for_a_model_goes_and_the_rest_stays(ctl, stores):
    stores[0].put("a", model="aa" * 16)
    stores[1].put("b", model="aa" * 16, kind="common", subject=None)
    stores[0].put("c")
    stores[0].put("d", model="aa" * 16, tenant="beta")
    done = chunks(ctl, model="aa" * 16)
    assert (done["outcome"], names(stores[0]), names(stores[1])) == ("erased", sorted([key("c"), key("d")]), [])
    assert done["receipt"]["scope"]["model"] == "aa" * 16
    assert done["receipt"]["negative_probes"]["absent"] == 2
    assert done["receipt"]["keys_destroyed"] == []


def test_what_was_stored_in_a_time_goes_up_to_its_end(ctl, stores):
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    for name, seconds in (("before", -1), ("first", 0), ("last", 59), ("after", 60)):
        stores[0].put(name, stored_at=int(begin.timestamp()) + seconds)
    sync_all(ctl)
    span = {"since": "2026-03-01T01:00:00+01:00", "until": "2026-03-01T00:01:00Z"}
    assert ctl.call("erase.chunks", DPO, EraseChunks("acme", dry_run=True, **span))["would"]["copies"][0]["copies"] == 2
    done = chunks(ctl, **span)
    assert (done["outcome"], names(stores[0])) == ("erased", sorted([key("before"), key("after")]))
    assert done["receipt"]["scope"]["stored_from"] == "2026-03-01T00:00:00.000Z"


def test_a_hold_on_another_model_does_not_restrict_it(ctl, stores):
    stores[0].put("a", model="aa" * 16)
    stores[0].put("b", model="bb" * 16)
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", model="bb" * 16))
    assert chunks(ctl, model="aa" * 16)["outcome"] == "erased"
    assert chunks(ctl, model="bb" * 16)["outcome"] == "restricted"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "KV-ERA-006"),
        ({"model": "../x"}, "KV-ERA-006"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "KV-ERA-006"),
        ({"until": "yesterday"}, "KV-POL-005"),
        ({"model": "aa" * 16, "domain": "nowhere"}, "KV-ERA-003"),
    ],
)
def test_no_model_and_no_time_is_nothing_to_erase(ctl, stores, asked, code):
    stores[0].put("a")
    with pytest.raises(UsageError) as refused:
        chunks(ctl, **asked)
    assert (refused.value.code, names(stores[0])) == (code, [key("a")])


def test_copies_at_a_store_that_nobody_configures_keep_it_open(tmp_path, ctl, stores):
    stores[1].put("b")
    sync_all(ctl)
    ctl.settings = replace(ctl.settings, stores={"s1": stores[0].settings})
    done = erase(ctl, subject=ALICE)
    assert (done["outcome"], done["why"][0]) == (
        "open", "s2: it is not in the controller's settings: nothing was asked"
    )  # fmt: skip
    assert names(stores[1]) == [key("b")]


def test_a_store_that_comes_back_has_its_erasures_taken_up_at_once(ctl, stores):
    stores[0].put("a")
    ctl.schedule = Schedule.of([Job("erasures", 300.0, partial(resume_erasures, ctl), due=1e12)])
    stores[0].broken.update({"deltas", "erase", "probe"})
    assert erase(ctl, subject=ALICE)["outcome"] == "open"
    stores[0].broken.clear()
    sync_all(ctl)
    assert ctl.schedule.rows()[0]["next_in_seconds"] == 0.0


def test_an_older_table_gets_the_columns_that_it_lacks(tmp_path):
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(SCHEMA.read_text())
        for table, *columns in (
            ("erasures", "model", "stored_from", "stored_until"), ("accounts", "oidc_issuer", "oidc_subject")
        ):  # fmt: skip
            for column in columns:
                db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("CREATE TABLE schema_version (version INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL)")
        db.execute("INSERT INTO schema_version VALUES (1, now()::TIMESTAMP)")
        db.execute("INSERT INTO applied VALUES (0)")
    for _ in range(2):
        state = GovernanceState(path, {})
        with state.reading() as db:
            assert erasures.listed(db, None) == []
            assert db.execute("SELECT max(version) FROM schema_version").fetchone() == (VERSION,)
        state.close()


@pytest.fixture
def gone(ctl, stores):
    """Two copies of a user, at s1 and at s2, which is in the settings no longer."""
    stores[0].put("a")
    stores[1].put("b", length=7)
    sync_all(ctl)
    ctl.settings = replace(ctl.settings, stores={"s1": stores[0].settings})
    return ctl


def declare(ctl, **more):
    return ctl.call("store.destroyed", people.OPERATOR, StoreDestroyed("s2", "shredded, protocol 4711", **more))


def test_an_erasure_that_waits_is_tried_less_and_less_often(gone, gateway):
    erase(gone, subject=ALICE)
    told = len(gateway.asked)
    assert (resume_erasures(gone), len(gateway.asked)) == ([], told)
    assert [one["outcome"] for one in resume_erasures(gone, later(5))] == ["open"]
    assert resume_erasures(gone, later(5)) == []
    assert len(resume_erasures(gone, later(10))) == 1
    assert len(gateway.asked) == told + 2


def test_a_store_that_somebody_else_agrees_is_destroyed_ends_what_waits_for_it(gone):
    before = erase(gone, subject=ALICE)
    asked = declare(gone)
    assert (asked["impact"]["copies"], asked["impact"]["bytes"], asked["impact"]["tenants"]) == (1, 7, 1)
    assert resume_erasures(gone) == []
    assert vote(gone, ANN, asked["approval"])["state"] == "executed"
    (again,) = resume_erasures(gone)
    line = "store s2: destroyed, declared by unix:op and local:ann; nothing was asked"
    assert (again["erasure"], again["outcome"]) == (before["erasure"], "erased")
    assert line in again["receipt"]["not_covered"]
    assert [(row["store"], row["copies"]) for row in again["receipt"]["copies"]] == [("s1", 1), ("s2", 1)]
    found = {one.check.id: one for one in run(gone, [c for c in checks() if c.id in ("A1", "A5", "E2", "E3", "L1")])}
    assert {name: one.rows for name, one in found.items() if str(one.verdict) != "PASS"} == {}


def test_a_store_is_destroyed_with_what_came_before_the_clock_was_put_back(ctl, stores):
    sync_all(ctl)
    with people.ahead(60, *stores):
        stores[1].put("b", length=7)
        sync_all(ctl)
        ctl.settings = replace(ctl.settings, stores={"s1": stores[0].settings})
        ctl.call("hold.set", DPO, HoldSet("beta", "case 7"))
    vote(ctl, ANN, declare(ctl)["approval"])
    with ctl.books.state.reading() as db:
        assert rows(db, "SELECT removed_why FROM chunks") == [{"removed_why": "destroyed"}]
    assert erase(ctl, subject=ALICE)["outcome"] == "erased"


def test_who_asks_later_is_told_of_it_too(gone):
    vote(gone, ANN, declare(gone)["approval"])
    would = gone.call("erase.subject", DPO, EraseSubject("acme", subject=ALICE, dry_run=True))["would"]
    done = erase(gone, subject=ALICE)
    line = "store s2: destroyed, declared by unix:op and local:ann; nothing was asked"
    assert (done["outcome"], line in done["receipt"]["not_covered"], line in would["not_covered"]) == (
        "erased", True, True
    )  # fmt: skip


def test_a_store_that_is_there_again_is_asked_again(gone, stores):
    vote(gone, ANN, declare(gone)["approval"])
    gone.settings = replace(gone.settings, stores={"s1": stores[0].settings, "s2": stores[1].settings})
    stores[1].forget()
    stores[1].restart()
    done = erase(gone, subject=ALICE)
    assert (done["outcome"], names(stores[1])) == ("erased", [])
    assert not any("destroyed" in line for line in done["receipt"]["not_covered"])


def test_only_a_store_that_is_not_asked_any_more_is_declared_destroyed(ctl, stores, gone):
    ctl.settings = replace(ctl.settings, stores={"s1": stores[0].settings, "s2": stores[1].settings})
    with pytest.raises(RefusedError) as there:
        declare(ctl)
    ctl.settings = replace(ctl.settings, stores={})
    with pytest.raises(UsageError) as never:
        ctl.call("store.destroyed", people.OPERATOR, StoreDestroyed("s9", "shredded"))
    with pytest.raises(UsageError) as silent:
        ctl.call("store.destroyed", people.OPERATOR, StoreDestroyed("s2", " "))
    assert (there.value.code, never.value.code, silent.value.code) == ("KV-STORE-035", "KV-STORE-037", "KV-STORE-036")
    assert declare(ctl, dry_run=True)["approval"] is None


def test_it_is_not_destroyed_when_it_is_back_before_somebody_agreed(gone, stores):
    asked = declare(gone)
    gone.settings = replace(gone.settings, stores={"s2": stores[1].settings})
    assert vote(gone, ANN, asked["approval"])["state"] == "aborted"
    with gone.books.state.reading() as db:
        assert erasures.declared(db) == {}
