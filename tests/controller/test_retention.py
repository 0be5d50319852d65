"""Retention at a controller: what it says must go is what goes, and nothing that a hold keeps."""

import time

import pytest

from kvctl.controller.catalogue import sync
from kvctl.types.errors import UsageError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import HoldSet, RetentionApply, RetentionExplain, RetentionPlan, TenantCreate
from tests.controller import people
from tests.controller.stores import ALICE, BOB, Store, key, serving

DPO = Principal("local:dora", frozenset({Role.DPO}), fresh=True)
NOW = int(time.time())


@pytest.fixture(autouse=True)
def present():
    """The clock of each test begins with it: a run of all tests takes a while to come here."""
    global NOW
    NOW = int(time.time())


@pytest.fixture
def store(tmp_path):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as made:
        yield made


@pytest.fixture
def ctl(tmp_path, store):
    with people.controller(tmp_path, stores={"s1": store.settings}) as made:
        made.call("tenant.create", people.OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        with made.books.state.writing() as db:
            db.execute(
                """INSERT INTO retention_policies BY NAME SELECT 'acme' AS tenant, 'conversation' AS class,
                   1 AS version, 60 AS minimum_s, 86400 AS maximum_s, 3600 AS idle_s,
                   TIMESTAMP '2020-01-01' AS valid_from, '' AS sha256"""
            )
        yield made


def fill(ctl, store):
    store.put("old", stored_at=NOW - 90_000)
    store.put("ended", stored_at=NOW - 10, expires_at=NOW - 1)
    store.put("idle", stored_at=NOW - 7200)
    store.put("new", stored_at=NOW - 10)
    store.put("common", kind="common", subject=None, stored_at=NOW - 10**6)
    store.put("held", subject=BOB, stored_at=NOW - 10**6)
    sync(ctl, "s1")


def plan(ctl, **asked):
    return ctl.call("retention.plan", DPO, RetentionPlan(**asked))


def test_the_plan_says_what_goes_and_by_which_rule_the_rest_is_kept(ctl, store):
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=BOB))
    fill(ctl, store)
    found = plan(ctl)
    by_rule = {(row["class"], row["rule"]): (row["copies"], row["go"]) for row in found["totals"]}
    assert by_rule == {
        ("conversation", "maximum"): (2, True), ("conversation", "idle"): (1, True), 
        ("conversation", "minimum"): (1, False), ("conversation", "hold"): (1, False), ("common", "none"): (1, False),
    }  # fmt: skip
    assert found["going"] == {"copies": 3, "bytes": 300}
    assert {row["key"] for row in found["items"]} == {key(name) for name in ("old", "ended", "idle")}
    assert 3590 < found["lag"]["late_p99_s"] < 3700
    assert len(plan(ctl, limit=1)["items"]) == 1


def test_apply_removes_exactly_that(ctl, store):
    ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=BOB))
    fill(ctl, store)
    done = ctl.call("retention.apply", DPO, RetentionApply())
    (row,) = done["stores"]
    assert (row["asked"], row["removed"], row["held"], row["absent"], row["error"]) == (3, 3, 0, 0, None)
    assert {name[4] for name in store.chunks} == {key(name) for name in ("new", "common", "held")}
    sync(ctl, "s1")
    assert plan(ctl)["going"] == {"copies": 0, "bytes": 0}
    assert people.kinds(ctl)[-2:] == ["retention.started", "retention.applied"]


def test_a_copy_on_another_tier_that_stays_keeps_the_chunk(ctl, store):
    store.put("a", stored_at=NOW - 7200)
    store.put("a", tier="disk", stored_at=NOW - 7200)
    sync(ctl, "s1")
    with ctl.books.state.writing() as db:
        db.execute("UPDATE chunks SET used_at = now()::TIMESTAMP WHERE tier = 'disk'")
    assert ctl.call("retention.apply", DPO, RetentionApply())["stores"] == []
    assert len(store.chunks) == 2


def test_what_stores_hold_and_what_they_do_not_have_is_recorded(ctl, store):
    fill(ctl, store)
    gone = next(row for row in store.chunks.values() if row["key"] == key("old"))
    store.lose(gone)
    store.holds = {"version": 1, "holds": [{"tenant": "acme", "subject": ALICE}]}
    (row,) = ctl.call("retention.apply", DPO, RetentionApply())["stores"]
    assert (row["removed"], row["held"], row["absent"]) == (1, 2, 1)


def test_a_store_that_does_not_answer_is_named(ctl, store):
    fill(ctl, store)
    store.broken.add("remove")
    (row,) = ctl.call("retention.apply", DPO, RetentionApply())["stores"]
    assert row["error"].startswith("KV-STORE-030")
    assert list(ctl.books.recorded(0))[-1].outcome == "failed"


def test_a_dry_run_asks_no_store(ctl, store):
    fill(ctl, store)
    before = len(store.asked), people.kinds(ctl)
    found = ctl.call("retention.apply", DPO, RetentionApply(dry_run=True))
    assert sum(row["copies"] for row in found["would"]) == 4
    assert (len(store.asked), people.kinds(ctl)) == before


def test_explain_names_the_rule_and_what_every_other_rule_says(ctl, store):
    held = ctl.call("hold.set", DPO, HoldSet("acme", "case 7", subject=BOB))["hold"]
    fill(ctl, store)
    (copy,) = ctl.call("retention.explain", DPO, RetentionExplain("acme", key("held")[:12]))["copies"]
    assert (copy["state"], copy["rule"], copy["until"]) == ("kept", "hold", None)
    assert held in copy["text"]
    said = {row["rule"]: row["says"] for row in copy["rules"]}
    assert "maximum age passed" in said["maximum"]
    assert "policy conversation version 1" in said["maximum"]
    (new,) = ctl.call("retention.explain", DPO, RetentionExplain("acme", key("new")))["copies"]
    assert new["rule"] == "minimum"
    assert new["until"] is not None


def test_explain_refuses_what_is_no_key_or_was_never_there(ctl, store):
    for text, code in (("xyz", "KV-RET-007"), ("abcdef012345", "KV-RET-008")):
        with pytest.raises(UsageError) as error:
            ctl.call("retention.explain", DPO, RetentionExplain("acme", text))
        assert error.value.code == code


def test_a_store_that_was_never_read_is_not_known_to_hold_nothing(ctl):
    assert plan(ctl)["not_known"] == [{"store": "s1", "state": "never read", "why": ""}]


def test_another_tenants_admin_sees_nothing_of_it(ctl, store):
    store.put("b", tenant="beta", stored_at=NOW - 90_000)
    fill(ctl, store)
    bound = ctl.call("retention.plan", people.ACME_ADMIN, RetentionPlan())
    assert {row["tenant"] for row in bound["totals"]} == {"acme"}
