"""What is written is read back as the same value, and nothing else is taken for it."""

import json
from dataclasses import dataclass

import pytest

from kvctl.types import codec
from kvctl.types.errors import KvctlError
from kvctl.types.facts import Drive, Namespace, Nic, NodeFacts, Qos, known, unknown
from kvctl.types.findings import Evidence, Finding, Severity, Verdict
from kvctl.types.plans import Change, Plan, Refusal, Step, Uncut


@dataclass(frozen=True)
class Small:
    name: str
    tags: frozenset[str] = frozenset()


def test_plan_survives() -> None:
    step = Step(
        "s01", "n1", "roce", "apply", {"interfaces": [{"mtu": 9000}]}, {"nic.pci:e": "0000:41:00.0"},
        (Change("e", "mtu", "1500", "9000"),), ("net.mtu",), Uncut.NETWORK, True, True, ("S1",),
    )  # fmt: skip
    refusal = Refusal("n1", "nvme.lba", "S1", "KV-PLAN-001", "mounted", "unmount")
    plan = Plan(
        "p-1", "h", "s", "now", {"n1": "then"}, steps=(step,), refusals=(refusal,), desired={"n1": {"roce": {}}}
    )
    assert codec.from_json(codec.to_json(plan), Plan) == plan
    assert codec.from_builtins(json.loads(json.dumps(codec.to_builtins(plan))), Plan) == plan


def test_facts_survive_with_their_unknowns_and_integer_keys() -> None:
    qos = Qos(pfc=known(frozenset({3}), "mlnx_qos"), dscp_prio=known({26: 3}, "dcb"), trust=unknown("no tool"))
    facts = NodeFacts(
        "n1", "now", False, nics=(Nic("e", qos=qos),), drives=(Drive("nvme0", namespaces=(Namespace("x"),)),)
    )
    assert codec.from_json(codec.to_json(facts), NodeFacts) == facts
    assert codec.from_builtins(codec.to_builtins(facts), NodeFacts) == facts


def test_finding_survives() -> None:
    finding = Finding("net.mtu", "n1", "e", Verdict.FAIL, Severity.CRITICAL, evidence=Evidence.EFFECT)
    assert codec.from_json(codec.to_json(finding), Finding) == finding


def test_equal_values_give_equal_bytes() -> None:
    one, two = Small("a", frozenset("abc")), Small("a", frozenset("cba"))
    assert codec.to_json(one) == codec.to_json(two)
    assert codec.to_builtins(one)["tags"] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}', '{"tags": []}', "\udcff"])
def test_what_is_not_one_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(KvctlError) as caught:
        codec.from_json(text.encode("utf-8", "surrogateescape"), Small, where="file.json")
    assert caught.value.code == "KV-DATA-001"
    assert caught.value.where == "file.json"
