import pytest

from kvctl.fleet.facts.raw import Raw, first, integer
from kvctl.types.facts import known, unknown


@pytest.mark.parametrize(
    "value", [True, False, None, "", "1.0", "0x10", "\u0661", "\u00b2", " ", [], {}, 1.0, -1, 1 << 80, "9" * 30]
)
def test_what_is_no_count_is_no_number(value: object) -> None:
    assert integer(value) is None


@pytest.mark.parametrize(("value", "number"), [(0, 0), ("0", 0), (" 7\n", 7), (1 << 40, 1 << 40)])
def test_a_count_may_be_written_as_text(value: object, number: int) -> None:
    assert integer(value) == number


def test_the_first_known_fact_counts_and_all_reasons_are_kept() -> None:
    assert first(unknown("a"), known(0, "s")).value == 0
    assert first(unknown("a"), unknown("b", "s"), unknown("a")).unknown == "a; b"


def test_a_contradiction_is_one_line() -> None:
    raw = Raw({})
    assert raw.agreed("eth0: pfc", known({3}, "netlink"), known({4}, "mlnx_qos")).value == {3}
    assert raw.errors == ["eth0: pfc: netlink says {3}, mlnx_qos says {4}; the first is used"]


def test_agreement_and_ignorance_are_no_error() -> None:
    raw = Raw({})
    raw.agreed("x", known(1, "a"), known(1, "b"))
    raw.agreed("x", known(1, "a"), unknown("b"))
    assert raw.agreed("x", unknown("a"), known(2, "b")).value == 2
    assert raw.errors == []


@pytest.mark.parametrize(
    ("source", "simulated"),
    [
        ("mlnx_qos -i eth0", True),
        ("/usr/sbin/mlnx_qos -i eth0", True),
        ("mlnx_qos_other -i eth0", False),
        ("/sys/class/infiniband/mlx5_0/fw_ver", True),
        ("/sys/class/net/eth0/mtu", False),
        ("netlink RTM_GETLINK eth0", False),
        ("", False),
    ],
)
def test_stand_ins_are_tools_and_paths(source: str, simulated: bool) -> None:
    raw = Raw(
        {"lab": {"lab": True, "text": '{"lab": true, "simulated": ["mlnx_qos", "/sys/class/infiniband", "", 3]}'}}
    )
    assert raw.simulated(source) is simulated


@pytest.mark.parametrize("lab", [None, {}, {"text": "{"}, {"text": "[]"}, {"simulated": "mlnx_qos"}, 3, {"text": 7}])
def test_a_marker_of_a_wrong_form_lists_nothing(lab: object) -> None:
    assert Raw({"lab": lab}).stand_ins == ()


def test_reasons_name_what_is_not_installed() -> None:
    raw = Raw(
        {
            "tools": {
                "mstflint": {"argv": ["mstflint"], "unknown": "not installed"},
                "flint": {"unknown": "not installed"},
            }
        }
    )
    assert raw.output("mstflint.query:x", "mstflint", "flint").unknown == "mstflint and flint are not installed"
    assert raw.output("mlnx_qos:x", "mlnx_qos").unknown == "mlnx_qos was not run"
