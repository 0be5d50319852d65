"""Whatever is unknown, missing or odd: no check raises, and none passes over a value that it did not have."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.fleet.checks.registry import specs
from kvctl.types.facts import Fact, known, unknown
from kvctl.types.findings import Verdict

from . import fleet as f

# One of two ways is enough, so the check may pass without the other.
ENOUGH = {("gdr", "host.dmabuf")}
NOT_FACTS = {"nics", "drives", "drive.namespaces", "gpus", "lab"}
NAMES = {("nics",): "nic", ("drives",): "drive", ("drives", "namespaces"): "ns", ("gpus",): "gpu", ("host",): "host"}


def fact_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all facts in a tree of dataclasses; of tuples, the first element."""
    if isinstance(value, Fact):
        yield path
    elif isinstance(value, tuple):
        if value:
            yield from fact_paths(value[0], path)
    elif is_dataclass(value):
        for field in fields(value):
            yield from fact_paths(getattr(value, field.name), (*path, field.name))


def read_name(path: tuple[str, ...]) -> str:
    """("drives", "namespaces", "lba") -> "ns.lba", as checks write it in `reads`."""
    root = max((r for r in NAMES if path[: len(r)] == r), key=len)
    return ".".join((NAMES[root], *path[len(root) :]))


PATHS = sorted({(n, p) for n, facts in f.clean().items() for p in fact_paths(facts)})
READ_NAMES = {read_name(p) for _, p in PATHS}


def swapped(facts: f.Facts, node: str, path: tuple[str, ...], new: Fact[Any]) -> f.Facts:
    return {**facts, node: f.put(facts[node], path, lambda old: new)}


def run_all(facts: f.Facts) -> Any:
    return f.run(facts=f.later(facts), previous=f.clean(), probes=f.probes(), switches=f.switches())


def test_what_checks_read_exists():
    for spec in specs():
        for name in (*spec.reads, *spec.also):
            assert name in READ_NAMES | NOT_FACTS or name.startswith(("certificate.", "probe.", "switch.")), (
                spec.id,
                name,
            )


@pytest.mark.parametrize(("node", "path"), [(n, p) for n, p in PATHS if n in ("gpu1", "storage2")])
def test_an_unknown_value_is_never_a_pass(node, path):
    findings = run_all(swapped(f.clean(), node, path, unknown("it was taken away", "/sys/x")))
    name = read_name(path)
    for spec in specs():
        if name in spec.reads and (spec.id, name) not in ENOUGH:
            finding = f.of(findings, spec.id, node)
            assert finding.verdict is not Verdict.PASS, (spec.id, name)
            if finding.verdict is Verdict.UNKNOWN:
                assert finding.why


@settings(max_examples=60, deadline=None)
@given(taken=st.sets(st.sampled_from(PATHS), max_size=40), nodes=st.sets(st.sampled_from(f.NODES)))
def test_any_mix_of_unknown_values_and_missing_nodes_is_survived(taken, nodes):
    facts = f.clean()
    for node, path in taken:
        facts = swapped(facts, node, path, unknown("taken away"))
    facts = {name: value for name, value in facts.items() if name not in nodes}
    findings = run_all(facts)
    for spec in specs():
        for node in nodes - set(facts):
            if spec.site_wide or not spec.fed or f.inventory().role_of(f.inventory().node(node)).kind not in spec.kinds:
                continue
            assert f.verdict(findings, spec.id, node) is Verdict.UNKNOWN


@settings(max_examples=60, deadline=None)
@given(nodes=st.sets(st.sampled_from(f.NODES)), earlier=st.sets(st.sampled_from(f.NODES)))
def test_missing_earlier_readings_are_survived(nodes, earlier):
    facts = {n: v for n, v in f.later(f.clean()).items() if n not in nodes}
    before = {n: v for n, v in f.clean().items() if n not in earlier}
    findings = f.run(facts=facts, previous=before)
    for node in set(facts) & earlier:
        assert f.verdict(findings, "cnt.lossless", node) is Verdict.NOT_APPLICABLE


def odd(old: Any) -> st.SearchStrategy[Any]:
    """Values of the same type that no check expects."""
    if isinstance(old, bool):
        return st.booleans()
    if isinstance(old, str):
        return st.text(max_size=12)
    if isinstance(old, int):
        return st.integers(-(2**33), 2**33)
    if isinstance(old, float):
        return st.floats(allow_nan=True)
    if isinstance(old, frozenset):
        return st.frozensets(st.integers(0, 7))
    if isinstance(old, dict | tuple):
        return st.just(type(old)())
    return st.just(old)


def at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value[0] if isinstance(value, tuple) else value, name)
    return value


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_odd_values_are_survived(data):
    facts = f.clean()
    for node, path in data.draw(st.lists(st.sampled_from(PATHS), max_size=6)):
        old = at(facts[node], path)
        if old.known:
            facts = swapped(facts, node, path, known(data.draw(odd(old.value)), "odd"))
    run_all(facts)


@settings(deadline=None)
@given(st.sampled_from(f.NODES), st.sampled_from(["nics", "drives", "gpus"]))
def test_a_node_without_devices_does_not_pass_their_checks(node, devices):
    facts = {**f.clean(), node: replace(f.clean()[node], **{devices: ()})}
    findings = f.run(facts=facts)
    prefixes = {"nics": ("qos.", "ecn.", "cm.", "net.", "link."), "drives": ("nvme.",), "gpus": ("gpu.", "pcie.gpu")}
    mine = [x for x in findings if x.node == node and x.check.startswith(prefixes[devices])]
    assert all(x.verdict is not Verdict.PASS for x in mine)
