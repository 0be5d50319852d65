"""Holds: in force where the document says so, lifted by two others, and over when their time is."""

import pytest

from kvctl.controller.catalogue import sync
from kvctl.controller.holds import push_holds
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    AccountCreate,
    ApprovalNamed,
    ApprovalVote,
    HoldLift,
    HoldSet,
    TenantCreate,
    TenantOffboard,
    TenantScope,
)
from tests.controller import people
from tests.controller.stores import ALICE, Store, serving

DPO = Principal("local:dora", frozenset({Role.DPO}), fresh=True)
VOTERS = [Principal(f"local:{name}", frozenset({Role.APPROVER}), fresh=True) for name in ("vera", "walt")]


@pytest.fixture
def store(tmp_path):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as made:
        yield made


@pytest.fixture
def ctl(tmp_path, store):
    with people.controller(tmp_path, stores={"s1": store.settings}) as made:
        made.call("tenant.create", people.OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        yield made


def set_hold(ctl, **more):
    return ctl.call("hold.set", DPO, HoldSet("acme", **{"reason": "case 7", **more}))


def holds(ctl):
    return ctl.call("hold.ls", DPO, TenantScope())["holds"]


def test_a_hold_is_at_the_stores_when_it_is_set(ctl, store):
    done = set_hold(ctl, subject=ALICE)
    assert [(one["store"], one["ok"]) for one in done["stores"]] == [("s1", True)]
    (held,) = store.holds["holds"]
    assert held == {"id": done["hold"], "tenant": "acme", "domain": None, "subject": ALICE, "model": None}
    assert holds(ctl)[0]["stores"] == [{"store": "s1", "in_force": True}]


def test_a_hold_is_in_force_on_a_clock_that_was_put_back(ctl, store):
    ctl.call("tenant.create", people.OPERATOR, TenantCreate("beta", "Beta SAS", "FR"))
    with people.ahead(60):
        held = set_hold(ctl)["hold"]
    with pytest.raises(RefusedError) as refused:
        ctl.call("tenant.offboard", people.OPERATOR, TenantOffboard("acme", confirm="acme"))
    assert (refused.value.code, held in refused.value.what) == ("KV-TEN-008", True)
    other = ctl.call("hold.set", DPO, HoldSet("beta", reason="case 8"))["hold"]
    assert {one["id"] for one in store.holds["holds"]} == {held, other}
    assert ctl.call("hold.lift", DPO, HoldLift("acme", held, "case closed", dry_run=True))["hold"] == held


def test_a_store_that_was_not_reached_is_named_and_told_later(ctl, store):
    set_hold(ctl, subject=ALICE)
    store.broken.add("holds")
    done = set_hold(ctl)
    assert [(one["ok"], one["why"][:12]) for one in done["stores"]] == [(False, "KV-STORE-030")]
    assert [row["stores"][0]["in_force"] for row in holds(ctl)] == [True, False]
    store.broken.clear()
    assert push_holds(ctl)[0]["ok"]
    assert [row["stores"][0]["in_force"] for row in holds(ctl)] == [True, True]
    before = people.kinds(ctl)
    push_holds(ctl)  # nothing new is on record
    assert people.kinds(ctl) == before


def test_a_hold_ends_with_its_time_and_stores_hear_of_it(ctl, store):
    set_hold(ctl, until="2099-01-01T00:00:00Z")
    with ctl.books.state.writing() as db:
        db.execute("UPDATE holds SET until_at = now()::TIMESTAMP - INTERVAL 1 SECOND")
    push_holds(ctl)
    assert store.holds["holds"] == []
    assert holds(ctl)[0]["state"] == "lifted"
    assert "hold.ended" in people.kinds(ctl)


def test_the_user_of_a_hold_is_kept_as_a_pseudonym(ctl, store):
    done = set_hold(ctl, user="alice@example.org")
    assert done["subject"] == ctl.keystore.pseudonym("acme", "alice@example.org")
    assert all(b"alice@" not in path.read_bytes() for path in ctl.directory.rglob("*") if path.is_file())


def test_two_others_lift_it(ctl, store):
    for voter in VOTERS:
        ctl.call("account.create", people.ADMIN, AccountCreate(voter.name.removeprefix("local:"), ["approver"]))
    held = set_hold(ctl)["hold"]
    store.put("a")
    sync(ctl, "s1")
    asked = ctl.call("hold.lift", DPO, HoldLift("acme", held, "case closed"))
    assert (asked["impact"]["copies"], asked["required"], asked["state"]) == (1, 2, "pending")
    for _ in range(20):
        store.put(f"later{_}", stored_at=4_000_000_000)  # what comes meanwhile is not what is asked about
    sync(ctl, "s1")
    states = []
    for voter in VOTERS:
        vote = ApprovalVote(asked["approval"], "yes", asked["payload_sha256"])
        states.append(ctl.call("approve.vote", voter, vote)["state"])
        assert holds(ctl)[0]["state"] == ("in force" if states == ["pending"] else "lifted")
    assert states == ["pending", "executed"]
    push_holds(ctl)
    assert store.holds["holds"] == []
    shown = ctl.call("approve.show", people.OPERATOR, ApprovalNamed(asked["approval"]))
    assert shown["state"] == "executed"


def test_nobody_lifts_what_is_not_in_force(ctl):
    with pytest.raises(RefusedError) as error:
        ctl.call("hold.lift", DPO, HoldLift("acme", "h-nope"))
    assert error.value.code == "KV-RET-006"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"reason": " "}, "KV-RET-002"),
        ({"until": "soon"}, "KV-RET-003"),
        ({"until": "2020-01-01T00:00:00Z"}, "KV-RET-003"),
        ({"subject": "alice"}, "KV-RET-004"),
        ({"subject": "00" * 16}, "KV-RET-004"),
        ({"subject": ALICE, "user": "alice"}, "KV-RET-004"),
        ({"user": ""}, "KV-RET-004"),
        ({"model": "llama"}, "KV-RET-004"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_on_record(ctl, more, code):
    with pytest.raises(UsageError) as error:
        set_hold(ctl, **more)
    assert error.value.code == code
    assert "hold.set" not in people.kinds(ctl)


def test_a_dry_run_counts_and_changes_nothing(ctl, store):
    store.put("a")
    sync(ctl, "s1")
    found = set_hold(ctl, subject=ALICE, dry_run=True)["would"]
    assert found == {"hold": {"copies": 1, "bytes": 100}, "stores": ["s1"]}
    assert holds(ctl) == []
    assert store.holds["version"] == 0
