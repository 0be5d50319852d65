import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.hw_counters import parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

TEXT = sample("hw_counters/nccl394_ecn_busy_out_of_sequence.txt")
PATH = "/sys/class/infiniband/mlx5_{0}/ports/1/hw_counters/{1}"


def test_broken_lossless_class() -> None:
    counters = parse(TEXT)
    assert (counters["out_of_sequence"], counters["local_ack_timeout_err"]) == (6140236, 91316)
    assert (counters["np_cnp_sent"], counters["np_ecn_marked_roce_packets"]) == (17269947, 11293938)
    assert len(counters) == 14
    assert "rp_cnp_handled" not in counters


def test_paths_and_show_counters() -> None:
    assert parse(PATH.format(0, "out_of_sequence:5\n") + PATH.format(0, "lifespan:12\n"))["out_of_sequence"] == 5
    assert parse("Port 1 hw counters:\nout_of_sequence: 5\nrx_write_requests: 7\n")["rx_write_requests"] == 7


def test_unreadable_counter_is_left_out() -> None:
    assert parse("out_of_buffer:0\nVL15_dropped:N/A (no PMA)\ngrep: lifespan: Invalid argument\n") == {
        "out_of_buffer": 0
    }


def test_two_ports_are_refused() -> None:
    with pytest.raises(ToolOutputError):
        parse(PATH.format(0, "out_of_sequence:5\n") + PATH.format(1, "out_of_sequence:5\n"))


@pytest.mark.parametrize("text", ["", "grep: hw_counters: No such file or directory\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


def test_cut_noise_and_damage() -> None:
    assert_cut_changes_nothing(parse, TEXT)
    assert_noise_changes_nothing(parse, TEXT)
    assert_survives_damage(parse, [TEXT])
