import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.show_gids import best_v2_index, parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("show_gids")


def test_single_device() -> None:
    gids = parse(sample("show_gids/single_rdma0.txt"))
    assert [gid.index for gid in gids] == [0, 1, 2, 3]
    assert (gids[3].ipv4, gids[3].version, gids[3].netdev) == ("192.0.2.242", "v2", "rdma0")
    assert (gids[0].ipv4, gids[0].link_local) == (None, True)
    assert best_v2_index(gids, "mlx5_0") == 3


def test_container_sees_only_high_indices() -> None:
    gids = parse(sample("show_gids/container_vf_index_4_to_7.txt"))
    assert [best_v2_index(gids, device) for device in ("mlx5_0", "mlx5_1")] == [7, 7]
    assert best_v2_index(gids, "mlx5_2") is None


def test_missing_columns_and_ipv6_global_address() -> None:
    gids = parse(
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
        "mlx5_0\t1\t0\t2001:0db8:0000:0000:0ac0:ebff:fe10:00da\t\t\tv2\teth0\n"
        "mlx5_0\t1\t1\tfe80:0000:0000:0000:0ac0:ebff:fe10:00da\t\t\t\t\n"
        "mlx5_0\t1\t2\t0000:0000:0000:0000:0000:0000:0000:0001\t0.0.0.1  \tv2\teth0\n"
        "n_gids_found=3\n"
    )
    assert (gids[0].ipv4, gids[0].version, gids[0].netdev) == (None, "v2", "eth0")
    assert (gids[1].version, gids[1].netdev) == (None, None)
    assert gids[2].ipv4 is None
    assert best_v2_index(gids, "mlx5_0") is None


def test_bare_head_is_an_empty_table() -> None:
    assert parse("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\nn_gids_found=0\n") == ()


@pytest.mark.parametrize("text", ["", "ls: cannot access '/sys/class/infiniband/': No such file or directory\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse, sample(path))
    assert_noise_changes_nothing(parse, sample(path))


def test_damage() -> None:
    assert_survives_damage(parse, [sample(path) for path in ALL])
