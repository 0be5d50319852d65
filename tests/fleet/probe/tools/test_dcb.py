import json

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, dcb

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

ETS = (
    "willing on ets-cap 8 cbs off \ntc-bw 0:50 1:50 2:0 3:0 4:0 5:0 6:0 7:0 \npg-bw 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 \n"
    "tc-tsa 0:ets 1:ets 2:strict 3:strict 4:strict 5:strict 6:strict 7:vendor \n"
    "prio-tc 0:0 1:0 2:0 3:1 4:0 5:0 6:2 7:0 \nreco-tc-bw 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 \n"
    "reco-tc-tsa 0:strict 1:strict 2:strict 3:strict 4:strict 5:strict 6:strict 7:strict \n"
    "reco-prio-tc 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 \n"
)
BUFFER = (
    "prio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 \nbuffer-size 0:262016b 1:64Kb 2:0b 3:0b 4:0b 5:0b 6:0b 7:1Mb \n"
    "total-size 2Mb \n"
)
PFC = "dcb/pfc_show_prio3_on_cx3.txt"


def test_pfc() -> None:
    pfc = dcb.parse_pfc(sample(PFC))
    assert (pfc.pfc, pfc.pfc_cap, pfc.macsec_bypass, pfc.delay) == (frozenset({3}), 8, False, 0)
    assert pfc.requests is None


def test_pfc_with_statistics() -> None:
    counts = "0:1 1:0 2:0 3:18446744073709551615 4:0 5:0 6:0 7:0"
    pfc = dcb.parse_pfc(sample(PFC) + f"requests {counts} \nindications {counts} \n")
    assert pfc.requests is not None
    assert pfc.requests[3] == 2**64 - 1


def test_pfc_json() -> None:
    text = json.dumps(
        {"pfc_cap": 8, "macsec_bypass": False, "delay": 7, "prio_pfc": [False] * 3 + [True] + [False] * 4}
    )
    assert dcb.parse_pfc(text) == dcb.DcbPfc(frozenset({3}), 8, False, 7)


def test_pfc_row_cut_short_is_unknown() -> None:
    assert dcb.parse_pfc("pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:o").pfc is None


def test_app_empty_is_trust_pcp() -> None:
    app = dcb.parse_app(sample("dcb/app_show_empty.txt"))
    assert (app.trust, app.dscp_prio) == ("pcp", {})
    assert dcb.parse_app("") == app
    assert dcb.parse_app("{}") == app


def test_app_symbolic_dscp() -> None:
    app = dcb.parse_app(sample("dcb/app_show_symbolic_dscp.txt"))
    assert (app.dscp_prio, app.trust) == ({26: 3}, "dscp")


def test_app_all_kinds_and_what_cannot_be_read() -> None:
    app = dcb.parse_app(
        "ethtype-prio 8906:3 \ndefault-prio 0 2 \ndscp-prio CS6:6 26:3 EF:5 voice:7 24:3 24:2 \n"
        "stream-port-prio 3260:4 \ndgram-port-prio 4791:3 \nport-prio 80:1 \npcp-prio 1de:2 \n"
    )
    assert app.ethtype_prio == {0x8906: 3}
    assert app.default_prio == (0, 2)
    assert app.dscp_prio == {48: 6, 26: 3, 46: 5}
    assert app.unresolved == ("dscp-prio voice:7", "dscp-prio 24:2", "dscp-prio 24:3")
    assert (app.stream_port_prio, app.dgram_port_prio, app.port_prio) == ({3260: 4}, {4791: 3}, {80: 1})
    assert app.pcp_prio == {"1de": 2}


def test_app_json_has_a_blank_after_each_pair() -> None:
    text = json.dumps(
        {"ethtype_prio": [[35078, 3, " "]], "default_prio": [0], "dscp_prio": [[26, 3, " "], [48, 6, " "]]}
    )
    app = dcb.parse_app(text)
    assert app.dscp_prio == {26: 3, 48: 6}
    assert app.ethtype_prio == {35078: 3}
    assert app.default_prio == (0,)


def test_ets() -> None:
    ets = dcb.parse_ets(ETS)
    assert (ets.willing, ets.ets_cap, ets.cbs) == (True, 8, False)
    assert ets.tc_bw == {0: 50, 1: 50, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0}
    assert ets.tc_tsa is not None
    assert (ets.tc_tsa[0], ets.tc_tsa[2], ets.tc_tsa[7]) == ("ets", "strict", "vendor")
    assert ets.prio_tc is not None
    assert (ets.prio_tc[3], ets.prio_tc[6]) == (1, 2)


def test_buffer() -> None:
    buffer = dcb.parse_buffer(BUFFER)
    assert buffer.buffer_sizes == (262016, 65536, 0, 0, 0, 0, 0, 1048576)
    assert buffer.total_size == 2097152
    assert buffer.prio_buffer is not None
    assert buffer.prio_buffer[3] == 1
    text = json.dumps({"prio_buffer": [0] * 8, "buffer_size": [80256, 0, 0, 0, 0, 0, 0, 0], "total_size": 524160})
    assert dcb.parse_buffer(text).total_size == 524160


def test_apptrust_and_dcbx() -> None:
    assert dcb.parse_apptrust("order: dscp pcp \n\n").order == ("dscp", "pcp")
    assert dcb.parse_apptrust('{"order":["dscp"]}').order == ("dscp",)
    assert dcb.parse_dcbx("host ieee \n") == dcb.DcbDcbx(host=True, ieee=True)
    assert dcb.parse_dcbx('{"lld_managed":true,"cee":true}') == dcb.DcbDcbx(lld_managed=True, cee=True)
    assert (dcb.parse_dcbx("\n").mode, dcb.parse_dcbx("host cee ieee\n").mode) == ("firmware", "os")


@pytest.mark.parametrize(
    "parse", [dcb.parse_pfc, dcb.parse_app, dcb.parse_ets, dcb.parse_buffer, dcb.parse_apptrust, dcb.parse_dcbx]
)
@pytest.mark.parametrize("text", ["Attribute not found: Success\n", "Cannot find device: eth9\n", "[1, 2]", '["x"]'])
def test_other_texts_are_refused(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ToolOutputError):
        parse(text)


def test_cut_and_noise() -> None:
    assert_cut_changes_nothing(dcb.parse_pfc, sample(PFC))
    assert_cut_changes_nothing(dcb.parse_ets, ETS)
    assert_cut_changes_nothing(dcb.parse_buffer, BUFFER)
    assert_noise_changes_nothing(dcb.parse_pfc, sample(PFC))
    assert_noise_changes_nothing(dcb.parse_app, sample("dcb/app_show_symbolic_dscp.txt"))


def test_damage() -> None:
    app = [sample("dcb/app_show_symbolic_dscp.txt"), '{"dscp_prio":[[26,3," "]],"default_prio":[0]}']
    assert_survives_damage(dcb.parse_pfc, [sample(PFC), '{"pfc_cap":8,"prio_pfc":[true,false]}'])
    assert_survives_damage(dcb.parse_app, app)
    assert_survives_damage(dcb.parse_ets, [ETS])
    assert_survives_damage(dcb.parse_buffer, [BUFFER, '{"buffer_size":[1,2],"total_size":3}'])
    assert_survives_damage(dcb.parse_apptrust, ["order: dscp pcp \n", '{"order":["dscp"]}'])
    assert_survives_damage(dcb.parse_dcbx, ["host ieee \n", '{"host":true}'])


def test_two_ports_as_json_are_refused() -> None:
    one = '{"pfc_cap":8,"prio_pfc":[false,false,false,true,false,false,false,false]}\n'
    with pytest.raises(ToolOutputError, match="several"):
        dcb.parse_pfc(one + one.replace("true", "false"))


def test_an_empty_table_between_prompts() -> None:
    assert dcb.parse_app("[root@node01 ~]# dcb app show dev ens1\n[root@node01 ~]# ").trust == "pcp"


def test_dcbx_flags_between_prompts() -> None:
    prompt = "[root@node01 ~]# dcb dcbx show dev ens1\n"
    assert dcb.parse_dcbx(prompt + "host ieee\n[root@node01 ~]# ").mode == "os"
    with pytest.raises(ToolOutputError):
        dcb.parse_dcbx(prompt + "\n[root@node01 ~]# ")
