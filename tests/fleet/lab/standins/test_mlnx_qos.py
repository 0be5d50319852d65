import pytest

from kvctl.fleet.lab.standins import mlnx_qos
from kvctl.fleet.probe.tools import mlnx_qos as parser

IF = ["-i", "enp65s0f0np0"]


def test_output_equals_the_sample(change, sample, capsys):
    def as_sampled(state):
        state["nics"][0]["qos"] = {
            "dcbx": "OS", "app": [], "buffer_size": [262016, 0, 0, 0, 0, 0, 0, 0], "prio_buffer": [0] * 8,
            "cable_len": 7, "pfc": [0] * 8, "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7], "tsa": ["vendor"] * 8,
            "tc_bw": [0] * 8, "ratelimit": [0] * 8, "tabs_expanded": True,
        }  # fmt: skip

    change(as_sampled)
    assert mlnx_qos.main(IF) == 0
    assert capsys.readouterr().out == sample("mlnx_qos/i_default_pcp_buf262016_peer.txt")


def test_rows_wrap_after_eight_dscps_as_in_the_sample(sample):
    app = [[dscp, dscp >> 3] for dscp in range(63, -1, -1)]
    qos = {"app": app}
    mlnx_qos.set_mapping(qos, ["set,30,6"])
    rows = [row.replace("\t", " " * 8) for row in mlnx_qos.mapping_rows(qos["app"])]
    block = sample("mlnx_qos/i_dscp_buffers_split_wrapped_dscp30.txt")
    assert rows[6].strip() == "prio:6 dscp:30,55,54,53,52,51,50,49,"
    assert rows[6] in block
    assert rows[7] in block


def test_the_planned_class_is_what_the_product_parser_reads(hardware, capsys):
    mlnx_qos.main(IF)
    read = parser.parse(capsys.readouterr().out)
    assert (read.dcbx, read.trust, read.pfc) == ("os", "dscp", frozenset({3}))
    assert read.dscp_prio[26] == 3
    assert read.prio_buffer[3] == 1


def test_pfc_moves_its_priority_to_a_buffer_of_its_own(hardware, capsys):
    assert mlnx_qos.main([*IF, "--pfc", "0,0,0,0,0,0,0,0"]) == 0
    assert parser.parse(capsys.readouterr().out).buffer_sizes[0] == 262016
    assert mlnx_qos.main([*IF, "--pfc", "0,0,0,0,0,1,0,0"]) == 0
    read = parser.parse(capsys.readouterr().out)
    assert read.pfc == frozenset({5})
    assert read.buffer_sizes[read.prio_buffer[5]] > 65536


def test_a_mapping_switches_trust_to_dscp_and_the_last_one_back(hardware, capsys):
    mlnx_qos.main([*IF, "--trust", "pcp"])
    assert "dscp2prio" not in capsys.readouterr().out
    mlnx_qos.main([*IF, "--dscp2prio", "set,26,3"])
    assert "Priority trust state: dscp\ndscp2prio mapping:\n\tprio:3 dscp:26,\n" in capsys.readouterr().out
    mlnx_qos.main([*IF, "--dscp2prio", "del,26,3"])
    assert "Priority trust state: pcp" in capsys.readouterr().out


def test_ets_and_buffers_are_kept(hardware, capsys):
    tsa = "ets,ets,ets,ets,ets,ets,strict,ets"
    assert mlnx_qos.main([*IF, "--tsa", tsa, "--tcbw", "40,0,0,60,0,0,0,0"]) == 0
    capsys.readouterr()
    assert mlnx_qos.main([*IF, "--buffer_size", "100000,160000", "--prio2buffer", "0,0,0,1,0,0,0,0"]) == 0
    read = parser.parse(capsys.readouterr().out)
    assert read.tc_bw[3] == 60
    assert read.buffer_sizes[:2] == (100000, 160000)


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        ([], 1, "Interface name is required"),
        (["-i", "eth9"], 1, "No such device"),
        ([*IF, "--pfc", "0,0,1"], 1, "pfc list must have 8 items"),
        ([*IF, "--pfc", "0,0,0,2,0,0,0,0"], 1, "Bad value for PFC: 2 is not in the range 0..1"),
        ([*IF, "--trust", "vlan"], 1, "Invalid trust state command"),
        ([*IF, "--tsa", "ets,ets,ets,ets,ets,ets,ets,ets", "--tcbw", "50,0,0,0,0,0,0,0"], 1, "Netlink error"),
        ([*IF, "--dscp2prio", "set,26"], 1, "Invalid dscp2prio command"),
        ([*IF, "--buffer_size", "1,1,1,999999999,0,0,0,0"], 1, "Buffers commands error"),
        ([*IF, "-d", "both"], 1, "Invalid dcbx mode command"),
    ],
)
def test_wrong_input_is_refused_and_changes_nothing(nic, argv, code, text, capsys):
    before = nic()["qos"]
    assert mlnx_qos.main(argv) == code
    assert text in capsys.readouterr().out
    assert nic()["qos"] == before


def test_an_unknown_option_ends_with_two(hardware):
    with pytest.raises(SystemExit) as end:
        mlnx_qos.main([*IF, "--frobnicate"])
    assert end.value.code == 2
