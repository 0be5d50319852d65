"""Votes, and comparisons of facing ports."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.fleet.checks.parity import vote
from kvctl.types.facts import unknown
from kvctl.types.findings import Verdict

from . import fleet as f


@pytest.mark.parametrize(
    ("ballots", "expected"),
    [
        ([], None),
        ([("a", 1)], None),
        ([("a", 1), ("a", 1)], None),
        ([("a", 1), ("b", 1)], 1),
        ([("a", 1), ("b", 2)], None),
        ([("a", 1), ("a", 1), ("b", 2)], None),
        ([("a", 1), ("b", 1), ("c", 2)], 1),
        ([("a", 1), ("b", 2), ("c", 3)], None),
        ([("a", 1), ("b", 1), ("c", 2), ("d", 2)], None),
        ([("a", 1), ("b", 1), ("c", 2), ("d", 3)], None),
    ],
)
def test_vote(ballots, expected):
    result = vote(ballots)
    assert result.expected == expected
    assert result.why


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3))))
def test_a_vote_never_elects_what_half_did_not_have(ballots):
    expected = vote(ballots).expected
    if expected is not None:
        assert 2 * sum(value == expected for _, value in ballots) > len(ballots)
        assert len({name for name, _ in ballots}) >= 2


def unstated(*, gpus=1, storages=3):
    """Nodes of a rail whose speed the inventory does not state: link.speed.peer alone compares."""
    inv = f.inventory()
    for name in ("gpu", "storage"):
        rails = tuple(r.model_copy(update={"speed": None}) for r in inv.roles[name].rails)
        inv = f.role(inv, name, rails=rails)
    template = {n.role: n for n in inv.nodes}
    names = [f"gpu{i + 1}" for i in range(gpus)] + [f"storage{i + 1}" for i in range(storages)]
    nodes = tuple(template[n.rstrip("0123456789")].model_copy(update={"name": n}) for n in names)
    return inv.model_copy(update={"nodes": nodes})


def speeds(**by_node):
    base = {"gpu": f.clean()["gpu1"], "storage": f.clean()["storage1"]}
    facts = {n: replace(base[n.rstrip("0123456789")], node=n) for n in by_node}
    for node, speed in by_node.items():
        facts = f.with_fact(facts, node, "nic.speed", speed)
    return facts


def blamed(inv, facts):
    return {x.node for x in f.run(inv, facts) if x.check == "link.speed.peer" and x.verdict is Verdict.FAIL}


def test_one_odd_node_is_one_finding_however_many_face_it():
    facts = speeds(gpu1=200, **{f"storage{i}": 200 for i in range(1, 8)}, storage8=100)
    findings = f.run(unstated(storages=8), facts)
    assert blamed(unstated(storages=8), facts) == {"storage8"}
    finding = f.of(findings, "link.speed.peer", "storage8")
    assert finding.expected.count("has 200 Mb/s") == 4
    assert finding.expected.endswith("(and 4 more)")
    assert "storage8" in f.of(findings, "link.speed.peer", "storage1").why


def test_two_ends_that_differ_are_both_named():
    assert blamed(unstated(storages=1), speeds(gpu1=200, storage1=100)) == {"gpu1", "storage1"}


def test_gpu_nodes_do_not_face_each_other():
    facts = speeds(gpu1=200, gpu2=200, storage1=200)
    finding = f.of(f.run(unstated(gpus=2, storages=1), facts), "link.speed.peer", "gpu1")
    assert finding.expected == "as on storage1:enp65s0f0np0"


def test_a_node_that_nothing_faces_is_not_compared():
    finding = f.of(f.run(unstated(gpus=2, storages=0), speeds(gpu1=1, gpu2=2)), "link.speed.peer", "gpu1")
    assert finding.verdict is Verdict.NOT_APPLICABLE


def test_silent_facing_nodes_leave_it_unknown():
    facts = {"gpu1": f.clean()["gpu1"]}
    finding = f.of(f.run(facts=facts), "net.mtu.peer", "gpu1")
    assert finding.verdict is Verdict.UNKNOWN
    assert "no facts from storage1, storage2, storage3" in finding.why


def test_facing_ports_without_the_value_leave_it_unknown():
    facts = f.clean()
    for node in ("storage1", "storage2", "storage3"):
        facts = f.with_fact(facts, node, "nic.speed", unknown("EINVAL"))
    assert f.verdict(f.run(unstated(), facts), "link.speed.peer", "gpu1") is Verdict.UNKNOWN


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([f"gpu{i}" for i in (1, 2, 3)] + [f"storage{i}" for i in (1, 2, 3)]), st.integers(1, 2)
    )
)
def test_a_difference_is_never_passed_over(by_node):
    """Whenever two facing ports differ, at least one end fails, and whoever does not says which end does."""
    inv, facts = unstated(gpus=3), speeds(**by_node)
    findings = {x.node: x for x in f.run(inv, facts) if x.check == "link.speed.peer"}
    for a, speed in by_node.items():
        facing = [b for b in by_node if b != a and "storage" in a + b]
        odd = [b for b in facing if by_node[b] != speed]
        if odd:
            assert findings[a].verdict in (Verdict.FAIL, Verdict.FOLLOWS)
            if findings[a].verdict is Verdict.FOLLOWS:
                assert any(findings[b].verdict is Verdict.FAIL for b in odd)
        elif facing:
            assert findings[a].verdict is Verdict.PASS
