"""mstflint, mstfwreset, mlxfwmanager and mlxconfig: one card, one flash."""

import pytest

from kvctl.fleet.lab import cards, images
from kvctl.fleet.lab.standins import fwreset, mlxconfig, mlxfwmanager, mstflint
from kvctl.fleet.probe.tools import mstflint as parser

CX6 = {
    "psid": "MT_0000000228", "base_guid": "043f720300100046", "base_mac": "043f72100046", "uid_count": 8,
    "firmware": {
        "stored": "20.35.1012", "running": "20.35.1012", "date": "28.10.2022",
        "rom": [["UEFI", "14.28.15", "AMD64,AARCH64"], ["PXE", "3.6.804", "AMD64"]],
    },
}  # fmt: skip
CX6DX = {
    "device_type": "ConnectX6DX", "part_number": "MCX623106AC-CDA_Ax", "psid": "MT_0000000436",
    "device_name": "03:00.0", "base_guid": "1c34da030010008a", "base_mac": "1c34da10008a",
    "description": "ConnectX-6 Dx EN adapter card; 100GbE; Dual-port QSFP56; PCIe 4.0 x16; Crypto and Secure Boot",
}  # fmt: skip


def card(change, **values):
    change(lambda state: state["nics"][0].update(values))


def dx_firmware(stored, running):
    rom = [["PXE", "3.6.204", "AMD64"], ["UEFI", "14.22.16", "AMD64"]]
    return {"stored": stored, "running": running, "date": "1.1.2024", "rom": rom}


@pytest.mark.parametrize(
    ("running", "name"),
    [("20.35.1012", "q_cx6_200g_fs4.txt"), ("20.34.1002", "q_cx6_running_differs_reset_needed.txt")],
)
def test_mstflint_query_equals_the_samples(change, sample, capsys, running, name):
    card(change, **{**CX6, "firmware": {**CX6["firmware"], "running": running}})
    assert mstflint.main(["-d", "41:00.0", "-qq", "query"]) == 0
    assert capsys.readouterr().out == sample(f"mstflint/{name}")


@pytest.mark.parametrize(
    ("stored", "running", "name"),
    [
        ("22.45.3608", "22.43.1020", "d_cx6dx_running_differs.txt"),
        ("22.29.2002", "22.29.2002", "d_cx6dx_single_fw.txt"),
    ],
)
def test_mlxfwmanager_query_equals_the_samples(change, sample, capsys, stored, running, name):
    card(change, **CX6DX, firmware=dx_firmware(stored, running))
    assert mlxfwmanager.main(["--query"]) == 0
    assert capsys.readouterr().out == sample(f"mlxfwmanager/{name}")


def test_mlxfwmanager_xml_equals_the_sample(change, sample, capsys):
    def two_devices(state):
        bare = {"rom": [], "date": ""}
        first = {
            **state["nics"][0], "device_name": "/dev/mst/mt41692_pciconf0", "device_type": "BlueField3",
            "psid": "MT_0000001139", "part_number": "BF3-COM-DPU_QP_Ax", "base_mac": "N/A", "base_guid": "N/A",
            "firmware": {**bare, "stored": "32.41.1000", "running": "32.41.1000"},
            "description": "NVIDIA BlueField-3 DPU based COM express; IPN QP",
        }  # fmt: skip
        second = {
            **first, "device_name": "/dev/mst/mt53104_pci_cr0", "device_type": "Spectrum3", "base_guid": "",
            "psid": "MT_0000001189", "part_number": "MSN4280-WS2RXO_Ax",
            "firmware": {**bare, "stored": "30_2012_4038-006", "running": "30_2012_4038-006"},
            "description": "NVIDIA Spectrum-3 based 400GbE 2U Ethernet Smart-Switch with ONIE; 28 ports QSFP-DD; 4 "
            "DPUs; 2 power supplies (AC); x86 CPU - 16 Cores; Secure-boot Capable; standard depth; C2P airflow",
        }  # fmt: skip
        state["nics"] = [first, second]

    change(two_devices)
    assert mlxfwmanager.main(["--query-format", "XML"]) == 0
    assert capsys.readouterr().out == sample("mlxfwmanager/query_format_xml_bf3_spectrum3.xml")


def test_mlxconfig_query_equals_the_sample(change, sample, capsys):
    def value(default, current, following):
        return {"default": default, "current": current, "next": following}

    names = {
        "KEEP_IB_LINK_UP_P2": value("False(0)", "True(1)", "True(1)"),
        "KEEP_LINK_UP_ON_BOOT_P2": value("False(0)", "False(0)", "False(0)"),
        "ESWITCH_HAIRPIN_DESCRIPTORS": value("Array[0..7]", "Array[0..7]", "Array[0..7]"),
        "MEMIC_SIZE_LIMIT": value("_256KB(1)", "_256KB(1)", "DISABLED(0)"),
    }
    card(change, config_type="ConnectX4", nvconfig=names)
    assert mlxconfig.main(["-d", "0000:41:00.0", "-e", "query"]) == 0
    assert capsys.readouterr().out == sample("mlxconfig/e_query_next_boot_differs.txt")


def test_mlxconfig_set_waits_for_the_next_boot(nic, capsys):
    assert mlxconfig.main(["-d", "0000:41:00.0", "-y", "set", "LINK_TYPE_P1=1"]) == 0
    link = nic()["nvconfig"]["LINK_TYPE_P1"]
    assert (link["current"], link["next"]) == ("ETH(2)", "IB(1)")
    assert fwreset.main(["-d", "0000:41:00.0", "-y", "reset"]) == 0
    assert nic()["nvconfig"]["LINK_TYPE_P1"]["current"] == "IB(1)"
    assert mlxconfig.main(["-d", "0000:41:00.0", "-y", "set", "LINK_TYPE_P1=7"]) == 1
    assert "-E- Bad value" in capsys.readouterr().out


@pytest.fixture
def old(change):
    rom = {"stored": cards.OLD_FIRMWARE, "running": cards.OLD_FIRMWARE, "date": "29.4.2022", "rom": cards.OLD_ROM}
    card(change, firmware=rom)


def test_burn_then_reset_makes_an_image_run(old, nic, tmp_path, hardware, capsys):
    images.write(tmp_path / "images")
    path = str(tmp_path / "images" / images.file_name(cards.PSID, cards.FIRMWARE))
    assert mstflint.main(["-d", "0000:41:00.0", "-i", path, "-y", "burn"]) == 0
    assert "-I- To load new FW run mstfwreset or reboot machine." in capsys.readouterr().out
    mstflint.main(["-d", "0000:41:00.0", "query"])
    read = parser.parse_query(capsys.readouterr().out)
    assert (read.fw_stored, read.fw_running, read.pending_reset) == (cards.FIRMWARE, cards.OLD_FIRMWARE, True)
    assert fwreset.main(["-d", "0000:41:00.0", "--level", "3", "-y", "reset"]) == 0
    assert nic()["firmware"]["running"] == cards.FIRMWARE
    assert (hardware / "sys/class/infiniband/mlx5_0/fw_ver").read_text() == cards.FIRMWARE + "\n"


def test_an_image_of_another_card_is_refused_with_the_real_text(old, nic, tmp_path, sample, capsys):
    images.write(tmp_path / "images")
    path = str(tmp_path / "images" / images.file_name(cards.OTHER_PSID, cards.FIRMWARE))
    assert mstflint.main(["-d", "0000:41:00.0", "-i", path, "-y", "burn"]) == 1
    real = sample("mstflint/errors.txt").splitlines()[0]
    told = real.replace("LNV0000000025", cards.PSID).replace("MT_0000000158", cards.OTHER_PSID)
    assert told in capsys.readouterr().out.splitlines()
    assert nic()["firmware"]["stored"] == cards.OLD_FIRMWARE


def test_a_damaged_image_is_refused(old, nic, tmp_path, capsys):
    damaged = bytearray(images.image(cards.PSID, cards.FIRMWARE, cards.ROM))
    damaged[-1] ^= 1
    (tmp_path / "bad.bin").write_bytes(damaged)
    assert mstflint.main(["-d", "0000:41:00.0", "-i", str(tmp_path / "bad.bin"), "-y", "burn"]) == 1
    assert "-E- Cannot open Image" in capsys.readouterr().out
    assert nic()["firmware"]["stored"] == cards.OLD_FIRMWARE


def test_going_back_needs_a_yes(nic, tmp_path, capsys):
    images.write(tmp_path / "images")
    path = str(tmp_path / "images" / images.file_name(cards.PSID, cards.OLD_FIRMWARE))
    assert mstflint.main(["-d", "0000:41:00.0", "-i", path, "burn"]) == 1
    assert "older than the current FW version on flash" in capsys.readouterr().out
    assert nic()["firmware"]["stored"] == cards.FIRMWARE


@pytest.mark.parametrize(
    "argv",
    [["-d", "0000:99:00.0", "query"], ["-d", "0000:41:00.0"], ["--frob", "query"], ["query"], ["-d", "41:00.0", "zap"]],
)
def test_mstflint_refuses_what_the_real_one_refuses(hardware, argv, capsys):
    assert mstflint.main(argv) == 1
    assert capsys.readouterr().out.startswith("-E- ")


def test_a_reset_level_that_the_device_lacks_is_refused(hardware, capsys):
    assert fwreset.main(["-d", "0000:41:00.0", "query"]) == 0
    assert "3: Driver restart and PCI reset " in capsys.readouterr().out
    assert fwreset.main(["-d", "0000:41:00.0", "--level", "0", "-y", "reset"]) == 1
