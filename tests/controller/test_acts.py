"""Changes of the fleet on record: begun before anything changes, and how they ended, whoever gets to say it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvctl.client.choose import nearest, settings_of
from kvctl.client.ledger import Recorder
from kvctl.controller import access
from kvctl.controller.acts import FOLDER, NAMED, acting, held, take_up
from kvctl.controller.core import opened
from kvctl.controller.provision import provision
from kvctl.controller.record import OwnLedger, take_up_acts
from kvctl.controller.settings import read
from kvctl.controller.site import Site, open_site
from kvctl.types.errors import KvctlError, LockedError, RefusedError, UnreachableError, UsageError
from kvctl.types.plans import Plan, Step
from tests.fleet.remote.conftest import free_port

ROOT = Path(__file__).parents[2]


class Away:
    """A ledger that lets so many events through and is away then."""

    def __init__(self, behind: Any, events: int) -> None:
        self.behind, self.left = behind, events

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        if not self.left:
            raise UnreachableError("KV-CTL-032", "the controller does not answer", where="unix:/s", fix="start it")
        self.left -= 1
        self.behind.record(kind, data, outcome)

    def note(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> bool:
        try:
            self.record(kind, data, outcome)
        except KvctlError:
            return False
        return True


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two nodes that nobody answers for; changes go into the log of its own state directory."""
    file = tmp_path / "inventory.yaml"
    nodes = "".join(f"- {{name: n{i}, address: 127.0.0.1, port: {free_port()}, role: storage}}\n" for i in (1, 2))
    file.write_text("site: {name: par1}\nnodes:\n" + nodes)
    made = open_site(file, tmp_path / "state")
    return replace(made, ledger=ledger(made))


def ledger(site: Site, unrecorded: Any = None) -> Recorder:
    def told(kind: str, error: KvctlError) -> None:
        raise error

    settings = settings_of(site, site.loaded.path, site.directory.parent)
    return Recorder(lambda: nearest(settings), "par1", unrecorded or told)


def log(site: Site) -> list[Any]:
    with opened(read(site.directory, site="par1")) as ctl:
        return list(ctl.books.recorded(0))


def kinds(site: Site) -> list[tuple[str, str]]:
    return [(event.kind, event.outcome) for event in log(site)]


def plan(*nodes: str) -> Plan:
    steps = tuple(
        Step(f"s0{i}", n, "host", "apply", {}, {"host.machine_id": "x"}, (), ("host.os",)) for i, n in enumerate(nodes)
    )
    return Plan("p-0123456789ab", "0123456789abcdef", "par1", "2026-01-01T00:00:00Z", {}, nodes, steps=steps)


def test_a_change_is_on_record_before_it_happens_and_when_it_is_over(site: Site) -> None:
    with acting(site, "deploy", "d1", {"what": "kvstored", "nodes": ["n1"]}) as act:
        assert kinds(site) == [("deploy.started", "ok")]
        act.how["answered"] = 1
    (began, ended) = log(site)
    assert began.data == {"deploy": "d1", "what": "kvstored", "nodes": ["n1"], "nodes_total": 1, "told": "seen"}
    assert (ended.kind, ended.data, ended.outcome) == (
        "deploy.ended", {"deploy": "d1", "answered": 1, "told": "seen"}, "ok"
    )  # fmt: skip
    assert began.actor.startswith("unix:")
    assert list((site.directory / FOLDER).iterdir()) == []


@pytest.mark.parametrize(
    ("error", "outcome", "why"),
    [
        (RefusedError("KV-DEP-003", "another store answers at 10.0.0.1"), "refused", "KV-DEP-003"),
        (UnreachableError("KV-DEP-005", "x"), "failed", "KV-DEP-005"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
    ],
)
def test_what_ended_a_change_is_on_record_without_its_words(
    site: Site, error: BaseException, outcome: str, why: str
) -> None:
    with pytest.raises(type(error)), acting(site, "deploy", "d1", {"nodes": []}):
        raise error
    assert (log(site)[-1].outcome, log(site)[-1].data["why"]) == (outcome, why)
    assert "10.0.0.1" not in str(log(site))


def test_nothing_is_begun_that_cannot_be_recorded(site: Site) -> None:
    away = replace(site, ledger=Away(site.ledger, 0))
    with pytest.raises(UnreachableError) as caught, acting(away, "deploy", "d1", {"nodes": ["n1"]}):
        pytest.fail("it was begun")
    assert (caught.value.code, caught.value.where, caught.value.fix) == ("KV-CTL-070", "unix:/s", "start it")
    assert "KV-CTL-032" in caught.value.why
    assert list((site.directory / FOLDER).iterdir()) == []


def test_a_site_that_is_only_read_changes_nothing(site: Site) -> None:
    with pytest.raises(KvctlError) as caught:
        provision(open_site(site.loaded.path, site.directory.parent), plan("n1"), converge=False, on_event=print)
    assert caught.value.code == "KV-CTL-070"
    assert not (site.directory / "runs").exists()


def test_an_end_that_could_not_be_recorded_is_recorded_by_the_next_change(site: Site) -> None:
    with acting(replace(site, ledger=Away(site.ledger, 1)), "deploy", "d1", {"nodes": []}):
        pass
    assert kinds(site) == [("deploy.started", "ok")]
    with acting(site, "deploy", "d2", {"nodes": []}):
        pass
    assert [(e.kind, e.data["deploy"], e.outcome) for e in log(site)] == [
        ("deploy.started", "d1", "ok"), ("deploy.ended", "d1", "failed"), ("deploy.started", "d2", "ok"),
        ("deploy.ended", "d2", "ok"),
    ]  # fmt: skip
    assert "without saying how" in log(site)[1].data["why"]


def test_an_end_that_cannot_be_taken_up_keeps_the_next_change_from_beginning(site: Site) -> None:
    with acting(replace(site, ledger=Away(site.ledger, 1)), "deploy", "d1", {"nodes": []}):
        pass
    with (
        pytest.raises(UnreachableError),
        acting(replace(site, ledger=Away(site.ledger, 0)), "deploy", "d2", {"nodes": []}),
    ):
        pytest.fail("it was begun")


DYING = """
import sys
from pathlib import Path
from kvctl.controller.acts import acting
from tests.controller.test_acts import ledger
from kvctl.controller.site import open_site
from dataclasses import replace
made = open_site(Path(sys.argv[1]), Path(sys.argv[2]))
with acting(replace(made, ledger=ledger(made)), "deploy", "d1", {"nodes": ["n1"]}):
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_the_end_of_a_command_that_was_killed_is_recorded_when_nobody_holds_it_any_more(site: Site) -> None:
    argv = [sys.executable, "-c", DYING, str(site.loaded.path), str(site.directory.parent)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with opened(read(site.directory, site="par1")) as ctl:
            assert take_up_acts(ctl) == 0  # it is at work
        process.send_signal(signal.SIGKILL)
        process.wait()
    with opened(read(site.directory, site="par1")) as ctl:
        assert take_up_acts(ctl) == 1
        assert take_up_acts(ctl) == 0
    assert [(e.kind, e.outcome, e.actor) for e in log(site)][-1] == ("deploy.ended", "failed", "system")


def test_a_file_that_was_never_written_is_of_nothing(site: Site) -> None:
    (site.directory / FOLDER).mkdir(parents=True)
    (site.directory / FOLDER / "deploy-x.json").touch()
    assert take_up(site.directory, site.ledger) == 0
    assert list((site.directory / FOLDER).iterdir()) == []


def test_two_commands_are_not_at_the_same_one(site: Site) -> None:
    with held(site.directory, "run", "r1"), pytest.raises(LockedError) as caught, acting(site, "run", "r1", {}):
        pytest.fail("it was begun")
    assert caught.value.code == "KV-CTL-072"


def test_names_of_more_nodes_than_an_event_holds_are_all_on_record(site: Site) -> None:
    nodes = [f"node-{i:05d}-{'x' * 50}" for i in range(2 * NAMED + 1)]
    with acting(site, "deploy", "d1", {"nodes": nodes}):
        pass
    events = log(site)
    assert [e.kind for e in events] == ["deploy.nodes", "deploy.nodes", "deploy.started", "deploy.ended"]
    assert sorted(n for e in events[:3] for n in e.data["nodes"]) == nodes
    assert events[2].data["nodes_total"] == len(nodes)


def test_a_run_and_its_plan_are_on_record(site: Site) -> None:
    view = provision(site, plan("n1", "n2"), converge=False, on_event=lambda _: None)
    made, began, ended = log(site)
    assert (made.kind, made.data["hash"], made.data["steps"]) == ("plan.made", "0123456789abcdef", 2)
    assert began.kind == "run.started"
    assert began.data == {
        "run": view["id"], "plan": "p-0123456789ab", "hash": "0123456789abcdef", "steps": 2, "converge": False,
        "nodes": ["n1", "n2"], "nodes_total": 2, "destroys": [], "destroys_total": 0, "told": "seen",
    }  # fmt: skip
    assert (ended.kind, ended.outcome) == ("run.ended", "failed")
    assert (ended.data["run"], ended.data["state"], ended.data["exit_code"]) == (
        view["id"], view["state"], view["exit_code"],
    )  # fmt: skip
    assert ended.data["stayed"] == [{"node": n["node"], "state": n["state"]} for n in view["nodes_view"]]
    assert "127.0.0.1" not in json.dumps([dict(e.data) for e in log(site)])


def test_a_run_without_a_record_is_none(site: Site) -> None:
    for events in (0, 1):
        with pytest.raises(UnreachableError) as caught:
            provision(
                replace(site, ledger=Away(site.ledger, events)), plan("n1"), converge=False, on_event=lambda _: None
            )
        assert caught.value.code == "KV-CTL-070"
        assert not (site.directory / "runs").exists()


def test_how_a_run_ended_is_taken_from_its_journal_later(site: Site) -> None:
    away = replace(site, ledger=Away(site.ledger, 2))
    view = provision(away, plan("n1"), converge=False, on_event=lambda _: None)
    assert [kind for kind, _ in kinds(site)] == ["plan.made", "run.started"]
    with opened(read(site.directory, site="par1")) as ctl:
        take_up(site.directory, OwnLedger(ctl))
    ended = log(site)[-1]
    assert (ended.kind, ended.data["run"], ended.data["state"]) == ("run.ended", view["id"], view["state"])


def test_a_key_that_a_person_trusted_is_on_record_before_it_is_enrolled(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = access.HostKey("ssh-ed25519", b"blob")
    monkeypatch.setattr(access.trusting, "scan", lambda target: [key])
    monkeypatch.setattr(access.trusting, "enrol", lambda target, keys: keys)
    shown = access.HostKeys("n1", ((key.type, key.fingerprint, False),))
    assert access.enrol(site, shown) == 1
    keys = [{"type": key.type, "fingerprint": key.fingerprint}]
    assert log(site)[-1].data == {"node": "n1", "keys": keys, "told": "unseen"}
    with pytest.raises(UnreachableError):
        access.enrol(replace(site, ledger=Away(site.ledger, 0)), shown)


def test_access_that_could_not_be_given_is_on_record(site: Site) -> None:
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4bM0bW2xYd2lmM5k5n0Q2G0l1v1v1v1v1v1v1v1v1v me@there"
    with pytest.raises(KvctlError):
        access.give_access(site, "n1", public, "", None)
    began, ended = log(site)
    assert (began.kind, began.data["nodes"], ended.kind, ended.outcome) == (
        "bootstrap.started", ["n1"], "bootstrap.ended", "failed",
    )  # fmt: skip
    assert began.data["key"].startswith("SHA256:")
    assert "me@there" not in str(log(site))
    with pytest.raises(UsageError):
        access.give_access(site, "n1", "no key", "", None)


class Deaf(Away):
    """A ledger whose answers get lost, once so many came."""

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        self.behind.record(kind, data, outcome)
        if not self.left:
            raise UnreachableError("KV-CTL-035", "the controller's answer did not come")
        self.left -= 1


def test_a_change_whose_begin_was_recorded_without_an_answer_ends_on_record(site: Site) -> None:
    with (
        pytest.raises(UnreachableError),
        acting(replace(site, ledger=Deaf(site.ledger, 0)), "deploy", "d1", {"nodes": []}),
    ):
        pytest.fail("it was begun")
    assert kinds(site) == [("deploy.started", "ok")]
    assert take_up(site.directory, site.ledger) == 1
    assert kinds(site) == [("deploy.started", "ok"), ("deploy.ended", "failed")]
