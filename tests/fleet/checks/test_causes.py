"""How causes are applied to raw outcomes."""

from kvctl.fleet.checks.causes import explain
from kvctl.fleet.checks.outcome import follows, judged, not_known
from kvctl.fleet.checks.registry import CheckSpec
from kvctl.types.facts import unknown
from kvctl.types.findings import Remedy, Severity, Verdict


def spec(id, *after):
    return CheckSpec(id, Severity.CRITICAL, id, (), "", Remedy(), lambda fleet: (), after=after)


A, B, C = spec("a"), spec("b", "a"), spec("c", "b")
HERE, THERE, NODE = ("n1", "if0"), ("n2", "if0"), ("n1", "")
FAIL, PASS = judged(False, "x", "y"), judged(True, "y", "y")


def verdicts(*raw):
    return [(outcome.verdict, outcome.cause) for _, _, outcome in explain(list(raw))]


def test_a_failure_follows_from_its_cause_at_the_same_place():
    assert verdicts((A, HERE, FAIL), (B, HERE, FAIL)) == [(Verdict.FAIL, ""), (Verdict.FOLLOWS, "a")]


def test_an_unknown_follows_too():
    assert verdicts((A, HERE, FAIL), (B, HERE, not_known(unknown("x"))))[1] == (Verdict.FOLLOWS, "a")


def test_a_cause_on_the_node_explains_its_subjects():
    assert verdicts((A, NODE, FAIL), (B, HERE, FAIL))[1] == (Verdict.FOLLOWS, "a")


def test_a_cause_elsewhere_explains_nothing():
    assert verdicts((A, THERE, FAIL), (B, HERE, FAIL))[1] == (Verdict.FAIL, "")


def test_a_cause_that_passed_or_is_unknown_explains_nothing():
    assert verdicts((A, HERE, PASS), (B, HERE, FAIL))[1] == (Verdict.FAIL, "")
    assert verdicts((A, HERE, not_known(unknown("x"))), (B, HERE, FAIL))[1] == (Verdict.FAIL, "")


def test_a_chain_leads_to_its_root():
    assert verdicts((A, HERE, FAIL), (B, HERE, FAIL), (C, HERE, FAIL))[2] == (Verdict.FOLLOWS, "a")


def test_a_failure_that_stands_alone_is_not_explained():
    raw = verdicts((A, HERE, FAIL), (B, HERE, judged(False, "x", "y", alone=True)), (C, HERE, FAIL))
    assert raw == [(Verdict.FAIL, ""), (Verdict.FAIL, ""), (Verdict.FOLLOWS, "b")]


def test_a_difference_is_explained_when_every_other_end_is():
    difference = judged(False, "x", "y", peers=(THERE, ("n3", "if0")))
    assert verdicts((A, THERE, FAIL), (B, HERE, difference))[1] == (Verdict.FAIL, "")
    both = verdicts((A, THERE, FAIL), (A, ("n3", "if0"), FAIL), (B, HERE, difference))
    assert both[2] == (Verdict.FOLLOWS, "a")


def test_a_claim_to_follow_is_held_against_what_it_names():
    """A check that says "it follows" while its cause passed would hide a fault."""
    assert verdicts((A, HERE, FAIL), (B, HERE, follows("a", "why")))[1] == (Verdict.FOLLOWS, "a")
    assert verdicts((A, HERE, PASS), (B, HERE, follows("a", "why")))[1] == (Verdict.FAIL, "")


def test_why_names_the_cause_and_its_place():
    difference = judged(False, "x", "y", peers=(THERE,))
    raw = explain([(A, THERE, FAIL), (B, HERE, difference)])
    assert raw[1][2].why == "follows a on n2:if0"
