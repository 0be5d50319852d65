"""Evidence checks: what `audits/` says, run over the tables. PASS needs something to judge and no row that violates."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from kvctl.controller.agreement import disagreements, keys_unlike
from kvctl.controller.clock import now
from kvctl.ledger.verify import verify
from kvctl.state import audit as state
from kvctl.types.errors import UsageError
from kvctl.types.resources import resource

if TYPE_CHECKING:
    from kvctl.controller.core import Controller


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    NO_EVIDENCE = "NO EVIDENCE"
    WAIVED = "WAIVED"


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of audits/checks. SQL may use $now (RFC 3339), $home (the controller's country) and $stores (the names
    of the stores that it has)."""

    id: str
    title: str
    question: str
    rule: str
    controls: dict[str, list[str]]  # pack -> articles or criteria
    population: str
    violations: str
    also: str = ""  # what is looked at beside the tables, one of ALSO


class Pack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of audits/packs: a mapping with a dated set of rules."""

    pack: str
    title: str
    rules: str
    effective: str
    scope: str
    articles: dict[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    check: Check
    verdict: Verdict
    population: int
    violations: int
    rows: list[dict[str, Any]]  # at most state.LISTED
    waiver: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        check = self.check
        return {
            "id": check.id, "title": check.title, "question": check.question, "rule": check.rule,
            "controls": check.controls, "verdict": str(self.verdict), "population": self.population,
            "violations": self.violations, "rows": self.rows, "waiver": self.waiver,
        }  # fmt: skip


def checks() -> list[Check]:
    """Every check of the product, by id."""
    found = [_read(path, Check) for path in sorted((resource("audits") / "checks").glob("*.yaml"))]
    return sorted(found, key=lambda check: check.id)


def packs() -> dict[str, Pack]:
    found = (_read(path, Pack) for path in sorted((resource("audits") / "packs").glob("*.yaml")))
    return {pack.pack: pack for pack in found}


def pack_named(name: str) -> Pack:
    """UsageError KV-AUD-001 when there is none."""
    known = packs()
    if name not in known:
        raise UsageError("KV-AUD-001", f"there is no pack {name!r}", fix=f"there are: {', '.join(known)}")
    return known[name]


def _read(path: Path, kind: type[Any]) -> Any:
    document = yaml.load(path.read_text(), yaml.BaseLoader)  # every scalar stays a text
    return msgspec.convert(document, kind)


def run(ctl: "Controller", wanted: list[Check], *, ledger: bool = True) -> list[Outcome]:
    """Judge each check now, on the tables as they are. `ledger`: those that say so compute the log again."""
    at = now()
    with ctl.books.state.reading() as db:
        waived = state.waivers(db, at)
        return [_judged(ctl, db, check, at, waived.get(check.id), ledger) for check in wanted]


def _judged(
    ctl: "Controller", db: Any, check: Check, at: str, waiver: dict[str, Any] | None, ledger: bool
) -> Outcome:  # fmt: skip
    parameters = {"now": at.removesuffix("Z"), "home": ctl.settings.country, "stores": sorted(ctl.settings.stores)}
    population, violations = (text.replace("$now", "$now::TIMESTAMP") for text in (check.population, check.violations))
    judged, count, rows = state.judge(db, population, violations, parameters)
    if check.also and judged and (ledger or check.also != "ledger"):
        problems = ALSO[check.also](ctl)
        count, rows = count + len(problems), [*rows, *problems]
    if not judged:
        verdict = Verdict.NO_EVIDENCE
    elif not count:
        verdict = Verdict.PASS
    else:
        verdict = Verdict.WAIVED if waiver else Verdict.FAIL
    return Outcome(check, verdict, judged, count, rows, waiver)


def log_problems(ctl: "Controller", since: str | None = None) -> list[dict[str, Any]]:
    """What the control log's verification finds, and where the tables disagree with it."""
    log = ctl.books.log
    log.checkpoint()
    report = verify(log.directory, log.origin, ctl.books.identity.public, since)
    found = [{"place": one.place, "what": one.what, "idx": one.index} for one in report.problems]
    return found or disagreements(ctl)  # a log that is not sound says nothing about the tables


ALSO: dict[str, Callable[["Controller"], list[dict[str, Any]]]] = {
    "ledger": log_problems,
    "keys": partial(keys_unlike, destroyed=False),
    "destroyed-keys": partial(keys_unlike, destroyed=True),
}
