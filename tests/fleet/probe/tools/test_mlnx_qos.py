import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.mlnx_qos import parse

from .samples import (
    assert_cut_changes_nothing,
    assert_noise_changes_nothing,
    assert_survives_damage,
    folder,
    sample,
)

ALL = folder("mlnx_qos")
WRAPPED = "mlnx_qos/i_dscp_buffers_split_wrapped_dscp30.txt"


def test_default_port_trusts_pcp_and_has_one_buffer() -> None:
    qos = parse(sample("mlnx_qos/i_default_pcp_buf262016_peer.txt"))
    assert (qos.dcbx, qos.trust, qos.dscp_prio) == ("os", "pcp", None)
    assert qos.total_buffer == 262016
    assert qos.pfc == frozenset()
    assert qos.prio_tc == {0: 1, 1: 0, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}


def test_priority_with_more_than_eight_dscps_goes_on_in_a_second_row() -> None:
    qos = parse(sample(WRAPPED))
    assert qos.dscp_prio is not None
    assert len(qos.dscp_prio) == 64
    assert (qos.dscp_prio[30], qos.dscp_prio[48], qos.dscp_prio[55], qos.dscp_prio[26]) == (6, 6, 6, 3)
    assert qos.pfc == {3}


def test_lossless_priority_may_sit_on_a_tiny_buffer() -> None:
    qos = parse(sample(WRAPPED))
    assert qos.prio_buffer is not None
    assert qos.prio_buffer[3] == 7
    assert qos.buffer_of(3) == 896


def test_site_with_its_lossless_class_on_priority_5() -> None:
    qos = parse(sample("mlnx_qos/i_site_prio5_default_priority_cable30.txt"))
    assert qos.pfc == {5}
    assert qos.default_priority is None
    assert qos.cable_len == 30
    assert (qos.buffer_of(5), qos.max_buffer_size) == (220896, 4151520)
    assert qos.tc_bw == {0: 9, 1: 1, 2: 80, 3: 10}
    assert qos.tsa == {0: "ets", 1: "ets", 2: "ets", 3: "ets", 4: "strict"}


def test_traffic_classes_in_any_order_and_indented_by_tabs() -> None:
    qos = parse(sample("mlnx_qos/i_trust_dscp_set_reply_old_fw.txt"))
    assert (qos.trust, qos.pfc) == ("dscp", frozenset())
    assert qos.prio_tc is not None
    assert (qos.prio_tc[0], qos.prio_tc[1]) == (1, 0)


def test_layout_before_receive_buffers() -> None:
    qos = parse(sample("mlnx_qos/i_v42_doc_example.txt"))
    assert qos.pfc == {0, 2, 6, 7}
    assert qos.buffer_sizes is None
    assert qos.prio_buffer is None
    assert qos.cable_len == 10
    assert qos.tsa[6] == "strict"
    assert 6 not in qos.tc_bw


def test_firmware_controlled_port_with_limits_and_a_warning() -> None:
    qos = parse(
        "****** WARNING: lldpad service is running and may overwrite your settings ******\n\n"
        "DCBX mode: Firmware controlled\nPriority trust state: none\n"
        "Buffers commands are not supported on your system\n"
        "Cable len: 0\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
        "\tenabled     0   0   0   1   0   0   0   0   \n"
        "tc: 0 ratelimit: 12.5 Gbps, tsa: ets, bw: 30%\n\t priority:  0\n"
    )
    assert (qos.dcbx, qos.trust, qos.lldpad_running) == ("firmware", None, True)
    assert qos.ratelimit == {0: 12.5}
    assert qos.buffer_sizes is None


def test_priorities_after_a_headless_class_belong_to_no_class() -> None:
    qos = parse(
        "Priority trust state: pcp\ntc: 0 ratelimit: unlimited, tsa: strict\n\t priority:  1\nstrict\n\t priority:  2\n"
    )
    assert qos.prio_tc == {1: 0}


@pytest.mark.parametrize(
    "invented",
    [
        "Priority trust state: dscp\nEnabled TC:    0,1,2,3\nPFC configuration:\n",
        "Priority trust state: dscp\nDSCP to priority mapping:\n  dscp 0-7\n",
        "Priority trust state: pcp\nPCP to priority mapping:\n",
        "Priority trust state: pcp\nPFC configuration:\n  priority:  0   1   2   3   4   5   6   7\n",
    ],
)
def test_layouts_the_tool_never_prints_are_refused(invented: str) -> None:
    with pytest.raises(ToolOutputError, match="never prints"):
        parse(invented)


@pytest.mark.parametrize(
    "text", ["", "Interface name is required\n", "ETS features are not supported on your system\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


def test_two_interfaces_in_one_text_are_refused() -> None:
    with pytest.raises(ToolOutputError, match="contradicts itself"):
        parse(sample(WRAPPED) + sample("mlnx_qos/i_default_pcp_buf262016_peer.txt"))


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse, sample(path))
    assert_noise_changes_nothing(parse, sample(path))


def test_cut_inside_a_line_never_gives_a_wrong_map_or_buffer() -> None:
    text = sample(WRAPPED)
    whole = parse(text)
    for end in range(len(text)):
        try:
            part = parse(text[:end])
        except ToolOutputError:
            continue
        assert part.dscp_prio in (None, whole.dscp_prio)
        assert part.buffer_sizes in (None, whole.buffer_sizes)
        assert part.pfc in (None, whole.pfc)
        assert part.prio_buffer in (None, whole.prio_buffer)


def test_damage() -> None:
    assert_survives_damage(parse, [sample(path) for path in ALL])
