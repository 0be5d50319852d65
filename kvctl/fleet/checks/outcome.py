"""What one check says of one subject, before waivers and causes are applied."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kvctl.types.facts import Fact
from kvctl.types.findings import Remedy, Severity, Verdict

Place = tuple[str, str]  # node name, subject: where a finding is


@dataclass(frozen=True)
class Outcome:
    """A raw verdict. `facts` are what it rests on: they give the finding its source and its kind of evidence.

    `cause` names the check that explains a FOLLOWS. `peers` are the other ends of a comparison: a mismatch is
    explained when this end, or every peer, has a finding of its own that does. `alone` says that nothing else
    explains it, whatever `after` of the check lists.
    """

    verdict: Verdict
    observed: str = "-"
    expected: str = ""
    why: str = ""
    facts: tuple[Fact[Any], ...] = ()
    severity: Severity | None = None  # when it is not the check's own
    remedy: Remedy | None = None  # when it is not the check's own
    cause: str = ""
    peers: tuple[Place, ...] = ()
    alone: bool = False


def judged(
    right: bool,
    observed: object,
    expected: object,
    *facts: Fact[Any],
    severity: Severity | None = None,
    remedy: Remedy | None = None,
    why: str = "",
    peers: tuple[Place, ...] = (),
    alone: bool = False,
) -> Outcome:
    """PASS or FAIL; `severity`, `remedy` and `alone` matter for FAIL only."""
    verdict = Verdict.PASS if right else Verdict.FAIL
    changed = None if right else severity
    return Outcome(verdict, str(observed), str(expected), why, facts, changed, remedy=remedy, peers=peers, alone=alone)


def not_known(*facts: Fact[Any], expected: object = "", severity: Severity | None = None) -> Outcome:
    """UNKNOWN because of the facts among `facts` that have no value."""
    reasons = [f.unknown or "the value is missing" for f in facts if f.or_none() is None]
    return Outcome(Verdict.UNKNOWN, "-", str(expected), "; ".join(dict.fromkeys(reasons)), facts, severity)


def unclear(why: str, *facts: Fact[Any], observed: object = "-", severity: Severity | None = None) -> Outcome:
    """UNKNOWN although something was read: it decides nothing."""
    return Outcome(Verdict.UNKNOWN, str(observed), "", why, facts, severity)


def not_applicable(why: str) -> Outcome:
    return Outcome(Verdict.NOT_APPLICABLE, why=why)


def follows(cause: str, why: str, *facts: Fact[Any], observed: object = "-", expected: object = "") -> Outcome:
    """FOLLOWS of the check `cause`; the runner turns it into FAIL when that check did not fail."""
    return Outcome(Verdict.FOLLOWS, str(observed), str(expected), why, facts, cause=cause)


def listed(values: Iterable[object]) -> str:
    """A short text of a set, in order, or "none"."""
    return ", ".join(sorted(str(v) for v in values)) or "none"
