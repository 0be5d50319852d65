from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nvme

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nvme_list"


def sample(name: str) -> nvme.NvmeList:
    return nvme.parse_list((SAMPLES / name).read_text())


def flat(**fields: object) -> nvme.NvmeNamespace:
    entry = {"DevicePath": "/dev/nvme0n1", "ModelNumber": "M", "SerialNumber": "S", **fields}
    return nvme.parse_list(json.dumps({"Devices": [entry]})).namespaces[0]


def test_oldest_shape_has_no_sizes() -> None:
    found = sample("o_json_1x_no_sizes.json")
    assert [item.name for item in found.namespaces] == ["nvme0n1", "nvme1n1"]
    assert all(item.sector_size is None and item.size_bytes is None for item in found.namespaces)
    assert [item.local for item in found.namespaces] == [None, False]


def test_nested_shape_with_namespaces_under_the_controller() -> None:
    found = sample("o_json_211_nested_ctrl_namespaces.json")
    (item,) = found.namespaces
    assert (item.device, item.nsid, item.generic) == ("/dev/nvme0n1", 1, "ng0n1")
    assert (item.sector_size, item.size_bytes, item.size_exact) == (512, 400088457216, True)
    assert (item.serial, item.model, item.firmware) == ("SN0001XXXXXXXXXXXX", "INTEL SSDPEDMD400G4", "8DV101H0")
    assert [controller.pci for controller in item.controllers] == ["0000:02:00.0"]
    assert item.controllers[0].slot == "2"
    assert item.local is True


def test_flat_shape_of_2_0_to_2_10() -> None:
    found = sample("o_json_2x_flat_two_drives.json")
    assert [(item.sector_size, item.size_bytes) for item in found.namespaces] == [(512, 7681501126656)] * 2
    assert [item.nsid for item in found.namespaces] == [1, 1]
    assert found.namespaces[0].generic == "ng0n1"


def test_network_volume_is_not_local() -> None:
    (item,) = sample("o_json_vast_nvmeof.json").namespaces
    assert item.local is False
    assert item.not_local_because
    assert item.size_bytes == 10737418240


def test_text_of_2_x_with_generic_column_and_hexadecimal_numbers() -> None:
    first, second = sample("text_2x_generic_hex_ns.txt").namespaces
    assert (first.size_bytes, second.size_bytes) == (153_600_000_000, 960_200_000_000)
    assert first.size_exact is False
    assert (first.nsid, first.sector_size, first.metadata_bytes) == (1, 512, 0)
    assert (second.serial, second.model, second.firmware) == ("SN0002XXXXXX", "Micron_7450_MTFDKCB960TFR", "E2MU200")
    assert second.used_bytes == 1_850_000_000


def ruled(widths: tuple[int, ...], *rows: tuple[str, ...]) -> str:
    """A table as nvme-cli prints it: left-aligned columns of fixed widths over a line of dashes."""
    lines = [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], " ".join("-" * width for width in widths), *lines[1:]]) + "\n"


SAMSUNG = ("S3EVNX0J800001", "Samsung SSD 960 EVO 500GB", "1", "387.94  GB / 500.11  GB", "512   B +  0 B", "2B7QCXE7")
INTEL = ("PHLJ000 0001", "INTEL SSDPE2KX040T8", "1", "  4.00  TB /   4.00  TB", "  4 KiB +  8 B", "VDV10131")
TEXT_1X = ruled(
    (16, 20, 40, 9, 26, 16, 8),
    ("Node", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev"),
    ("/dev/nvme0n1", *SAMSUNG),
    ("/dev/nvme10n1", *INTEL),
)


def test_text_of_1_x() -> None:
    first, second = nvme.parse_list(TEXT_1X).namespaces
    assert (first.name, first.generic, first.nsid) == ("nvme0n1", None, 1)
    assert (first.model, first.firmware) == ("Samsung SSD 960 EVO 500GB", "2B7QCXE7")
    assert (first.used_bytes, first.size_bytes) == (387_940_000_000, 500_110_000_000)
    assert (second.serial, second.sector_size, second.metadata_bytes) == ("PHLJ000 0001", 4096, 8)


def test_header_that_a_log_moved_by_one_blank() -> None:
    assert nvme.parse_list("INFO nvme list succeed.\n " + TEXT_1X).namespaces == nvme.parse_list(TEXT_1X).namespaces


def test_text_that_lost_its_blanks_is_read_or_refused_but_never_misread() -> None:
    squeezed = TEXT_1X.replace("PHLJ000 0001  ", "PHLJ000 ")
    try:
        namespaces = nvme.parse_list(squeezed).namespaces
    except ToolOutputError:
        return
    assert namespaces[0].model == "Samsung SSD 960 EVO 500GB"


def test_text_without_drives() -> None:
    assert nvme.parse_list("\n".join(TEXT_1X.splitlines()[:2])).namespaces == ()
    assert nvme.parse_list("No NVMe devices detected.\n").namespaces == ()
    assert nvme.parse_list("{}").namespaces == ()


def verbose(controllers: str, namespaces: str) -> nvme.NvmeList:
    """Rows do not keep to the columns of their headers in nvme-cli itself."""
    return nvme.parse_list(
        ruled((16, 96, 16), ("Subsystem", "Subsystem-NQN", "Controllers"), ("nvme-subsys0", "nqn.x", "nvme0"))
        + "\nDevice           Cntlid SN   MN   FR       TxPort Address        Slot   Subsystem    Namespaces      \n"
        + "---------------- ------ ---- ---- -------- ------ -------------- ------ ------------ ----------------\n"
        + controllers
        + "\nDevice            Generic           NSID       Usage        Format           Controllers     \n"
        + "----------------- ----------------- ---------- ------------ ---------------- ----------------\n"
        + namespaces
    )


LOCAL = "nvme0    0      {:20} {:40} GDC5602Q pcie   0000:41:00.0   3      nvme-subsys0 nvme0n1, nvme0n2\n".format(
    "S64A 01", "SAMSUNG MZQL2 DRIVE"
)
REMOTE = "nvme1    4      {:20} {:40} 2.1.0.0  tcp    traddr=10.0.0.2,trsvcid=4420 nvme-subsys1 nvme1n1\n".format(
    "85JZX23", "SomeStore"
)
NAMESPACES = (
    "nvme0n1      ng0n1        0x1          3.84  TB /   3.84  TB      4 KiB +  0 B   nvme0\n"
    "nvme0n2      ng0n2        0x10         1.00  GB /   2.00  GB    512   B +  8 B   nvme0\n"
    "nvme1n1      ng1n1        0x1          0.00   B / 960.20  GB      4 KiB +  0 B   nvme1, nvme7\n"
)


def test_verbose_text_joins_controllers_and_namespaces() -> None:
    first, second, remote = verbose(LOCAL + REMOTE, NAMESPACES).namespaces
    assert (first.name, first.sector_size, first.serial) == ("nvme0n1", 4096, "S64A 01")
    assert (first.model, first.firmware, first.nsid) == ("SAMSUNG MZQL2 DRIVE", "GDC5602Q", 1)
    assert (first.controllers[0].pci, first.controllers[0].slot, first.local) == ("0000:41:00.0", "3", True)
    assert (second.nsid, second.metadata_bytes, second.size_bytes) == (16, 8, 2_000_000_000)
    assert remote.local is False
    assert remote.controllers[0].address == "traddr=10.0.0.2,trsvcid=4420"


def test_verbose_text_with_a_broken_row_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        verbose(LOCAL, NAMESPACES.replace("0x10   ", "zz     "))


def test_32_bit_sizes_are_computed_from_the_block_count_or_unknown() -> None:
    old = flat(UsedBytes=-2147483648, MaximiumLBA=1953525168, PhysicalSize=-2147483648, SectorSize=512)
    assert (old.size_bytes, old.size_exact, old.used_bytes) == (1953525168 * 512, True, None)
    both = flat(UsedBytes=-2147483648, MaximumLBA=-1088458064, PhysicalSize=-2147483648, SectorSize=512)
    assert (both.size_bytes, both.sector_size) == (None, 512)
    clamped = flat(UsedBytes=2147483647, MaximumLBA=1000, PhysicalSize=2147483647, SectorSize=512)
    assert clamped.size_bytes is None


def test_sizes_that_contradict_each_other_are_unknown() -> None:
    item = flat(UsedBytes=0, MaximumLBA=20971520, PhysicalSize=10737418241, SectorSize=512)
    assert (item.size_bytes, item.sector_size) == (None, None)


def test_a_sector_size_of_one_is_no_sector_size() -> None:
    assert flat(SectorSize=1, MaximumLBA=0, PhysicalSize=0).sector_size is None


def test_multipath_path_nodes_are_left_out() -> None:
    drive = {"DevicePath": "/dev/nvme0n1", "SectorSize": 4096, "MaximumLBA": 10, "PhysicalSize": 40960}
    path = {"DevicePath": "/dev/nvme0c0n1", "SectorSize": 1, "MaximumLBA": 0, "PhysicalSize": 0}
    found = nvme.parse_list(json.dumps({"Devices": [drive, path]}))
    assert [item.name for item in found.namespaces] == ["nvme0n1"]
    assert found.hidden == ("nvme0c0n1",)


def test_serial_equal_to_the_model_is_a_network_volume() -> None:
    assert flat(ModelNumber="SomeArray", SerialNumber="SomeArray").local is False


SIZES = {"MaximumLBA": 8, "PhysicalSize": 4096, "SectorSize": 512}
NAMESPACE = {"NameSpace": "nvme1n1", "Generic": "ng1n1", "NSID": 1, **SIZES}
CONTROLLER = {"Controller": "nvme1", "SerialNumber": "S1", "ModelNumber": "M1", "Firmware": "F1", "Transport": "pcie"}


def nested(subsystem: dict[str, Any]) -> nvme.NvmeList:
    host = {"HostNQN": "h", "Subsystems": [{"Subsystem": "nvme-subsys1", "SubsystemNQN": "n", **subsystem}]}
    return nvme.parse_list(json.dumps({"Devices": [host]}))


def test_namespace_under_the_subsystem_belongs_to_all_its_controllers() -> None:
    found = nested(
        {
            "Controllers": [
                {**CONTROLLER, "Address": "0000:01:00.0", "Namespaces": [], "Paths": [{"Path": "nvme1c1n1"}]}
            ],
            "Namespaces": [NAMESPACE],
        }
    )
    (item,) = found.namespaces
    assert (item.serial, item.controllers[0].pci, item.local) == ("S1", "0000:01:00.0", True)


def test_namespace_with_paths_and_no_controllers_list() -> None:
    paths = [
        {"Path": "nvme1c1n1", "ANAState": "optimized", **CONTROLLER, "Transport": "rdma", "Address": "traddr=10.0.0.1"},
        {"Path": "nvme1c2n1", **CONTROLLER, "Controller": "nvme2", "Transport": "rdma", "Address": "traddr=10.0.0.2"},
    ]
    (item,) = nested({"Namespaces": [{**NAMESPACE, "Paths": paths}]}).namespaces
    assert [controller.name for controller in item.controllers] == ["nvme1", "nvme2"]
    assert (item.local, item.not_local_because) == (False, "its transport is rdma")
    assert item.controllers[0].pci is None
    assert item.controllers[0].ana_state == "optimized"


def test_verbose_json_of_2_0_with_spaced_keys_and_lower_case_namespace() -> None:
    controller = {"Controller": "nvme1", "Serial number": "S1", "Model number": "M1", "Transport": "pcie"}
    namespace = {"Namespace" if key == "NameSpace" else key: value for key, value in NAMESPACE.items()}
    (item,) = nested({"Controllers": [{**controller, "Namespaces": [namespace]}], "Namespaces": []}).namespaces
    assert (item.name, item.nsid, item.serial, item.model) == ("nvme1n1", 1, "S1", "M1")


def test_verbose_json_of_1_x_without_hosts() -> None:
    entry = {
        "Subsystem": "nvme-subsys1",
        "SubsystemNQN": "n",
        "Controllers": [{**CONTROLLER, "Namespaces": [NAMESPACE]}],
    }
    assert nvme.parse_list(json.dumps({"Devices": [entry]})).namespaces[0].name == "nvme1n1"


def test_controller_without_namespaces_is_still_listed() -> None:
    found = nested({"Controllers": [{**CONTROLLER, "Namespaces": []}]})
    assert found.namespaces == ()
    assert [controller.name for controller in found.controllers] == ["nvme1"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvme: command not found",
        "[]",
        '{"Device": []}',
        '{"Devices": [{"a": 1}]}',
        '{"Devices": [',
        "Segmentation fault",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_list(text)


def test_list_subsys() -> None:
    (subsystem,) = nvme.parse_list_subsys((SAMPLES / "list_subsys_o_json_2x.json").read_text())
    (controller,) = subsystem.controllers
    assert (controller.name, controller.pci, controller.state) == ("nvme2", "0000:61:00.0", "live")
    assert subsystem.nqn is not None
    assert subsystem.nqn.endswith("Seagate FireCuda 530 ZP4000GM30023")


def test_list_subsys_of_1_x_and_as_text() -> None:
    old = nvme.parse_list_subsys(
        '{"Subsystems": [{"Name": "nvme-subsys0", "NQN": "n", "Paths": [{"Name": "nvme0", "Transport": "tcp",'
        ' "Address": "traddr=10.0.0.1,trsvcid=4420", "State": "live", "ANAState": "optimized"}]}]}'
    )
    assert old[0].controllers[0].local is False
    text = nvme.parse_list_subsys(
        "nvme-subsys0 - NQN=nqn.2014.08.org.nvmexpress:1 SN  MODEL\n"
        "               hostnqn=nqn.host\n\\\n"
        " +- nvme0 pcie 0000:01:00.0 live optimized\n +- nvme1 rdma traddr=10.0.0.1 trsvcid=4420 connecting\n"
    )
    assert [(item.name, item.pci, item.state) for item in text[0].controllers] == [
        ("nvme0", "0000:01:00.0", "live"),
        ("nvme1", None, "connecting"),
    ]
    assert (text[0].nqn, text[0].host_nqn) == ("nqn.2014.08.org.nvmexpress:1 SN  MODEL", "nqn.host")
    assert nvme.parse_list_subsys("[]") == ()


def test_a_table_without_dev_and_a_prompt_under_it() -> None:
    text = """Node                  SN                   Model                                    Namespace Usage                      Format           FW Rev
--------------------- -------------------- ---------------------------------------- --------- -------------------------- ---------------- --------
nvme3n1               SN0001EXAMPLE        EXAMPLE DRIVE 512GB                      1         512.11  GB / 512.11  GB    512   B +  0 B   EX1.0
node01:~ # exit
"""  # noqa: E501
    (namespace,) = nvme.parse_list(text).namespaces
    assert (namespace.name, namespace.device, namespace.sector_size) == ("nvme3n1", "/dev/nvme3n1", 512)


@pytest.mark.parametrize("number", ["7     ", "      "])
def test_the_verbose_tables_of_release_3(number: str) -> None:
    text = f"""Subsystem        Subsystem-NQN                                                                                    Controllers
---------------- ------------------------------------------------------------------------------------------------ ----------------
nvme-subsys2     nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000002                             nvme2

Device           Orchestrator Cntlid SN                   MN                                       FR       TxPort Address        Slot   Subsystem    Namespaces
---------------- ------------ ------ -------------------- ---------------------------------------- -------- ------ -------------- ------ ------------ ----------------
nvme2            kernel       {number} SN0001EXAMPLE        EXAMPLE DRIVE 1TB                        EX1.0    pcie   0000:0d:00.0          nvme-subsys2 nvme2n1

Device            Generic              NSID       Usage                                             Format           Controllers
----------------- -------------------- ---------- ------------------------------------------------- ---------------- ----------------
/dev/nvme2n1      /dev/ng2n1           0x1          1.02  TB /   1.02  TB (  953.87 GiB /  953.87 GiB) 512   B +  0 B   nvme2
"""  # noqa: E501
    (namespace,) = nvme.parse_list(text).namespaces
    assert (namespace.serial, namespace.model, namespace.firmware) == ("SN0001EXAMPLE", "EXAMPLE DRIVE 1TB", "EX1.0")
    assert (namespace.size_bytes, namespace.sector_size, namespace.local) == (1_020_000_000_000, 512, True)
