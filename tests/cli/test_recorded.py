"""What verbs of the fleet leave in the control log: with a kvctld, without one, and when it is away."""

from pathlib import Path
from typing import Any

import pytest

from kvctl.types.errors import ExitCode
from tests.cli.governed import Kvctl
from tests.controller.kvctld import Kvctld
from tests.fleet.remote.conftest import free_port


@pytest.fixture
def kvctl(tmp_path: Path) -> Kvctl:
    """A site of one node that nobody answers for."""
    nodes = f"- {{name: a, address: 127.0.0.1, port: {free_port()}, role: storage}}\n"
    (tmp_path / "inventory.yaml").write_text("site: {name: local}\nnodes:\n" + nodes)
    return Kvctl(tmp_path)


def events(kvctl: Kvctl, *more: str) -> list[Any]:
    return list(kvctl.document("audit", "log", *more)["events"])


def test_check_and_plan_leave_an_event_each_with_their_counts(kvctl: Kvctl):
    kvctl("check", code=ExitCode.UNREACHABLE)
    kvctl("plan", code=ExitCode.UNREACHABLE)
    planned, checked = events(kvctl)
    assert (checked["kind"], checked["data"]["nodes"], checked["data"]["unreachable"]) == ("fleet.checked", 1, 1)
    assert set(checked["data"]["verdicts"]) >= {"pass", "fail", "unknown"}
    assert (planned["kind"], planned["data"]["unreachable"]) == ("plan.made", 1)
    assert planned["data"]["plan"] == f"p-{planned['data']['hash'][:12]}"


def test_a_dry_run_and_a_status_leave_none(kvctl: Kvctl):
    kvctl("provision", "--dry-run", code=ExitCode.UNREACHABLE)
    kvctl("status")
    assert not (kvctl.site / "ledger").exists()


def test_a_run_is_found_by_its_kind(kvctl: Kvctl):
    kvctl("provision", "--converge", "--yes", code=ExitCode.UNREACHABLE)
    assert events(kvctl, "--kind", "run.*") == []  # no node was read, so nothing was begun


def test_with_a_kvctld_events_go_there(kvctl: Kvctl):
    kvctld = Kvctld(kvctl.folder / "state")
    (kvctl.folder / "state").mkdir()
    try:
        kvctld.start()
        done = kvctl("check", "--controller", f"unix:{kvctld.path}", code=ExitCode.UNREACHABLE)
        assert "not on record" not in done.stderr
        kvctld.stop()
    finally:
        kvctld.end()
    assert [event["kind"] for event in events(kvctl)] == ["fleet.checked"]


def test_a_check_goes_on_without_a_record_and_says_so(kvctl: Kvctl):
    done = kvctl("check", "-c", f"unix:{kvctl.folder}/nobody", code=ExitCode.UNREACHABLE)
    assert "not on record: fleet.checked: KV-CTL-032" in done.stderr
    assert "1 nodes read" in done.stderr


def test_what_changes_nodes_is_refused_without_a_record(kvctl: Kvctl):
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIE4bM0bW2xYd2lmM5k5n0Q2G0l1v1v1v1v1v1v1v1v1v"
    (kvctl.folder / "id.pub").write_text(f"ssh-ed25519 {key} me@there\n")
    done = kvctl(
        "node", "bootstrap", "a", "--key", "id.pub", "-c", f"unix:{kvctl.folder}/nobody", code=ExitCode.UNREACHABLE
    )
    assert "KV-CTL-070: could not record bootstrap.started: nothing was changed" in done.stderr


def test_who_copies_the_master_key_is_on_record(kvctl: Kvctl):
    kvctl("tenant", "create", "acme", "--entity", "Acme", "-i", "inventory.yaml")
    kvctl("controller", "backup", "b.kvbackup", "--with-master-key", "m.key")
    (copied,) = events(kvctl, "--kind", "controller.*")
    assert (copied["kind"], copied["data"]) == ("controller.master-key-copied", {"to": "m.key", "told": "unseen"})


def test_both_logs_are_verified_and_a_checkpoint_is_of_its_log(kvctl: Kvctl):
    kvctl("check", code=ExitCode.UNREACHABLE)
    told = kvctl("audit", "verify", "--keep", "kept.checkpoint").stdout
    assert [line.split(":")[0] for line in told.splitlines()] == ["control", "data"]
    found = kvctl.document("audit", "verify", "--since", "kept.checkpoint")
    assert (found["log"], found["since"], found["data_log"]["since"]) == ("control", True, False)
    only = kvctl.document("audit", "verify", "--log", "data")
    assert (only["log"], only["size"], only["gaps"]) == ("data", 0, [])
