import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.lldptool import parse_pfc, parse_tlvs

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("lldptool")


def test_willing_port_with_three_priorities() -> None:
    pfc = parse_pfc(sample("lldptool/t_i_V_PFC_ieee_137.txt"))
    assert (pfc.priorities, pfc.willing, pfc.dcbx) == (frozenset({1, 3, 7}), True, "IEEE")
    assert (pfc.macsec_bypass, pfc.traffic_classes) == (False, 8)


def test_zero_is_a_priority_and_none_is_not() -> None:
    text = sample("lldptool/ti_ice_e810_pfc0_nonwilling.txt")
    assert parse_pfc(text).priorities == {0}
    assert parse_pfc(text).willing is False
    assert parse_pfc(text.replace("PFC enabled: 0", "PFC enabled: none")).priorities == frozenset()
    assert parse_pfc(text.replace("PFC enabled: 0", "PFC enabled:")).priorities is None


def test_whole_frame() -> None:
    tlvs = parse_tlvs(sample("lldptool/ti_ice_e810_pfc0_nonwilling.txt"))
    assert (tlvs.chassis_id, tlvs.ttl, tlvs.dcbx) == ("68:05:ca:10:00:78", 120, "IEEE")
    assert tlvs.ets is not None
    assert tlvs.ets.tc_bw == (100, 0, 0, 0, 0, 0, 0, 0)
    assert tlvs.ets.tsa is not None
    assert (tlvs.ets.tsa[0], tlvs.ets.tsa[7]) == ("ets", "strict")


def test_pre_standard_dcbx() -> None:
    pfc = parse_pfc(sample("lldptool/tni_cee_dcbx.txt"))
    assert (pfc.priorities, pfc.dcbx) == (frozenset({2, 3, 4, 6}), "CEE")
    assert (pfc.enabled, pfc.willing, pfc.error, pfc.traffic_classes) == (True, False, False, 8)


def test_dscp_map_of_the_application_tlv() -> None:
    tlvs = parse_tlvs(
        "IEEE 8021QAZ APP TLV\n\tApp#   0 \t Prio 3 \t Sel 3 \t P-ID\t UDP or DCCP Port: 4791\n"
        "\tPrio:3 \t dscp:  26, 24,\b \n\tPrio:6 \t dscp:  48,\b \nEnd of LLDPDU TLV\n"
    )
    assert tlvs.dscp_prio == {26: 3, 24: 3, 48: 6}
    assert tlvs.pfc is None


def test_neighbour_with_old_application_layout() -> None:
    tlvs = parse_tlvs(
        "Chassis ID TLV\n\tIPv4: 192.0.2.150\nPort ID TLV\n\tIfname: Te 0/13\nSystem Name TLV\n\tsw01\n"
        "Management Address TLV\n\tIPv4: 192.0.2.150\n\tUnknown interface subtype: 0\n"
        "IEEE 8021QAZ PFC TLV\n\t Willing: no\n\t PFC capable traffic classes: 4\n\t PFC enabled: none\n"
        "IEEE 8021QAZ APP TLV\n\tApp#0:\n\t Priority: 2\n\t Sel: 2\n\t {S}TCP Port: 3260\nEnd of LLDPDU TLV\n"
    )
    assert (tlvs.chassis_id, tlvs.port_id, tlvs.system_name) == ("192.0.2.150", "Te 0/13", "sw01")
    assert tlvs.pfc is not None
    assert (tlvs.pfc.priorities, tlvs.pfc.traffic_classes) == (frozenset(), 4)


def test_broadcoms_tool_prints_the_same_names_with_a_colon() -> None:
    with pytest.raises(ToolOutputError):
        parse_tlvs(sample("niccli/qos_ets_show_thor2.txt"))


@pytest.mark.parametrize("text", ["", "Agent instance for device not found\n", "Unable to connect to lldpad\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_tlvs(text)


def test_frame_without_pfc_is_refused_by_parse_pfc() -> None:
    with pytest.raises(ToolOutputError):
        parse_pfc("Time to Live TLV\n\t120\nEnd of LLDPDU TLV\n")


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse_pfc, sample(path))
    assert_noise_changes_nothing(parse_tlvs, sample(path))


def test_damage() -> None:
    assert_survives_damage(parse_tlvs, [sample(path) for path in ALL])
    assert_survives_damage(parse_pfc, [sample(path) for path in ALL])


def test_two_ports_in_one_text_are_refused() -> None:
    text = sample("lldptool/ti_ice_e810_pfc0_nonwilling.txt").replace("LTV", "TLV")
    with pytest.raises(ToolOutputError, match="several"):
        parse_tlvs(text + "\n" + text)
