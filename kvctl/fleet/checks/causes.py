"""Which raw failures are explained by another one, so that a fault is reported once, at its cause."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kvctl.fleet.checks.outcome import Outcome, Place
from kvctl.fleet.checks.registry import CheckSpec
from kvctl.types.findings import Verdict

Raw = tuple[CheckSpec, Place, Outcome]


class Failures:
    """Where each check failed, before any explanation."""

    def __init__(self, raw: Iterable[Raw]) -> None:
        self._at = {
            (spec.id, place): () if outcome.alone else spec.after
            for spec, place, outcome in raw
            if outcome.verdict is Verdict.FAIL
        }

    def at(self, check: str, place: Place) -> bool:
        """True when the check failed there, or on the node as a whole."""
        node, _ = place
        return (check, place) in self._at or (check, (node, "")) in self._at

    def first(self, checks: Iterable[str], place: Place) -> str:
        """The root cause among `checks` at a place: a cause that has a cause itself is followed to its own."""
        found = next((c for c in checks if self.at(c, place)), "")
        if not found:
            return ""
        node, _ = place
        above = self._at.get((found, place), self._at.get((found, (node, "")), ()))
        return self.first(above, place) or found


def explain(raw: list[Raw]) -> list[Raw]:
    """Turn failures and unknowns that follow from another check's failure into FOLLOWS.

    A FOLLOWS that a check gave itself stands only while the check it names did fail; otherwise it is a failure.
    """
    failures = Failures(raw)
    return [(spec, place, settled(spec, place, outcome, failures)) for spec, place, outcome in raw]


def settled(spec: CheckSpec, place: Place, outcome: Outcome, failures: Failures) -> Outcome:
    if outcome.verdict is Verdict.FOLLOWS:
        return confirmed(spec, place, outcome, failures)
    if outcome.verdict not in (Verdict.FAIL, Verdict.UNKNOWN) or outcome.alone:
        return outcome
    here = failures.first(spec.after, place)
    if here:
        return replace(outcome, verdict=Verdict.FOLLOWS, cause=here, why=because(here, "", outcome.why))
    there = {peer: failures.first(spec.after, peer) for peer in outcome.peers}
    if there and all(there.values()):
        peer, cause = next(iter(there.items()))
        return replace(outcome, verdict=Verdict.FOLLOWS, cause=cause, why=because(cause, at(peer), outcome.why))
    return outcome


def confirmed(spec: CheckSpec, place: Place, outcome: Outcome, failures: Failures) -> Outcome:
    cause = outcome.cause or spec.id
    found = next((p for p in (place, *outcome.peers) if failures.at(cause, p)), None)
    if found is None:
        return replace(outcome, verdict=Verdict.FAIL, cause="")
    if not outcome.cause:
        cause = failures.first(spec.after, found) or cause
    return replace(outcome, cause=cause, why=because(cause, "" if found == place else at(found), outcome.why))


def because(cause: str, where: str, why: str) -> str:
    text = f"follows {cause}{where}"
    return f"{text}: {why}" if why else text


def at(place: Place) -> str:
    node, subject = place
    return f" on {node}:{subject}" if subject else f" on {node}"


def cycle(after: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A chain of checks that explain each other in a circle, or (): with one, a fault could hide itself."""
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if name in path:
            return (*path[path.index(name) :], name)
        if name in done:
            return ()
        for cause in after.get(name, ()):
            found = walk(cause, (*path, name))
            if found:
                return found
        done.add(name)
        return ()

    return next((found for name in after if (found := walk(name, ()))), ())
