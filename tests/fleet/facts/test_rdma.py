import json
from pathlib import Path

from kvctl.fleet.facts.build import node_facts
from kvctl.types.facts import Gid, RdmaPort
from tests.fleet.facts.hardware import RAILS, document, facts, put, storage_node, tool

PORT = "/sys/class/infiniband/mlx5_0/ports/1"


def port(root: Path) -> RdmaPort:
    return facts(root).nics[0].rdma


def test_a_port_is_found_through_its_interface(tmp_path: Path) -> None:
    found = port(storage_node(tmp_path))
    assert (found.device.value, found.port, found.state.value, found.phys_state.value) == (
        "mlx5_0",
        1,
        "ACTIVE",
        "LinkUp",
    )
    assert (found.link_layer.value, found.rate.value, found.hw_counters.value) == (
        "Ethernet",
        100.0,
        {"out_of_sequence": 7},
    )
    assert (found.tclass.value, found.cm_tos.value, found.cm_mode.value) == (106, 106, "RoCE v2")


def test_gids_in_use_have_canonical_addresses(tmp_path: Path) -> None:
    assert port(storage_node(tmp_path)).gids.value == (
        Gid(0, "fe80::bace:f6ff:fe00:0", "RoCE v1", RAILS[0]),
        Gid(1, "::ffff:198.51.100.1", "RoCE v2", RAILS[0]),
    )


def test_an_empty_traffic_class_is_unset_not_zero(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "\n")
    found = port(root).tclass
    assert found.value is None
    assert found.unknown.startswith("unset")


def test_a_site_with_another_dscp_is_read(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=236\n")
    assert port(root).tclass.value == 236


def test_the_connection_managers_defaults_come_from_the_tool_when_configfs_is_not_there(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    for name in ("default_roce_tos", "default_roce_mode"):
        (root / "sys/kernel/config/rdma_cm/mlx5_0/ports/1" / name).unlink()
    assert not port(root).cm_tos.known
    tool(root, "cma_roce.tos:mlx5_0", "104\n")
    tool(root, "cma_roce.mode:mlx5_0", "RoCE mode: RoCE v2\n")
    found = port(root)
    assert (found.cm_tos.value, found.cm_mode.value) == (104, "RoCE v2")


def test_active_mtu_comes_from_a_verbs_query(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    assert port(root).active_mtu.value is None
    tool(
        root,
        "ibv_devinfo",
        "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n"
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n",
    )
    assert port(root).active_mtu.value == 1024


def test_an_interface_without_rdma_says_so_in_every_field(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["net"][RAILS[0]]["rdma"] = []
    raw["rdma"] = {}
    found = node_facts("n", raw).nics[0].rdma
    assert found.state.unknown == found.gids.unknown == found.tclass.unknown == "the interface has no RDMA device"


def test_the_second_port_of_one_device_is_told_by_dev_port(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    device = (root / f"sys/class/net/{RAILS[0]}/device/infiniband/mlx5_0").resolve()
    for name, text in (("link_layer", "Ethernet"), ("state", "1: DOWN"), ("phys_state", "3: Disabled")):
        put(device, f"/ports/2/{name}", text)
    put(root, f"/sys/class/net/{RAILS[0]}/dev_port", "1\n")
    for index in (0, 1):
        (device / f"ports/1/gid_attrs/ndevs/{index}").unlink()
    found = port(root)
    assert (found.port, found.state.value) == (2, "DOWN")


def test_the_rate_of_irdma_is_not_believed(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["net"][RAILS[0]]["driver"] = {"v": "ice", "src": "driver"}
    found = node_facts("n", raw).nics[0]
    assert found.rdma.rate.value is None
    assert found.speed.value == 100000


def test_an_infiniband_port_keeps_its_layer(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, f"{PORT}/link_layer", "InfiniBand\n")
    gids = port(root).gids.value
    assert gids is not None
    assert gids[0].type == "IB"


def test_a_vanished_device_costs_its_own_facts_only(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / "sys/class/infiniband/mlx5_0").unlink()
    node = facts(root)
    assert not node.nics[0].rdma.state.known
    assert node.nics[1].rdma.state.value == "ACTIVE"


def test_a_software_device_is_found_by_what_its_gid_table_names(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["net"][RAILS[0]]["rdma"] = []
    assert node_facts("n", raw).nics[0].rdma.device.value == "mlx5_0"


def test_a_device_without_gids_is_found_by_the_rdma_command(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    rows = [{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "netdev": RAILS[0]}]
    tool(root, "rdma.link", json.dumps(rows))
    raw = document(root)
    raw["net"][RAILS[0]]["rdma"] = []
    raw["rdma"]["mlx5_0"]["ports"]["1"]["gids"] = {"unknown": "no GID table", "src": "gids"}
    assert node_facts("n", raw).nics[0].rdma.device.value == "mlx5_0"
