import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.cma_roce import dscp, parse_mode, parse_tos, parse_traffic_class

from .samples import assert_survives_damage, sample


def test_mode() -> None:
    assert parse_mode(sample("cma_roce/mode_v2.txt")) == "v2"
    assert parse_mode("RoCE v2\n") == "v2"
    assert parse_mode("IB/RoCE v1\n") == "v1"


def test_traffic_class() -> None:
    value = parse_traffic_class(sample("cma_roce/traffic_class_sysfs_236.txt"))
    assert value == 236
    assert dscp(236) == 59
    assert parse_traffic_class("Global tclass=106\n") == 106


def test_empty_file_is_no_traffic_class_and_not_zero() -> None:
    assert parse_traffic_class("") is None
    assert parse_traffic_class("\n") is None
    assert parse_traffic_class("Global tclass=0\n") == 0


def test_rules_for_single_flows_are_not_the_global_class() -> None:
    assert parse_traffic_class("src_ip=192.0.2.1,tclass=184\n") is None
    assert parse_traffic_class("Global tclass=106\ndst_addr=192.0.2.2/24,tclass=184\n") == 106


def test_tos() -> None:
    assert parse_tos("106\n") == 106
    assert dscp(106) == 26


@pytest.mark.parametrize("text", ["", "256\n", "-1\n", "Device mlx5_9 port 1 does not exist\n"])
def test_no_tos(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_tos(text)


@pytest.mark.parametrize("parse", [parse_mode, parse_traffic_class])
@pytest.mark.parametrize("text", ["You must be root to run this\n", "Global tclass=900\n"])
def test_other_texts_are_refused(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ToolOutputError):
        parse(text)


def test_damage() -> None:
    assert_survives_damage(parse_mode, ["RoCE v2\n", "IB/RoCE v1\n"])
    assert_survives_damage(parse_tos, ["106\n"])
    assert_survives_damage(parse_traffic_class, ["Global tclass=106\n", "Global tclass=106\ntclass=184,src_addr=1\n"])


def test_values_after_the_command_that_gave_them() -> None:
    assert parse_tos("+ sudo cma_roce_tos -d mlx5_2 -t 106\n106\n") == 106
    assert parse_traffic_class("op@node01:~$ cat traffic_class\nGlobal tclass=136\nop@node01:~$ ") == 136
    assert parse_traffic_class("op@node01:~$ cat traffic_class\n\nop@node01:~$ ") is None
    with pytest.raises(ToolOutputError):
        parse_tos("106\n98\n")
