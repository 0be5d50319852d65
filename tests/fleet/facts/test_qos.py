from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.facts.build import node_facts
from kvctl.types.facts import NodeFacts, Qos
from tests.fleet.facts.hardware import RAILS, document, storage_node

SOURCE = "netlink RTM_GETDCB DCB_CMD_IEEE_GET"


def leaf(value: Any) -> dict[str, Any]:
    return {"v": value, "src": SOURCE}


def kernel(**parts: Any) -> dict[str, Any]:
    return {"ieee": leaf(True), **{key: leaf(value) for key, value in parts.items()}}


def told(root: Path, dcb: dict[str, Any], *, tools: bool = False) -> tuple[Qos, NodeFacts]:
    raw = document(storage_node(root))
    raw["net"][RAILS[0]]["dcb"] = dcb
    if not tools:
        raw["tools"] = {}
    node = node_facts("n", raw)
    return node.nics[0].qos, node


def test_mlnx_qos_tells_the_class_when_the_kernel_was_not_asked(tmp_path: Path) -> None:
    qos = node_facts("n", document(storage_node(tmp_path))).nics[0].qos
    assert (qos.trust.value, qos.pfc.value, qos.dcbx.value) == ("dscp", frozenset({3}), "os")
    assert qos.dscp_prio.value is not None
    assert qos.dscp_prio.value[30] == 6
    assert qos.dscp_prio.value[48] == 6
    assert qos.prio_buffer.value is not None
    assert qos.buffer_size.value is not None
    assert qos.buffer_size.value[qos.prio_buffer.value[3]] == 896
    assert qos.cable_len.value == 7


def test_the_kernel_tells_all_of_the_class(tmp_path: Path) -> None:
    qos, _ = told(
        tmp_path,
        kernel(
            pfc={"enabled": 0b1000, "delay": 7},
            ets={
                "willing": 0,
                "tc_bw": [50, 0, 0, 50, 0, 0, 0, 0],
                "tsa": ["ets"] * 6 + ["strict", "vendor"],
                "prio_tc": list(range(8)),
            },
            app=[[5, 3, 26], [5, 6, 48], [1, 4, 35078]],
            buffer={"prio": [0, 0, 0, 1, 0, 0, 0, 0], "size": [130944, 130944, 0, 0, 0, 0, 0, 0]},
            peer_pfc={"enabled": 0, "delay": 0},
            dcbx=0x0D,
        ),
    )
    assert qos.pfc.value == frozenset({3})
    assert qos.peer_pfc.value == frozenset()
    assert (qos.trust.value, qos.dscp_prio.value) == ("dscp", {26: 3, 48: 6})
    assert (qos.dcbx.value, qos.willing.value, qos.cable_len.value) == ("os", False, 7)
    assert qos.tsa.value is not None
    assert (qos.tsa.value[6], qos.tsa.value[7]) == ("strict", "vendor")
    assert qos.buffer_size.value is not None
    assert qos.buffer_size.value[1] == 130944
    assert qos.pfc.source.startswith("netlink")


def test_no_lossless_priority_is_an_empty_set_and_no_answer_is_unknown(tmp_path: Path) -> None:
    qos, _ = told(tmp_path, kernel(pfc={"enabled": 0, "delay": 0}))
    assert qos.pfc.value == frozenset()
    assert qos.pfc.known
    assert not qos.prio_tc.known
    assert "does not report" in qos.prio_tc.unknown


def test_an_unsupported_request_is_the_reason(tmp_path: Path) -> None:
    qos, _ = told(tmp_path, {"ieee": {"unknown": "operation not supported", "src": SOURCE}})
    assert qos.pfc.value is None
    assert "operation not supported" in qos.pfc.unknown


def test_an_app_table_without_dscp_means_pcp_on_mlx5(tmp_path: Path) -> None:
    qos, _ = told(tmp_path, kernel(app=[]))
    assert qos.trust.value == "pcp"
    assert not qos.dscp_prio.known


def test_the_kernels_own_trust_order_counts_before_the_table(tmp_path: Path) -> None:
    qos, _ = told(tmp_path, kernel(app=[[5, 3, 26]], apptrust=[255, 5]))
    assert qos.trust.value == "pcp"


def test_other_drivers_do_not_tell_what_they_trust(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["tools"] = {}
    raw["net"][RAILS[0]]["driver"] = {"v": "bnxt_en", "src": "driver"}
    raw["net"][RAILS[0]]["dcb"] = kernel(app=[[5, 3, 26]])
    assert "bnxt_en" in node_facts("n", raw).nics[0].qos.trust.unknown


def test_when_tool_and_kernel_contradict_the_kernel_counts(tmp_path: Path) -> None:
    qos, node = told(tmp_path, kernel(pfc={"enabled": 0, "delay": 7}), tools=True)
    assert qos.pfc.value == frozenset()
    assert any(line.startswith(f"{RAILS[0]}: pfc:") for line in node.errors)


def test_willing_counts_only_under_the_kernels_own_dcbx(tmp_path: Path) -> None:
    ets = {"willing": 0, "tc_bw": [0] * 8, "tsa": ["ets"] * 8, "prio_tc": [0] * 8}
    qos, _ = told(tmp_path, kernel(ets=ets, dcbx=0x0E))
    assert qos.dcbx.value == "firmware"
    assert qos.willing.value is None


@pytest.mark.parametrize(
    "parts",
    [
        {"pfc": {"enabled": 256}},
        {"pfc": {"enabled": True}},
        {"pfc": None},
        {"pfc": [3]},
        {"ets": {"prio_tc": [0] * 7, "tsa": ["ets"], "tc_bw": "no"}},
        {"app": [[5, 3]], "buffer": {"prio": None, "size": [-1] * 8}, "dcbx": -1},
    ],
)
def test_a_part_of_a_wrong_form_is_unknown(tmp_path: Path, parts: dict[str, Any]) -> None:
    qos, _ = told(tmp_path, kernel(**parts))
    assert [qos.pfc.value, qos.prio_tc.value, qos.trust.value, qos.buffer_size.value, qos.dcbx.value] == [None] * 5


def test_ecn_is_by_priority(tmp_path: Path) -> None:
    ecn = node_facts("n", document(storage_node(tmp_path))).nics[0].ecn
    assert ecn.np.value == {priority: priority == 3 for priority in range(8)}
    assert (ecn.cnp_dscp.value, ecn.cnp_prio.value) == (48, 6)


def test_a_driver_without_ecn_files_is_unknown_and_one_missing_file_is_not_off(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / f"sys/class/net/{RAILS[0]}/ecn/roce_rp/enable/3").unlink()
    raw = document(root)
    del raw["net"][RAILS[1]]["ecn"]
    one, other = node_facts("n", raw).nics
    assert one.ecn.rp.value is not None
    assert 3 not in one.ecn.rp.value
    assert "no ecn folder" in other.ecn.np.unknown
