import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.dcbtool import parse_pfc

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

TEXT = sample("dcbtool/gc_pfc_eth3.txt")


def test_get_config() -> None:
    pfc = parse_pfc(TEXT)
    assert pfc.pfc == {2, 3, 4, 6}
    assert (pfc.port, pfc.status, pfc.enable, pfc.advertise, pfc.willing) == ("eth3", "Successful", True, True, False)
    assert pfc.traffic_classes == 8
    assert pfc.synced is None


def test_get_oper() -> None:
    pfc = parse_pfc(
        "Command:   \tGet Oper\nFeature:   \tPriority Flow Control\nPort:      \teth3\nStatus:    \tSuccessful\n"
        "Oper Version:\t0\nMax Version:\t0\nErrors:     \t0x10 - peer feature not present\nOper Mode: \tfalse\n"
        "Syncd:     \ttrue\npfcup:     \t0\t0\t0\t1\t0\t0\t0\t0\t\n"
    )
    assert (pfc.pfc, pfc.oper_mode, pfc.synced) == (frozenset({3}), False, True)
    assert pfc.errors == "0x10 - peer feature not present"


def test_bit_row_cut_short_is_unknown() -> None:
    assert parse_pfc(TEXT.replace("\t0\n", "\n").replace("       0\n", "\n")).pfc is None


@pytest.mark.parametrize("text", ["", "Failed to connect to lldpad\n", TEXT.replace("Flow Control", "Groups")])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_pfc(text)


def test_cut_noise_and_damage() -> None:
    assert_cut_changes_nothing(parse_pfc, TEXT)
    assert_noise_changes_nothing(parse_pfc, TEXT)
    assert_survives_damage(parse_pfc, [TEXT])
