"""Tier moves against a real kvstored with two tiers: approved, carried out, stopped, resumed, brought back."""

import os
import signal
import threading
import time

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.controller import approvals
from kvctl.controller import moves as module
from kvctl.controller.moving import is_running, run_move, stop_here
from kvctl.controller.settings import StoreSettings
from kvctl.types.chunks import Ack, Meta
from kvctl.types.errors import KvctlError, LockedError, RefusedError
from kvctl.types.requests import ApprovalNamed, MoveNamed, TenantScope, TierPropose
from tests.controller.people import controller, kinds
from tests.controller.policy_site import ANN, BOB, OPERATOR, POLICY, apply, put_copies, state_of, tables, vote
from tests.store.daemon import SCOPE, Daemon

CHUNKS, SIZE = 8, 200_000
STORED = SIZE + 104  # with the sealed chunk's header


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def daemon(tmp_path):
    for tier in ("flash", "disk"):
        (tmp_path / tier).mkdir()
    tiers = {tier: {"mounts": [{"path": f"{tmp_path}/{tier}", "capacity": "256MiB"}]} for tier in ("flash", "disk")}
    made = Daemon(tmp_path, module="kvctl.store.main", tiers=tiers).start()
    client = StoreClient(made.unix, made.connector, made.identity.public)
    lease = KeyLease(RootKey(SCOPE, os.urandom(32)), made.token(scope=SCOPE), 2**40)
    for number in range(CHUNKS):
        client.put(lease, name(number), os.urandom(SIZE), Meta(position=number), Ack.DURABLE)
    client.close()
    yield made
    made.stop()


@pytest.fixture
def ctl(tmp_path, daemon):
    with controller(tmp_path, stores={"s1": StoreSettings(admin=f"unix:{tmp_path}/admin.sock")}) as made:
        apply(made)
        put_copies(made, CHUNKS, size=STORED)
        yield made


def places(daemon):
    daemon.admin("POST", "/v1/flush")
    return {tier["name"]: tier["chunks"] for tier in daemon.admin("GET", "/v1/stat")[1]["tiers"]}


def propose(ctl, target="disk", **more):
    return ctl.call("tier.propose", OPERATOR, TierPropose("acme", "flash", target, **more))


def approved(ctl, **more):
    asked = propose(ctl, **more)
    assert vote(ctl, ANN, asked["approval"])["state"] == "approved"
    return asked["move"]


def do(ctl, verb, move, **more):
    return ctl.call(f"tier.{verb}", OPERATOR, MoveNamed(move, **more))


def row(ctl, move):
    return next(one for one in ctl.call("move.ls", OPERATOR, TenantScope())["moves"] if one["id"] == move)


def code(call, *args, **more):
    with pytest.raises(KvctlError) as error:
        call(*args, **more)
    return error.value.code


def test_a_move_is_proposed_approved_and_carried_out(ctl, daemon):
    asked = propose(ctl, reason="room")
    assert asked["impact"]["stores"] == {"s1": {"chunks": CHUNKS, "bytes": CHUNKS * STORED}}
    assert (asked["impact"]["hit_rate_change"], asked["impact"]["holds"]) == (None, [])
    assert asked["impact"]["hit_rate_why"]
    assert (asked["state"], asked["required"]) == ("proposed", 1)
    assert row(ctl, asked["move"])["approval_state"] == "pending"
    assert vote(ctl, ANN, asked["approval"])["state"] == "approved"
    done = do(ctl, "move", asked["move"])
    assert (done["state"], done["moved"], done["bytes"], done["failed"]) == ("done", CHUNKS, CHUNKS * STORED, 0)
    assert done["source_removed_at"] == done["ended_at"] is not None
    assert places(daemon) == {"flash": 0, "disk": CHUNKS}
    assert state_of(ctl, asked["approval"]) == "executed"
    order = [kind for kind in kinds(ctl) if kind.split(".")[0] in ("decision", "move")]
    assert order == [
        "decision.made", "move.proposed", "decision.made", "move.started", "move.store-ended", "move.ended",
    ]  # fmt: skip


def test_nothing_moves_without_an_approval(ctl, daemon):
    asked = propose(ctl)
    assert code(do, ctl, "move", asked["move"]) == "KV-APP-010"
    vote(ctl, ANN, asked["approval"], "no")
    assert code(do, ctl, "move", asked["move"]) == "KV-APP-010"
    assert row(ctl, asked["move"])["approval_state"] == "rejected"
    assert places(daemon)["disk"] == 0


def test_residency_refuses_a_tier_abroad_with_the_rule(ctl):
    with pytest.raises(RefusedError) as bad:
        propose(ctl, "object")
    assert bad.value.code == "KV-TIER-003"
    assert "residency acme v1: US is not in storage_countries [DE, FR]" in bad.value.why
    assert kinds(ctl)[-2:] == ["decision.made", "tier.refused"]
    assert "approval.requested" not in kinds(ctl)


def test_a_policy_that_changed_meanwhile_refuses_an_approved_move(ctl, daemon):
    move = approved(ctl)
    vote(ctl, ANN, apply(ctl, POLICY.replace("[FR, DE]", "[DE]"))["approval"])
    assert code(do, ctl, "move", move) == "KV-TIER-003"
    assert places(daemon)["disk"] == 0
    assert do(ctl, "move", move, dry_run=True)["would"] == "refused"


def test_a_dry_run_leaves_nothing_behind(ctl, daemon):
    before = kinds(ctl)
    assert propose(ctl, dry_run=True)["would"] == "proposed"
    assert code(propose, ctl, "object", dry_run=True) == "KV-TIER-003"
    assert kinds(ctl) == before
    move = approved(ctl)
    before = kinds(ctl)
    assert do(ctl, "move", move, dry_run=True)["would"] == "running"
    assert kinds(ctl) == before
    assert places(daemon)["disk"] == 0


def test_a_move_that_grew_is_ended(ctl, daemon):
    move = approved(ctl)
    put_copies(ctl, 1, first=100, size=STORED)
    assert code(do, ctl, "move", move) == "KV-APP-011"
    assert places(daemon)["disk"] == 0
    assert row(ctl, move)["approval_state"] == "aborted"


def test_a_hold_that_was_set_meanwhile_ends_it(ctl):
    move = approved(ctl)
    hold(ctl)
    with pytest.raises(RefusedError) as bad:
        do(ctl, "move", move)
    assert "hold h1 is met now" in bad.value.why


def hold(ctl, **fields):
    values = {"domain": None, "subject": None, "model": None, "until_at": None, **fields}
    with ctl.books.state.writing() as db:
        db.execute(
            """INSERT INTO holds BY NAME SELECT 'h1' AS id, 'acme' AS tenant, 'case' AS reason, 'dpo' AS set_by,
               TIMESTAMP '2020-01-01' AS from_at, $domain AS domain, $subject AS subject, $model AS model,
               $until_at::TIMESTAMP AS until_at""",
            values,
        )


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        ({}, CHUNKS),
        ({"domain": "user"}, CHUNKS),
        ({"domain": "common"}, None),
        ({"model": "0f" * 16}, CHUNKS),
        ({"model": "1f" * 16}, None),
        ({"subject": "aa"}, None),
        ({"until_at": "2020-02-02"}, None),
    ],
)
def test_the_impact_names_the_holds_that_it_meets(ctl, fields, met):
    hold(ctl, **fields)
    assert propose(ctl, dry_run=True)["impact"]["held"] == ({"h1": met} if met else {})


def test_a_hold_on_a_person_is_met_by_what_that_person_read_too(ctl):
    hold(ctl, subject="aa")
    with ctl.books.state.writing() as db:
        db.execute("INSERT INTO lineage VALUES ('acme', 'user', 'aa', '3'::BLOB, now()::TIMESTAMP)")
    assert propose(ctl, dry_run=True)["impact"]["held"] == {"h1": 1}


def test_what_is_no_move_is_said_at_once(ctl):
    assert code(propose, ctl, "flash") == "KV-TIER-001"
    assert code(propose, ctl, "moon") == "KV-TIER-001"
    assert code(propose, ctl, kind="odd") == "KV-TIER-001"
    assert code(propose, ctl, model="odd") == "KV-TIER-001"
    assert code(propose, ctl, model="1f" * 16) == "KV-TIER-002"
    assert code(propose, ctl, kind="common") == "KV-TIER-002"
    assert code(do, ctl, "move", "m-none") == "KV-TIER-010"
    move = approved(ctl)
    for verb in ("resume", "rollback", "stop"):
        assert code(do, ctl, verb, move) in ("KV-TIER-005", "KV-TIER-006", "KV-TIER-007")


def test_a_move_goes_back_and_takes_only_its_own_with_it(ctl, daemon):
    move = approved(ctl)
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    do(ctl, "move", move)
    # Another move brings one more chunk into the target: it is not the first one's.
    lease = KeyLease(RootKey(SCOPE, os.urandom(32)), daemon.token(scope=SCOPE), 2**40)
    client.put(lease, name(99), os.urandom(SIZE), Meta(position=99), Ack.DURABLE)
    client.close()
    daemon.admin("POST", "/v1/move", {"id": "other", "source": "flash", "target": "disk", "tenant": "acme"})
    assert places(daemon) == {"flash": 0, "disk": CHUNKS + 1}
    assert do(ctl, "rollback", move, dry_run=True)["would"] == "running"
    back = do(ctl, "rollback", move)
    assert (back["state"], back["moved"], back["bytes"]) == ("rolled-back", 0, 0)
    assert places(daemon) == {"flash": CHUNKS, "disk": 1}
    assert code(do, ctl, "rollback", move) == "KV-TIER-006"
    assert code(do, ctl, "move", move) == "KV-TIER-004"


def test_going_back_is_decided_on_too(ctl, daemon):
    move = approved(ctl)
    do(ctl, "move", move)
    text = POLICY.replace("{store: s1, site: paris}", "{store: s1, site: dallas}, {store: s1, tier: disk, site: paris}")
    text = text.replace("places:\n  - {store: s1, site: dallas}, {", "places:\n  - {store: s1, site: dallas}\n  - {")
    abroad = apply(ctl, text)["approval"]
    vote(ctl, ANN, abroad)
    vote(ctl, BOB, abroad)
    assert code(do, ctl, "rollback", move) == "KV-TIER-003"
    assert places(daemon)["disk"] == CHUNKS


class Slow:
    """Moves that wait between two looks, so that a test can act in between."""

    def __init__(self, ctl, move):
        self.result = None
        self.thread = threading.Thread(target=self._work, args=(ctl, move), daemon=True)
        self.thread.start()

    def _work(self, ctl, move):
        self.result = do(ctl, "move", move)


def paced(monkeypatch, pace):
    """Each store is asked to move so many bytes a second."""
    real = module.steps

    def steps(*args, **more):
        found = real(*args, **more)
        return [{**step, "request": {**step["request"], "pace": pace}} for step in found]

    monkeypatch.setattr(module, "steps", steps)


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


def test_a_running_move_is_stopped_and_resumed(ctl, daemon, monkeypatch):
    move = approved(ctl)
    paced(monkeypatch, STORED / 2)
    slow = Slow(ctl, move)
    until(lambda: row(ctl, move)["state"] == "running" and is_running(ctl, move))
    until(lambda: (row(ctl, move)["progress"] or {}).get("s1", {}).get("moved"))
    assert code(do, ctl, "resume", move) == "KV-TIER-009"
    assert do(ctl, "stop", move)["state"] == "stopping"
    slow.thread.join(30)
    assert slow.result["state"] == "stopped"
    moved = slow.result["moved"]
    assert 0 < moved < CHUNKS
    assert places(daemon) == {"flash": CHUNKS - moved, "disk": moved}
    assert slow.result["source_removed_at"] is None
    monkeypatch.undo()
    with ctl.books.state.writing() as db:  # the last steps on record carry the slow pace
        db.execute(
            """UPDATE events SET data = regexp_replace(data, ', "pace": [0-9.]+', '') WHERE kind = 'move.started'"""
        )
    again = do(ctl, "resume", move)
    assert (again["state"], again["moved"]) == ("done", CHUNKS)
    assert places(daemon) == {"flash": 0, "disk": CHUNKS}


def test_a_policy_that_is_tightened_while_a_move_runs_stops_it(ctl, daemon, monkeypatch):
    move = approved(ctl)
    paced(monkeypatch, STORED / 2)
    slow = Slow(ctl, move)
    until(lambda: (row(ctl, move)["progress"] or {}).get("s1", {}).get("moved"))
    tighter = apply(ctl, POLICY.replace("[FR, DE]}", "[DE]}"))["approval"]
    vote(ctl, ANN, tighter)
    slow.thread.join(30)
    assert slow.result["state"] == "stopped"
    assert "residency acme v2: FR is not in storage_countries [DE]" in slow.result["why"]
    assert 0 < slow.result["moved"] < CHUNKS
    assert [event.kind for event in ctl.books.recorded(0)].count("tier.refused") == 1
    assert code(do, ctl, "resume", move) == "KV-TIER-003"


def test_ctrl_c_stops_it_and_says_what_was_done(ctl, daemon, monkeypatch):
    move = approved(ctl)
    paced(monkeypatch, STORED / 2)

    def interrupt():
        until(lambda: (row(ctl, move)["progress"] or {}).get("s1", {}).get("moved"))
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    done = do(ctl, "move", move)
    watcher.join(5)
    assert (done["state"], done["interrupted"]) == ("stopped", True)
    assert 0 < done["moved"] < CHUNKS
    assert places(daemon) == {"flash": CHUNKS - done["moved"], "disk": done["moved"]}


def test_a_move_that_was_cut_off_is_counted_once(ctl, daemon):
    """The controller ended after the store was asked: the store went on, and only its own list knows the count."""
    move = approved(ctl)
    began = start_only(ctl, move)
    daemon.admin("POST", "/v1/move", began["steps"][0]["request"])
    assert row(ctl, move)["state"] == "running"
    assert module.take_up(ctl) == [move]
    assert (row(ctl, move)["state"], row(ctl, move)["moved"]) == ("done", CHUNKS)
    assert module.take_up(ctl) == []


def test_a_move_that_may_not_go_on_is_stopped_with_the_reason(ctl, daemon):
    move = approved(ctl)
    start_only(ctl, move)
    vote(ctl, ANN, apply(ctl, POLICY.replace("[FR, DE]", "[DE]"))["approval"])
    module.take_up(ctl)
    assert row(ctl, move)["state"] == "stopped"
    assert "residency forbids" in row(ctl, move)["why"]
    assert places(daemon)["disk"] == 0


def start_only(ctl, move):
    """What is on record when a controller dies right after it began."""
    with ctl.books.deciding() as db:
        found = module.table.find(db, move)
        plan = module.steps(move, module._selection(found), ["s1"])
        decisions = module._decisions(ctl, db, "acme", ["s1"], "disk", move)
        _, executed = approvals.cleared(ctl, OPERATOR, found["approval"])
        begun = module._begin("move.started", found, plan, decisions, back=False)
        ctl.books.commit(OPERATOR, [*(d.event for d in decisions), executed, begun])
    return begun.data


def test_a_store_that_does_not_answer_fails_the_move_until_it_is_resumed(ctl, daemon):
    move = approved(ctl)
    daemon.stop()
    failed = do(ctl, "move", move)
    assert failed["state"] == "failed"
    assert "KV-STORE-030" in failed["why"]
    assert failed["moved"] in (None, 0)
    daemon.events.clear()  # it says that it is ready once more
    daemon.start()
    again = do(ctl, "resume", move)
    assert (again["state"], again["moved"]) == ("done", CHUNKS), again


def test_a_store_that_nobody_can_reach_is_said_before_anything_is_done(ctl):
    put_copies(ctl, 1, store="s2", first=50)
    move = approved(ctl, store="s2")
    before = kinds(ctl)
    assert code(do, ctl, "move", move) == "KV-TIER-008"
    assert kinds(ctl) == before


def test_a_controller_that_stays_moves_in_a_thread(ctl, daemon, monkeypatch):
    move = approved(ctl)
    ctl.schedule = object()
    assert do(ctl, "move", move) == {"schema": "kvctl.tier.move/1", "move": move, "state": "running"}
    until(lambda: row(ctl, move)["state"] == "done" and not is_running(ctl, move))
    assert places(daemon)["disk"] == CHUNKS


def test_two_cannot_carry_out_the_same_move(ctl):
    move = approved(ctl)
    start_only(ctl, move)
    seen = []

    def look(about):
        seen.append(about)
        with pytest.raises(LockedError):
            run_move(ctl, move)

    run_move(ctl, move, look)
    assert stop_here(ctl, move) is False
    assert row(ctl, move)["state"] == "done"


def test_every_table_is_made_again_from_the_log(ctl, daemon):
    move = approved(ctl)
    do(ctl, "move", move)
    do(ctl, "rollback", move)
    with pytest.raises(RefusedError):
        propose(ctl, "object")
    before = tables(ctl)
    ctl.books.reindex()
    assert tables(ctl) == before
    assert ctl.call("approve.show", OPERATOR, ApprovalNamed(row(ctl, move)["approval"]))["state"] == "executed"
