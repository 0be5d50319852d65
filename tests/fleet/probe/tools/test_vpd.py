import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.vpd import Vpd, parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

TABLE = (
    "\n  VPD-KEYWORD    DESCRIPTION             VALUE\n  -----------    -----------             -----\n"
    "Read Only Section:\n\n  PN             Part Number             MCX623106AE-CDAT\n"
    "  EC             Revision                AB\n  SN             Serial Number           MT2235J00000\n"
    "  V3             N/A                     3869145f5722ed118000b83fd2193152\n"
    "  V0             Misc Info               PCIeGen4 x16\n"
    "  IDTAG          Board Id                ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56\n"
)


def test_firmware_is_never_taken_from_vpd() -> None:
    with pytest.raises(ToolOutputError):
        parse(sample("vpd/fw_from_vpd_misleading.txt"))
    assert not any("firmware" in name or name.startswith("fw") for name in Vpd.__dataclass_fields__)


def test_functions_of_one_card_share_the_serial_number() -> None:
    functions = parse(sample("lspci/vvv_cx6dx_dual_gen4_x16_ok.txt"))
    assert len(functions) == 2
    assert len({vpd.serial_number for vpd in functions}) == 1
    assert all(vpd.part_number and vpd.slot for vpd in functions)


def test_table_of_the_vendor_tool() -> None:
    (vpd,) = parse(TABLE)
    assert (vpd.part_number, vpd.serial_number, vpd.engineering_changes) == ("MCX623106AE-CDAT", "MT2235J00000", "AB")
    assert vpd.product_name == "ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56"
    assert vpd.fields["V0"] == "PCIeGen4 x16"


@pytest.mark.parametrize("text", ["", "-E- Failed to read VPD\n", "41:00.0 Ethernet controller: Mellanox\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


def test_cut_noise_and_damage() -> None:
    lspci = sample("lspci/vvv_cx7_gen5_x16_ok.txt")
    assert_cut_changes_nothing(lambda text: parse(text)[0].fields, TABLE)
    assert_noise_changes_nothing(parse, lspci)
    assert_survives_damage(parse, [lspci, TABLE])
