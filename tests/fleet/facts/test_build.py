import copy
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.probe.collect import collect
from kvctl.types.facts import Fact, NodeFacts
from tests.fleet.facts.hardware import RAILS, document, storage_node, tool

SAMPLE = Path(__file__).parents[2] / "data/samples/sysfs_infiniband/grep_h100_cx7_plus_bf3_bond.txt"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def every_fact(value: Any) -> Iterator[tuple[str, Fact[Any]]]:
    """(path, fact) of all facts in a dataclass."""
    if isinstance(value, Fact):
        yield "", value
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from ((f"[{place}]{path}", fact) for path, fact in every_fact(item))
    elif is_dataclass(value):
        for field in fields(value):
            yield from ((f".{field.name}{path}", fact) for path, fact in every_fact(getattr(value, field.name)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = storage_node(tmp_path_factory.mktemp("node"))
    tool(root, f"ethtool.stats:{RAILS[0]}", "NIC statistics:\n     rx_prio3_pause: 4\n")
    return document(root)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield (*path, place)
            yield from leaves(item, (*path, place))


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document after up to six places were deleted or replaced by any JSON."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 6))):
        path = draw(st.sampled_from(list(leaves(changed)) or [()]))
        if not path:
            break
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()):
            parent.pop(path[-1])
        else:
            parent[path[-1]] = draw(JSON)
    return changed


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_whatever_is_missing_or_wrong_becomes_unknown(whole: Any, data: st.DataObject) -> None:
    node = node_facts("n", data.draw(altered(whole)))
    assert isinstance(node, NodeFacts)
    for path, fact in every_fact(node):
        assert fact.known == (fact.value is not None), path
        assert isinstance(fact.source, str)


@settings(max_examples=150, deadline=None)
@given(document=JSON)
def test_any_json_gives_facts(document: Any) -> None:
    node = node_facts("n", document)
    assert all(fact.value is None for _, fact in every_fact(node.host))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_deleted_leaf_never_becomes_a_value(whole: Any, data: st.DataObject) -> None:
    paths = [path for path in leaves(whole) if path[-1] == "v" and path[0] not in ("tools",)]
    path = data.draw(st.sampled_from(paths))
    changed = copy.deepcopy(whole)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    removed = parent.pop("v")
    source = parent["src"]
    for where, fact in every_fact(node_facts("n", changed)):
        assert fact.source != source or fact.value is None, (where, removed)


def test_the_document_survives_json(whole: Any) -> None:
    assert node_facts("n", json.loads(json.dumps(whole))) == node_facts("n", whole)


def test_an_unknown_schema_is_told(whole: Any) -> None:
    assert any("schema" in line for line in node_facts("n", {**whole, "schema": 2}).errors)


def test_what_the_probe_could_not_do_is_kept(whole: Any) -> None:
    assert node_facts("n", {**whole, "errors": ["rtnetlink: permission denied"]}).errors == (
        "rtnetlink: permission denied",
    )


def test_nothing_but_the_probe_document_is_needed() -> None:
    node = node_facts("here", json.loads(json.dumps(collect(run_tools=False))))
    assert node.host.kernel.value == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert node.at.endswith("Z")


def test_a_flat_recording_of_sysfs_is_a_tree(tmp_path: Path) -> None:
    """`grep "" -r` over /sys/class/infiniband of an H100 node, as people post it."""
    for line in SAMPLE.read_text().splitlines():
        path, _, value = line.partition(":")
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(value + "\n")
    raw = collect(str(tmp_path))
    assert raw["rdma"]["mlx5_0"]["fw_ver"]["v"] == "28.41.1000"
    port = raw["rdma"]["mlx5_0"]["ports"]["1"]
    assert port["hw_counters"]["v"]["roce_adp_retrans"] == 3
    assert port["gids"]["unknown"] == "no GID table"
    assert raw["rdma"]["mlx5_bond_0"]["board_id"]["v"] == "MT_0000000884"
