"""nvidia-smi, cma_roce_*, show_gids, ibdev2netdev, ethtool."""

import xml.etree.ElementTree as ElementTree

import pytest

from kvctl.fleet.lab.standins import cma_roce, ethtool, nvidia_smi, rdma_names, store


def as_elements(node):
    return [node.tag, [as_elements(child) for child in node] if len(node) else node.text or ""]


def test_nvidia_smi_xml_equals_the_sample(change, sample, capsys):
    text = sample("nvidia-smi/q_x_a100_sxm4_v12.xml")
    root = ElementTree.fromstring(text)
    head = [as_elements(root.find(name)) for name in ("driver_version", "cuda_version", "attached_gpus")]
    gpus = [{"id": gpu.get("id"), "elements": [as_elements(child) for child in gpu]} for gpu in root.findall("gpu")]
    smi = {"indent": "    ", "dtd": "nvsmi_device_v12.dtd", "timestamp": root.findtext("timestamp")}
    change(lambda state: state.update(smi={**smi, "head": head, "gpus": gpus}))
    assert nvidia_smi.main(["-q", "-x"]) == 0
    assert capsys.readouterr().out == text


def test_nvidia_smi_topology_has_the_escapes_and_the_legend_of_the_sample(change, sample, capsys):
    names = ["mlx5_0", *(f"mlx5_{i}" for i in range(3, 10)), "mlx5_bond_0"]
    change(lambda state: state.update(nics=[{**state["nics"][0], "rdma": name} for name in names]))
    assert nvidia_smi.main(["topo", "-m"]) == 0
    out = capsys.readouterr().out
    assert "\x1b[4mGPU0\tNIC0" in out
    assert sample("nvidia-smi/topo_m_8gpu_8nic_header_note.txt") in out


def test_nvidia_smi_refuses_unknown_arguments(hardware, capsys):
    assert nvidia_smi.main(["--frobnicate"]) != 0
    assert "Invalid combination of input arguments" in capsys.readouterr().out


def test_without_a_gpu_nvidia_smi_says_so(change, capsys):
    change(lambda state: state.pop("smi"))
    assert nvidia_smi.main(["-L"]) == 6
    assert capsys.readouterr().out == "No devices were found\n"


@pytest.fixture
def manager(hardware):
    folder = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1"
    store.write_sys(folder + "/default_roce_tos", "0\n", str(hardware))
    store.write_sys(folder + "/default_roce_mode", "RoCE v2\n", str(hardware))


def test_cma_roce_mode_equals_the_sample(manager, change, sample, capsys):
    change(lambda state: state.update(cma_roce_mode_prefix="RoCE mode: "))
    assert cma_roce.mode(["-d", "mlx5_0", "-p", "1"]) == 0
    assert capsys.readouterr().out == sample("cma_roce/mode_v2.txt")


def test_cma_roce_tos_sets_and_shows(manager, capsys):
    assert cma_roce.tos(["-d", "mlx5_0", "-t", "106"]) == 0
    assert cma_roce.tos([]) == 0
    assert capsys.readouterr().out == "106\n106\n"
    assert cma_roce.tos(["-d", "mlx5_9"]) == 1


def test_show_gids_equals_the_sample(hardware, sample, capsys):
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    rows = [line.split("\t") for line in sample("show_gids/single_rdma0.txt").splitlines()[2:-1]]
    for row in rows:
        index, gid, version, netdev = row[2], row[3], row[-2], row[-1]
        store.write_sys(f"{port}/gids/{index}", gid + "\n", str(hardware))
        kind = {"v1": "IB/RoCE v1\n", "v2": "RoCE v2\n"}[version]
        store.write_sys(f"{port}/gid_attrs/types/{index}", kind, str(hardware))
        store.write_sys(f"{port}/gid_attrs/ndevs/{index}", netdev + "\n", str(hardware))
    assert rdma_names.show_gids([]) == 0
    assert capsys.readouterr().out == sample("show_gids/single_rdma0.txt")


def test_ibdev2netdev_equals_the_sample(change, sample, capsys):
    text = sample("ibdev2netdev/mixed_up_down_ib.txt")
    rows = [line.split() for line in text.splitlines()]

    def as_sampled(state):
        base = state["nics"][0]
        state["nics"] = [{**base, "rdma": r[0], "netdev": r[4], "link": r[5].strip("()")} for r in rows]

    change(as_sampled)
    assert rdma_names.ibdev2netdev([]) == 0
    assert capsys.readouterr().out == text


def test_ethtool_pause_equals_the_sample(change, sample, capsys):
    pause = {"autoneg": "on", "rx": "on", "tx": "on", "rx_negotiated": "off", "tx_negotiated": "off"}
    change(lambda state: state["nics"][0].update(netdev="eth0", pause=pause))
    assert ethtool.main(["-a", "eth0"]) == 0
    assert capsys.readouterr().out == sample("ethtool/a_pause_on_negotiated_off.txt")


def test_ethtool_driver_equals_the_sample(change, sample, capsys):
    def as_sampled(state):
        firmware = {**state["nics"][0]["firmware"], "running": ""}
        driver = {"name": "virtio_net", "version": "1.0.0"}
        state["nics"][0].update(netdev="eth0", pci="0000:00:03.0", firmware=firmware, driver=driver)

    change(as_sampled)
    assert ethtool.main(["-i", "eth0"]) == 0
    assert capsys.readouterr().out == sample("ethtool/i_virtio.txt")


def test_ethtool_sets_pause(hardware, nic, capsys):
    assert ethtool.main(["-A", "enp65s0f0np0", "rx", "on", "tx", "on"]) == 0
    assert nic()["pause"] == {"autoneg": "off", "rx": "on", "tx": "on"}
    assert ethtool.main(["-A", "enp65s0f0np0", "rx", "maybe"]) == 1


@pytest.mark.parametrize(("mtu", "expected"), [(1500, 1024), (4200, 4096), (9000, 4096), (2100, 2048)])
def test_rdma_mtu_follows_the_interface(mtu, expected):
    assert rdma_names.active_mtu(mtu) == expected
