"""Each back end: what the tool shows and what is wanted -> the commands, or the refusal. Cases in cases/*.json."""

import json
from pathlib import Path

import pytest
from ansible.module_utils import (
    kvctl_roce,
    kvctl_roce_dcb,
    kvctl_roce_lldpad,
    kvctl_roce_mlnx,
    kvctl_roce_niccli,
)
from ansible.module_utils.kvctl_refused import Refused
from ansible.module_utils.tools import lldptool, mlnx_qos, niccli

CASES = Path(__file__).parent / "cases"
SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def load(backend):
    return [pytest.param(case, id=case["name"]) for case in json.loads((CASES / f"{backend}.json").read_text())]


def seen(case):
    return case["sees"] if "sees" in case else (SAMPLES / case["sample"]).read_text()


def decide(backend, observed, case):
    interface = case["interface"]
    wanted = kvctl_roce.wanted_with_buffers(observed, interface)
    if hasattr(backend, "only_shown_classes"):
        wanted = backend.only_shown_classes(observed, wanted)
    # What every driver shares (MTU, pause, marking) is decided elsewhere.
    common = {"mtu", "pause", "ecn_np", "ecn_rp", "cnp_dscp", "cnp_prio", "cm_tos", "tclass"}
    wanted = {name: value for name, value in wanted.items() if name not in common}
    diff = kvctl_roce.difference(observed, wanted)
    return [command["argv"] for command in backend.commands(interface, observed, diff.after)] if diff else []


def check(case, work):
    if "refused" in case:
        with pytest.raises(Refused) as refused:
            work()
        assert refused.value.code == case["refused"]
        return
    assert work() == case["commands"]


@pytest.mark.parametrize("case", load("mlnx_qos"))
def test_mlnx_qos(case):
    check(case, lambda: decide(kvctl_roce_mlnx, kvctl_roce_mlnx.observed(mlnx_qos.parse(seen(case))), case))


@pytest.mark.parametrize("case", load("dcb"))
def test_dcb(case):
    observed = kvctl_roce_dcb.observed(case["answers"])
    check(case, lambda: decide(kvctl_roce_dcb, observed, case))
    assert set(case.get("unknown", [])) <= set(observed.unknown)


@pytest.mark.parametrize("case", load("niccli"))
def test_niccli(case):
    check(case, lambda: decide(kvctl_roce_niccli, kvctl_roce_niccli.observed(niccli.parse_qos(seen(case))), case))


@pytest.mark.parametrize("case", load("lldpad"))
def test_lldpad(case):
    text = seen(case)
    observed = kvctl_roce_lldpad.observed(
        lldptool.parse_pfc(text).priorities, lldptool.parse_tlvs(text).ets, case.get("agent", False)
    )

    def work():
        kvctl_roce_lldpad.refuse(case["interface"], kvctl_roce.desired_state(case["interface"]))
        return decide(kvctl_roce_lldpad, observed, case)

    check(case, work)
