import json

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.rdma import parse_link

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

JSON = sample("rdma/j_link_show.json")
TEXT = (
    "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0 \n"
    "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1np1 netdev_index 5 \n    caps: <CM, IP_BASED_GIDS>\n"
    "8/1: mlx5_bond_0/1: state ACTIVE physical_state LINK_UP netdev reth0 \n"
    "link mlx5_2/1 subnet_prefix fe80:0000:0000:0000 lid 13399 sm_lid 49151 lmc 0"
    " state ACTIVE physical_state LINK_UP \n"
)


def test_json() -> None:
    up, down = parse_link(JSON)
    assert (up.device, up.port, up.state, up.netdev) == ("mlx5_0", 1, "ACTIVE", "ens1f0np0")
    assert (down.device, down.state, down.physical_state) == ("mlx5_1", "DOWN", "DISABLED")
    assert down.netdev_index is None


def test_text_of_every_version() -> None:
    up, down, bond, infiniband = parse_link(TEXT)
    assert (up.device, up.port, up.state, up.physical_state, up.netdev) == (
        "mlx5_0",
        1,
        "ACTIVE",
        "LINK_UP",
        "ens1f0np0",
    )
    assert (down.state, down.netdev_index) == ("DOWN", 5)
    assert (bond.device, bond.ifindex, bond.netdev) == ("mlx5_bond_0", 8, "reth0")
    assert (infiniband.lid, infiniband.sm_lid, infiniband.netdev) == (13399, 49151, None)


def test_no_links() -> None:
    assert parse_link("") == ()
    assert parse_link("[]") == ()


@pytest.mark.parametrize("text", ["bash: rdma: command not found\n", '{"x":1}', "[7]"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_link(text)


def test_cut_noise_and_damage() -> None:
    assert_cut_changes_nothing(parse_link, TEXT)
    assert_noise_changes_nothing(parse_link, TEXT)
    assert_survives_damage(parse_link, [TEXT, JSON, json.dumps(json.loads(JSON), indent=1)])


def test_the_json_of_another_tool_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        parse_link('[{"ifname":"ens21np0","config":["RS"],"active":["RS"]}]')
