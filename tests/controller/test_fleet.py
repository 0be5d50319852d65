"""The fleet through the controller."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.controller import fleet
from kvctl.controller.core import Controller, opened
from kvctl.controller.settings import ControllerSettings
from kvctl.types import requests as r
from kvctl.types.errors import LockedError, UsageError
from kvctl.types.principals import Principal, Role

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
INVENTORY = """\
version: 1
site: {name: par1, country: FR, entity: Example SAS}
nodes:
  - {name: store1, address: 192.0.2.11, role: storage, user: root}
"""


@pytest.fixture
def ctl(tmp_path: Path) -> Iterator[Controller]:
    state = tmp_path / "state"
    with opened(ControllerSettings("par1", "FR", "Example SAS", state / "par1", state_dir=state)) as found:
        yield found


def test_a_site_that_was_never_read(ctl: Controller):
    status = ctl.call("fleet.status", ROOT, r.Nothing())
    assert (status["schema"], status["site"], status["nodes"]) == ("kvctl.status/1", "par1", [])
    assert ctl.call("fleet.findings", ROOT, r.Nothing())["findings"] == []
    assert ctl.call("run.ls", ROOT, r.Listed())["runs"] == []
    with pytest.raises(UsageError) as caught:
        ctl.call("fleet.plan", ROOT, r.PlanNamed())
    assert caught.value.code == "KV-PLAN-010"
    with pytest.raises(UsageError) as caught:
        ctl.call("run.show", ROOT, r.RunNamed("latest"))
    assert caught.value.code == "KV-RUN-001"


@pytest.mark.parametrize("name", ["fleet.check", "fleet.make-plan"])
def test_reading_nodes_needs_an_inventory(ctl: Controller, name: str):
    with pytest.raises(UsageError) as caught:
        ctl.call(name, ROOT, r.NodesNamed())
    assert caught.value.code == "KV-CTL-040"


def test_a_node_that_is_not_in_the_inventory(ctl: Controller, tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    ctl.settings = replace(ctl.settings, inventory=tmp_path / "inventory.yaml")
    with pytest.raises(UsageError) as caught:
        ctl.call("fleet.check", ROOT, r.NodesNamed(["nope"]))
    assert caught.value.code == "KV-INV-020"


def test_the_fleet_is_read_for_one_at_a_time(ctl: Controller, tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    ctl.settings = replace(ctl.settings, inventory=tmp_path / "inventory.yaml")
    with fleet.reading(), pytest.raises(LockedError) as caught:
        ctl.call("fleet.check", ROOT, r.NodesNamed())
    assert caught.value.code == "KV-CTL-041"


@pytest.mark.parametrize("limit", [-5, 0, 10**9])
def test_a_limit_out_of_bounds_is_brought_within(ctl: Controller, limit: int):
    assert ctl.call("run.ls", ROOT, r.Listed(limit))["runs"] == []
