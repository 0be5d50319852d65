"""Four eyes: what must not count, what runs out, and what is no longer what was approved."""

import dataclasses

import pytest

from kvctl.controller import approvals
from kvctl.controller.accounts import Accounts
from kvctl.controller.approvals import Executor
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Kind, Principal, Role
from kvctl.types.requests import AccountChange, AccountCreate, ApprovalList, ApprovalNamed, ApprovalVote
from tests.controller.people import ADMIN, controller, kinds
from tests.controller.policy_site import ANN, BOB, DPO, EVE, OPERATOR, payload_of, state_of, tables, vote


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        yield made


class Deed:
    """A kind of request of the tests' own: what it would touch, and what it did."""

    def __init__(self, monkeypatch, kind="test.deed"):
        self.kind = kind
        self.impact = {"chunks": 100, "bytes": 1000, "by": {"acme": 100}, "holds": []}
        self.done = []
        self.fails: KvctlError | None = None
        self.EXECUTE = {kind: Executor(lambda ctl, payload: self.impact, self.carry_out)}
        monkeypatch.setitem(approvals.EXECUTORS, kind, "tests.deed")
        monkeypatch.setitem(__import__("sys").modules, "tests.deed", self)

    def carry_out(self, ctl, who, request):
        if self.fails:
            raise self.fails
        self.done.append((who.name, request.content))
        return [Event("deed.done", {"approval": request.id}, request.tenant)]

    def ask(self, ctl, required=1, who=OPERATOR):
        payload = {"b": 1, "a": "é"}
        return approvals.request(ctl, who, self.kind, "acme", payload, dict(self.impact), required, "why not")[
            "approval"
        ]


@pytest.fixture
def deed(monkeypatch):
    return Deed(monkeypatch)


def refused(ctl, who, approval, **more):
    with pytest.raises(RefusedError) as error:
        ctl.call("approve.vote", who, ApprovalVote(approval, "yes", more.get("payload", payload_of(ctl, approval))))
    return error.value.code


def test_the_last_vote_that_is_needed_carries_it_out(ctl, deed):
    one = deed.ask(ctl, required=2)
    assert vote(ctl, ANN, one)["state"] == "pending"
    assert deed.done == []
    assert vote(ctl, BOB, one)["state"] == "executed"
    assert deed.done == [("local:bob", {"a": "é", "b": 1})]
    assert kinds(ctl) == [
        "approval.requested", "approval.voted", "approval.voted", "approval.approved", "deed.done", "approval.executed",
    ]  # fmt: skip


def test_whoever_asks_does_not_vote(ctl, deed):
    both = dataclasses.replace(ANN, roles=frozenset({Role.APPROVER, Role.OPERATOR}))
    one = deed.ask(ctl, who=both)
    assert refused(ctl, both, one) == "KV-APP-004"
    assert vote(ctl, BOB, one)["state"] == "executed"


def test_one_vote_a_person(ctl, deed):
    one = deed.ask(ctl, required=2)
    vote(ctl, ANN, one)
    assert refused(ctl, ANN, one) == "KV-APP-005"
    assert state_of(ctl, one) == "pending"


def test_a_token_does_not_vote(ctl, deed):
    one = deed.ask(ctl)
    script = Principal("token:ann", frozenset({Role.APPROVER}), kind=Kind.TOKEN, fresh=True)
    assert refused(ctl, script, one) == "KV-API-004"


def test_a_stale_proof_does_not_vote(ctl, deed):
    one = deed.ask(ctl)
    assert refused(ctl, dataclasses.replace(ANN, fresh=False), one) == "KV-API-003"


def test_an_operator_does_not_vote(ctl, deed):
    one = deed.ask(ctl)
    assert refused(ctl, OPERATOR, one) == "KV-API-001"


@pytest.mark.parametrize(("kind", "allowed"), [("test.deed", False), ("erase.tenant", True), ("hold.lift", True)])
def test_a_data_protection_officer_votes_on_erasure_and_holds_alone(ctl, monkeypatch, kind, allowed):
    one = Deed(monkeypatch, kind).ask(ctl)
    if allowed:
        assert vote(ctl, DPO, one)["state"] == "executed"
    else:
        assert refused(ctl, DPO, one) == "KV-APP-003"


def test_a_vote_on_something_else_is_refused(ctl, deed):
    one = deed.ask(ctl)
    assert refused(ctl, ANN, one, payload="f" * 64) == "KV-APP-007"
    assert "approval.voted" not in kinds(ctl)


def test_one_no_ends_it(ctl, deed):
    one = deed.ask(ctl, required=2)
    vote(ctl, ANN, one)
    assert vote(ctl, BOB, one, "no")["state"] == "rejected"
    assert refused(ctl, EVE, one) == "KV-APP-006"
    assert deed.done == []
    with pytest.raises(UsageError) as bad:
        ctl.call("approve.vote", EVE, ApprovalVote(one, "perhaps", "f" * 64))
    assert bad.value.code == "KV-APP-008"


def test_what_nobody_decided_expires_on_record(ctl, deed, monkeypatch):
    one = deed.ask(ctl)
    payload = payload_of(ctl, one)
    monkeypatch.setattr(approvals, "now", lambda: "2999-01-01T00:00:00.000Z")
    assert refused(ctl, ANN, one, payload=payload) == "KV-APP-006"
    assert state_of(ctl, one) == "expired"
    assert kinds(ctl)[-1] == "approval.expired"
    assert approvals.expire(ctl) == []


def test_a_read_ends_what_is_over(ctl, deed, monkeypatch):
    one = deed.ask(ctl)
    monkeypatch.setattr(approvals, "now", lambda: "2999-01-01T00:00:00.000Z")
    (row,) = ctl.call("approve.ls", OPERATOR, ApprovalList())["approvals"]
    assert (row["id"], row["state"]) == (one, "expired")


def test_what_was_approved_and_not_carried_out_expires(ctl, deed, monkeypatch):
    one = deed.ask(ctl)
    deed.fails = KvctlError("KV-TEST-001", "the disk is full")
    with pytest.raises(KvctlError):
        vote(ctl, ANN, one)
    assert state_of(ctl, one) == "approved"
    monkeypatch.setattr(approvals, "now", lambda: "2999-01-01T00:00:00.000Z")
    deed.fails = None
    with pytest.raises(RefusedError) as bad:
        ctl.call("approve.execute", OPERATOR, ApprovalNamed(one))
    assert bad.value.code == "KV-APP-010"
    assert deed.done == []
    assert ctl.call("approve.show", OPERATOR, ApprovalNamed(one))["history"][-1]["data"]["which"] == "execution"


def test_what_failed_is_carried_out_later_without_another_vote(ctl, deed):
    one = deed.ask(ctl)
    deed.fails = KvctlError("KV-TEST-001", "the disk is full")
    with pytest.raises(KvctlError):
        vote(ctl, ANN, one)
    deed.fails = None
    assert ctl.call("approve.execute", OPERATOR, ApprovalNamed(one))["state"] == "executed"
    with pytest.raises(RefusedError):
        ctl.call("approve.execute", OPERATOR, ApprovalNamed(one))
    assert len(deed.done) == 1


@pytest.mark.parametrize(
    ("now", "state"),
    [
        ({"chunks": 105, "bytes": 1050, "by": {"acme": 105}, "holds": []}, "executed"),
        ({"chunks": 106, "bytes": 1000, "by": {"acme": 100}, "holds": []}, "aborted"),
        ({"chunks": 100, "bytes": 1000, "by": {"acme": 106}, "holds": []}, "aborted"),
        ({"chunks": 100, "bytes": 1000, "by": {"acme": 100, "globex": 1}, "holds": []}, "aborted"),
        ({"chunks": 100, "bytes": None, "by": {"acme": 100}, "holds": []}, "aborted"),
        ({"chunks": 10, "bytes": 10, "by": {}, "holds": []}, "executed"),
        ({"chunks": 10, "bytes": 10, "by": {"acme": 0}, "holds": []}, "executed"),
        ({"chunks": 100, "bytes": 1000, "by": {"acme": 100}, "holds": ["h1"]}, "aborted"),
    ],
)
def test_what_grew_or_meets_a_hold_is_ended(ctl, deed, now, state):
    one = deed.ask(ctl)
    deed.impact = now
    answer = vote(ctl, ANN, one)
    assert answer["state"] == state
    assert bool(answer["why"]) == (state == "aborted")
    assert state_of(ctl, one) == state
    assert len(deed.done) == (state == "executed")
    assert kinds(ctl)[-1] == f"approval.{state}"


def test_a_request_says_when_too_few_could_vote(ctl, deed):
    answer = approvals.request(ctl, OPERATOR, deed.kind, None, {}, {}, 2)
    assert answer["warnings"] == ["2 votes are needed, and 0 accounts beside yours have the role approver"]


def test_lists_are_filtered(ctl, deed):
    first, second = deed.ask(ctl), deed.ask(ctl)
    vote(ctl, ANN, first)

    def ids(**more):
        return {row["id"] for row in ctl.call("approve.ls", OPERATOR, ApprovalList(**more))["approvals"]}

    assert ids() == {first, second}
    assert ids(state="pending") == {second}
    assert ids(tenant="acme") == {first, second}
    assert ids(tenant="globex") == set()
    assert len(ids(limit=1)) == 1
    with pytest.raises(UsageError):
        ids(state="nearly")
    with pytest.raises(UsageError) as bad:
        ctl.call("approve.show", OPERATOR, ApprovalNamed("a-none"))
    assert bad.value.code == "KV-APP-001"


def test_every_table_is_made_again_from_the_log(ctl, deed, monkeypatch):
    for end in ("yes", "no", "grown", "expired"):
        one = deed.ask(ctl, required=1)
        if end == "grown":
            deed.impact = {**deed.impact, "chunks": 999}
        if end == "expired":
            monkeypatch.setattr(approvals, "now", lambda: "2999-01-01T00:00:00.000Z")
            approvals.expire(ctl)
        else:
            vote(ctl, ANN, one, "no" if end == "no" else "yes")
    before = tables(ctl)
    assert sorted(row[9] for row in before["approvals"]) == ["aborted", "executed", "expired", "rejected"]
    ctl.books.reindex()
    assert tables(ctl) == before


def approver(name):
    return Principal(name, frozenset({Role.APPROVER}), fresh=True)


@pytest.mark.parametrize("other", ["local:op", "LOCAL:op", "unix:OP", "local:\uff4fp", "unix:op"])
def test_another_account_of_whoever_asks_does_not_vote(ctl, deed, other):
    one = deed.ask(ctl, who=OPERATOR)  # unix:op
    assert refused(ctl, approver(other), one) == "KV-APP-004"
    assert vote(ctl, ANN, one)["state"] == "executed"


@pytest.mark.parametrize("other", ["unix:ann", "local:Ann", "local:an\uff4e"])
def test_another_account_of_whoever_voted_does_not_vote(ctl, deed, other):
    one = deed.ask(ctl, required=2)
    vote(ctl, ANN, one)
    assert refused(ctl, approver(other), one) == "KV-APP-005"


def test_people_of_two_issuers_are_two(ctl, deed):
    one = deed.ask(ctl, required=2)
    vote(ctl, approver("oidc:https://a.example#7"), one)
    assert vote(ctl, approver("oidc:https://b.example#7"), one)["state"] == "executed"


@pytest.fixture
def ann_has_an_account(ctl):
    Accounts(ctl.books)
    ctl.call("account.create", ADMIN, AccountCreate("ann", ["approver"]))


@pytest.mark.parametrize("change", [{"roles": ["viewer"]}, {"disabled": True}])
def test_a_vote_of_who_may_no_longer_vote_does_not_count(ctl, deed, ann_has_an_account, change):
    one = deed.ask(ctl, required=2)
    vote(ctl, ANN, one)
    ctl.call("account.change", ADMIN, AccountChange("ann", **change))
    assert vote(ctl, BOB, one)["state"] == "pending"
    assert counted(ctl, one) == (1, {"local:ann": False, "local:bob": True})
    assert vote(ctl, EVE, one)["state"] == "executed"
    assert counted(ctl, one) == (3, {"local:ann": True, "local:bob": True, "local:eve": True}), "as it ended"


def counted(ctl, approval):
    """Votes that count, as both the list and the request say, and which of them do."""
    shown = ctl.call("approve.show", OPERATOR, ApprovalNamed(approval))
    (row,) = ctl.call("approve.ls", OPERATOR, ApprovalList())["approvals"]
    assert row["yes"] == shown["yes"]
    return shown["yes"], {one["voter"]: one["counts"] for one in shown["votes"]}


def test_a_role_that_is_taken_away_before_the_execution_ends_the_request(ctl, deed, ann_has_an_account):
    one = deed.ask(ctl)
    deed.fails = KvctlError("KV-CTL-002", "full")
    with pytest.raises(KvctlError):
        vote(ctl, ANN, one)
    assert state_of(ctl, one) == "approved"
    ctl.call("account.change", ADMIN, AccountChange("ann", roles=["viewer"]))
    deed.fails = None
    done = ctl.call("approve.execute", OPERATOR, ApprovalNamed(one))
    assert (done["state"], done["why"]) == (
        "aborted", ["local:ann approved it and may not vote on test.deed any more"]
    )  # fmt: skip
    assert deed.done == []


def test_it_is_carried_out_once(ctl, deed):
    one = deed.ask(ctl)
    vote(ctl, ANN, one)
    with pytest.raises(RefusedError) as again:
        ctl.call("approve.execute", OPERATOR, ApprovalNamed(one))
    assert (again.value.code, len(deed.done)) == ("KV-APP-010", 1)


@pytest.mark.parametrize("limit", [-1, 0, 10**20])
def test_a_limit_that_is_none_is_refused_in_words(ctl, limit):
    with pytest.raises(UsageError) as error:
        ctl.call("approve.ls", OPERATOR, ApprovalList(limit=limit))
    assert error.value.code == "KV-APP-015"
