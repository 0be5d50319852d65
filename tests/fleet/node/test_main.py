"""The loop: which events make an interface due, and what is counted and remembered."""

import pytest

from kvctl.fleet.node import main, reapply
from kvctl.fleet.node.main import Node
from kvctl.fleet.node.metrics import Metrics
from kvctl.fleet.node.reapply import Outcome
from kvctl.fleet.node.store import History
from kvctl.fleet.node.watch import Device, Link, Signal


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(reapply, "owned", lambda: {"lo": {"netdev": "lo"}})
    made = Node(History(tmp_path / "flaps.jsonl"), Metrics())
    made.reload()
    made.up["lo"] = True
    yield made
    made.history.close()


def kinds(node):
    return [event["kind"] for event in node.history.read()]


def test_every_owned_interface_is_checked_at_start(node):
    assert set(node.due) == {"lo"}


def test_the_first_start_after_a_boot_puts_the_class_back_and_a_restart_does_not(node):
    node.begin("boot-1")
    assert node.lost == set(), "the first start of all follows the role that set the class"
    node.begin("boot-1")
    assert node.lost == set()
    node.begin("boot-2")
    assert node.lost == {"lo"}


def test_going_down_is_a_flap_and_coming_up_makes_it_due(node):
    node.due.clear()
    node.outcomes["lo"] = Outcome("lo", "ok")
    node.note_link(Link("lo", False, 1500))
    node.note_link(Link("lo", False, 1500))
    assert 'kvctl_link_flaps_total{interface="lo"} 1' in node.numbers.text()
    node.note_link(Link("lo", True, 1500))
    assert kinds(node) == ["flap", "up"]
    assert "lo" in node.due
    assert node.lost == {"lo"}, "its device may have forgotten the class"


def test_an_interface_that_went_away_is_not_checked_until_it_is_back(node):
    node.due.clear()
    node.outcomes["lo"] = Outcome("lo", "ok")
    node.note_link(Link("lo", None))
    assert node.due == {}
    assert node.history.read()[-1]["gone"]
    node.note_link(Link("lo", True, 1500))
    assert "lo" in node.due


def test_an_interface_that_is_not_owned_is_never_due(node):
    node.note_link(Link("veth9", True, 1500))
    assert "veth9" not in node.due
    assert "veth9" not in node.numbers.text()


def test_a_driver_reload_makes_every_owned_interface_due(node):
    node.due.clear()
    node.outcomes["lo"] = Outcome("lo", "ok")
    node.note_device(Device("bind", "infiniband", "mlx5_0"))
    assert set(node.due) == {"lo"}
    assert node.lost == {"lo"}


def test_a_setting_changed_on_a_live_link_is_looked_at_and_left(node, monkeypatch):
    seen = Outcome("lo", "drifted", "mtu 1500 -> 9000", "it differs")
    monkeypatch.setattr(reapply, "look", lambda netdev: seen)
    monkeypatch.setattr(reapply, "ensure", lambda netdev: pytest.fail("nobody asked for a change"))
    for _ in range(3):
        node.note_link(Link("lo", True, 1500))
        node.check("lo")
    assert kinds(node) == ["drift"]
    assert 'kvctl_class_drift_total{interface="lo"} 1' in node.numbers.text()
    assert 'kvctl_class_ok{interface="lo"} 0' in node.numbers.text()
    assert "lo" not in node.due
    monkeypatch.setattr(reapply, "ensure", lambda netdev: Outcome("lo", "reapplied", seen.drift))
    node.note_link(Link("lo", False, 1500))
    node.note_link(Link("lo", True, 1500))
    node.check("lo")
    assert node.health()["ok"]
    assert node.lost == set()


@pytest.mark.parametrize(
    ("outcome", "ok", "events"),
    [
        (Outcome("lo", "ok"), 1, []),
        (Outcome("lo", "reapplied", "mtu 1500 -> 9000"), 1, ["drift"]),
        (Outcome("lo", "failed", "pfc [] -> [3]", "mlnx_qos failed"), 0, ["drift"]),
        (Outcome("lo", "failed", "", "there is no interface lo"), 0, ["failed"]),
    ],
)
def test_an_outcome_is_counted_and_remembered(node, monkeypatch, outcome, ok, events):
    monkeypatch.setattr(reapply, "ensure", lambda netdev: outcome)
    node.touch("lo", lost=True)
    node.check("lo")
    assert f'kvctl_class_ok{{interface="lo"}} {ok}' in node.numbers.text()
    assert kinds(node) == events
    assert node.health()["ok"] is bool(ok)
    assert ("lo" in node.due) is not ok, "a failure is tried again"


def test_the_same_failure_is_remembered_once(node, monkeypatch):
    monkeypatch.setattr(reapply, "ensure", lambda netdev: Outcome("lo", "failed", "", "no tool"))
    for _ in range(3):
        node.touch("lo", lost=True)
        node.check("lo")
    assert kinds(node) == ["failed"]


def test_a_change_under_way_is_waited_for(node, monkeypatch):
    monkeypatch.setattr(reapply, "ensure", lambda netdev: Outcome("lo", "busy"))
    node.touch("lo", lost=True)
    node.check("lo")
    assert "lo" in node.due
    assert "kvctl_class_ok" not in node.numbers.text()


def test_a_broken_class_file_is_told_by_health_and_nothing_is_changed(node, monkeypatch):
    def broken():
        raise ValueError("class.json cannot be read")

    monkeypatch.setattr(reapply, "owned", broken)
    node.reload()
    assert not node.health()["ok"]
    assert "class.json" in node.health()["problems"][0]


def test_a_class_that_is_owned_no_longer_disappears(node, monkeypatch):
    monkeypatch.setattr(reapply, "look", lambda netdev: Outcome("lo", "ok"))
    node.check("lo")
    monkeypatch.setattr(reapply, "owned", dict)
    node.reload()
    assert (node.due, node.outcomes) == ({}, {})
    assert "kvctl_class_ok" not in node.numbers.text()


def test_stop_ends_the_loop(node):
    node.due.clear()
    node.events.put(Signal("stop"))
    assert not node.step()


def test_usage(capsys):
    assert main.main(["no-such-word"]) == 2
    assert "usage" in capsys.readouterr().err
