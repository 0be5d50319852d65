"""What differs, what puts it back, and what is not known."""

import json
from pathlib import Path

import pytest
from ansible.module_utils import kvctl_class, kvctl_roce, kvctl_roce_mlnx, kvctl_roce_system
from ansible.module_utils.kvctl_refused import Refused
from ansible.module_utils.kvctl_roce import Observed
from ansible.module_utils.tools import mlnx_qos

CASES = json.loads((Path(__file__).parent / "cases/mlnx_qos.json").read_text())
INTERFACE = CASES[0]["interface"]


def test_null_and_any_are_not_compared():
    wanted = kvctl_roce.desired_state({"priority": 3, "mtu": None, "dcbx": "any", "ecn": None, "pause": None})
    assert wanted == {}


def test_an_unknown_value_is_neither_compared_nor_set():
    observed = Observed({"mtu": 1500}, {"pause": "ethtool -a: Operation not supported"})
    diff = kvctl_roce.difference(observed, {"mtu": 9000, "pause": {"rx": False, "tx": False}})
    assert diff.before == {"mtu": 1500}
    assert diff.after == {"mtu": 9000}


def test_a_value_that_the_tool_does_not_show_is_set():
    diff = kvctl_roce.difference(Observed({"tclass": None}, {}), {"tclass": 106})
    assert diff.after == {"tclass": 106}
    assert kvctl_roce.undo(diff) == {}, "what was not known cannot be put back"


def test_the_diff_has_only_the_numbers_that_differ():
    diff = kvctl_roce.difference(Observed({"dscp_prio": {26: 4, 48: 6, 10: 1}}, {}), {"dscp_prio": {26: 3, 48: 6}})
    assert diff.before == {"dscp_prio": {26: 4}}
    assert diff.after == {"dscp_prio": {26: 3}}


def test_no_lossless_class_without_a_tool_that_sets_it():
    with pytest.raises(Refused, match="KV-ROCE-012"):
        kvctl_roce.refuse_unreadable("eth1", {"pfc": [3]}, Observed({}, {"pfc": "not supported"}), ["pfc"])


@pytest.mark.parametrize("case", [case for case in CASES if case.get("commands")], ids=lambda case: case["name"])
def test_undo_asks_for_what_was_there(case):
    samples = Path(__file__).parents[1] / "data/samples"
    text = case["sees"] if "sees" in case else (samples / case["sample"]).read_text()
    before = kvctl_roce_mlnx.observed(mlnx_qos.parse(text))
    own = {name: value for name, value in before.state.items() if value is not None}
    wanted = kvctl_roce.wanted_with_buffers(before, case["interface"])
    diff = kvctl_roce.difference(before, {name: value for name, value in wanted.items() if name in before.state})
    back = kvctl_class.put_back(kvctl_class.Planned(case["interface"], "mlnx_qos", before, diff, []))
    words = " ".join(word for command in back for word in command["argv"])
    if "pfc" in diff.after:
        assert "--pfc " + kvctl_roce.listed(dict.fromkeys(own["pfc"], 1), 0) in words
    if "buffer_size" in diff.after:
        assert "--buffer_size " + kvctl_roce.listed(own["buffer_size"], 0) in words
    if "trust" in diff.after:
        assert "--trust " + own["trust"] in words
    if "tsa" in diff.after:
        assert "--tsa " + kvctl_roce.listed(own["tsa"], "vendor") in words


def test_marking_is_written_to_the_drivers_files():
    commands = kvctl_roce_system.commands(
        INTERFACE,
        {"mtu": 9000, "ecn_np": {3: True}, "cnp_dscp": 48, "cnp_prio": 6, "tclass": 106, "pause": {"rx": False}},
    )
    assert commands == [
        {"argv": ["ip", "link", "set", "dev", "eth1", "mtu", "9000"]},
        {"argv": ["ethtool", "-A", "eth1", "rx", "off"]},
        {"write": "/sys/class/net/eth1/ecn/roce_np/enable/3", "text": "1"},
        {"write": "/sys/class/net/eth1/ecn/roce_np/cnp_dscp", "text": "48"},
        {"write": "/sys/class/net/eth1/ecn/roce_np/cnp_802p_prio", "text": "6"},
        {"write": "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "text": "106"},
    ]


@pytest.mark.parametrize(
    ("driver", "tools", "backend"),
    [
        ("mlx5_core", {"mlnx_qos", "dcb"}, "mlnx_qos"),
        ("mlx5_core", {"dcb"}, "dcb"),
        ("bnxt_en", {"niccli", "dcb"}, "niccli"),
        ("ice", {"lldpad", "dcb"}, "lldpad"),
        ("netdevsim", {"dcb"}, "dcb"),
    ],
)
def test_the_back_end_is_chosen_by_driver_and_by_what_is_installed(driver, tools, backend):
    assert kvctl_class.choose(driver, {name: name in tools for name in kvctl_class.BACKENDS}) == backend


def test_without_its_tool_an_interface_is_refused_and_the_tool_named():
    with pytest.raises(Refused, match=r"KV-ROCE-002: driver mlx5_core needs mlnx_qos or dcb"):
        kvctl_class.choose("mlx5_core", dict.fromkeys(kvctl_class.BACKENDS, False))


def test_a_missing_interface_is_refused():
    with pytest.raises(Refused, match="KV-ROCE-001"):
        kvctl_class.plan({**INTERFACE, "netdev": "no-such-if0"})


def test_the_boot_unit_is_bound_to_the_device_or_ordered_before_the_network():
    bound, free = kvctl_class.unit_text(True), kvctl_class.unit_text(False)
    assert "BindsTo=sys-subsystem-net-devices-%i.device" in bound
    assert "WantedBy=sys-subsystem-net-devices-%i.device" in bound
    assert "BindsTo" not in free
    assert "WantedBy=multi-user.target" in free
