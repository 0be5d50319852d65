"""Evidence checks: what `audits/` says, run over the tables. PASS needs something to judge and no row that violates."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from kvctl.controller.agreement import disagreements, keys_unlike, reported
from kvctl.controller.clock import now
from kvctl.ledger.verify import verify
from kvctl.state import audit as state
from kvctl.types.errors import UsageError
from kvctl.types.resources import resource

if TYPE_CHECKING:
    from kvctl.controller.core import Controller


OWN = "one.tenant = $tenant"
OF_TENANT = {  # where a row has no tenant of its own
    "backups": "EXISTS (FROM main.tenants t WHERE t.tenant = $tenant AND t.created_at <= one.ts)",
}

LEDGERS = ("ledger", "data-ledger")  # of ALSO: these compute a whole log again


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
    of_tenant: list[str] = []  # tables of which one tenant's rows alone are judged in that tenant's pack
    whole_site: str = ""  # why there is no such: then it is left out of a tenant's pack

    def head(self, tenant: str | None) -> str:
        """What stands before its SQL, so that these tables are those of one tenant."""
        if tenant is None:
            return ""
        tables = (
            f"{name} AS (SELECT * FROM main.{name} AS one WHERE {OF_TENANT.get(name, OWN)})"  # noqa: S608  the product's
            for name in self.of_tenant
        )
        return f"WITH {', '.join(tables)}"


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


def run(
    ctl: "Controller", wanted: list[Check], *, ledger: bool = True, tenant: str | None = None
) -> list[Outcome]:  # fmt: skip
    """Judge each check now, on the tables as they are. `ledger`: those that say so compute the log again.

    With a tenant, its rows alone: no check of the whole site, and no waiver, which is of the whole site's failures.
    """
    at = now()
    with ctl.books.state.reading() as db:
        waived = state.waivers(db, at) if tenant is None else {}
        chosen = [check for check in wanted if tenant is None or not check.whole_site]
        return [_judged(ctl, db, check, at, waived.get(check.id), ledger, tenant) for check in chosen]


def _judged(
    ctl: "Controller", db: Any, check: Check, at: str, waiver: dict[str, Any] | None, ledger: bool, tenant: str | None
) -> Outcome:  # fmt: skip
    parameters = {
        "now": at.removesuffix("Z"), "home": ctl.settings.country, "stores": sorted(ctl.settings.stores),
        "tenant": tenant,
    }  # fmt: skip
    population, violations = (text.replace("$now", "$now::TIMESTAMP") for text in (check.population, check.violations))
    judged, count, rows = state.judge(db, population, violations, parameters, check.head(tenant))
    if check.also and judged and (ledger or check.also not in LEDGERS):
        problems = [row for row in ALSO[check.also](ctl) if tenant in (None, row.get("tenant"))]
        count, rows = count + len(problems), [*rows, *problems]
    if not judged:
        verdict = Verdict.NO_EVIDENCE
    elif not count:
        verdict = Verdict.PASS
    else:
        verdict = Verdict.WAIVED if waiver else Verdict.FAIL
    return Outcome(check, verdict, judged, count, rows, waiver)


def data_log_problems(ctl: "Controller") -> list[dict[str, Any]]:
    """What the data log's verification finds; nothing while there is none."""
    directory, origin = ctl.books.data.directory, ctl.books.data.origin
    if not (directory / "checkpoint").exists() and not (directory / "tail").exists():
        return []
    report = verify(directory, origin, ctl.books.identity.public)
    return [{"place": f"data log: {one.place}", "what": one.what, "idx": None} for one in report.problems]


def log_problems(ctl: "Controller", since: str | None = None) -> list[dict[str, Any]]:
    """What the control log's verification finds, and where the tables disagree with it."""
    report, _ = reported(ctl, ctl.books.log, since)
    found = [{"place": one.place, "what": one.what, "idx": one.index} for one in report.problems]
    return found or disagreements(ctl)  # a log that is not sound says nothing about the tables


ALSO: dict[str, Callable[["Controller"], list[dict[str, Any]]]] = {
    "ledger": log_problems,
    "data-ledger": data_log_problems,
    "keys": partial(keys_unlike, destroyed=False),
    "destroyed-keys": partial(keys_unlike, destroyed=True),
}
