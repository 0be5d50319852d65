"""The audit verbs: reading, proving, verifying and exporting the control log, and packs of evidence.

Whoever reads or exports is on record, too.
"""

import base64
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller import export, packs
from kvctl.controller.agreement import QUICK, disagreements, reported
from kvctl.controller.checks import checks, pack_named
from kvctl.controller.checks import packs as known_packs
from kvctl.controller.checks import run as judge
from kvctl.controller.clock import now
from kvctl.controller.policies import moment
from kvctl.ledger.log import Log
from kvctl.ledger.note import verifier_key
from kvctl.state import audit as state
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    AuditExport,
    AuditLog,
    AuditProve,
    AuditRun,
    AuditVerify,
    AuditWaive,
    Nothing,
)

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

MOST = 1000  # events of one answer
YEAR = timedelta(days=366)  # a waiver lasts that long at most


def log(ctl: "Controller", who: Principal, p: AuditLog) -> dict[str, Any]:
    """Events that match, newest first (or behind `after`, oldest first)."""
    if not 1 <= p.limit <= MOST:
        raise UsageError("KV-AUD-002", f"--limit is 1 to {MOST}")
    asked = {
        name: getattr(p, name) for name in ("tenant", "kind", "actor", "since", "until", "after", "before", "limit")
    }
    asked |= {name: None if asked[name] is None else moment(asked[name]) for name in ("since", "until")}
    if who.has(Role.AUDITOR):  # auditors are audited
        shown = {name: value for name, value in asked.items() if value is not None}
        ctl.books.commit(who, [Event("audit.read", shown, p.tenant)])
    with ctl.books.state.reading() as db:
        found = state.events(db, **asked)
    size = ctl.books.log.size if who.tenant is None else None  # how much the others do is not a tenant's to know
    return {"schema": "kvctl.audit.log/1", "size": size, "events": found}


def verify(ctl: "Controller", who: Principal, p: AuditVerify) -> dict[str, Any]:
    """Compute a whole log again from its entries; every place that is not as it was written.

    Of the data log, `gaps` is what sources told and no entry could take. `tables`: what of them was compared with the
    control log, `all` or, behind QUICK events, `events`; a pack always compares all.
    """
    books, ledger = ctl.books, log_named(ctl, p.log)
    report, checkpoint = reported(ctl, ledger, p.since)
    problems = [{"place": one.place, "what": one.what, "idx": one.index} for one in report.problems]
    whole = ledger.size <= QUICK
    problems += disagreements(ctl, whole=whole) if report.sound and p.log == "control" else []
    outcome = "failed" if problems else "ok"
    about = {"log": p.log, "size": report.size, "problems": len(problems)}
    books.commit(who, [Event("audit.verified", about, outcome=outcome)])
    return {
        "schema": "kvctl.audit.verify/1", "log": p.log, "sound": not problems, "size": report.size,
        "root": report.root.hex() if report.root else None, "checkpoint": checkpoint,
        "since": p.since is not None, "problems": problems,
        "tables": None if p.log != "control" else "all" if whole else "events",
        "gaps": books.data.gaps() if p.log == "data" else [],
    }  # fmt: skip


def prove(ctl: "Controller", who: Principal, p: AuditProve) -> dict[str, Any]:
    """One entry with its proof, the log's key and the checkpoint: all that somebody else needs to check it."""
    ledger = log_named(ctl, p.log)
    if not 0 <= p.index < ledger.size:
        raise UsageError("KV-AUD-003", f"there is no entry {p.index}", why=f"the log has {ledger.size}")
    (entry,) = ledger.read(p.index, p.index + 1)
    return {
        "schema": "kvctl.audit.prove/1", "index": p.index, "entry": entry.decode(), "proof": ledger.prove(p.index),
        "key": verifier_key(ledger.origin, ctl.books.identity.public),
    }  # fmt: skip


def exported(ctl: "Controller", who: Principal, p: AuditExport) -> dict[str, Any]:
    """The log's events as JSON Lines, CSV or Parquet, base64."""
    p = replace(p, **{name: moment(text) for name in ("since", "until") if (text := getattr(p, name)) is not None})
    with ctl.books.state.reading() as db:
        data, count = export.events(db, p)
    ctl.books.commit(who, [Event("audit.exported", {"format": p.format, "events": count}, p.tenant)])
    return {
        "schema": "kvctl.audit.export/1", "format": p.format, "events": count,
        "content": base64.b64encode(data).decode(),
    }  # fmt: skip


def judged(ctl: "Controller", who: Principal, p: Nothing) -> dict[str, Any]:
    """Every check judged now on the tables, without its rows. audit.verify alone computes the log itself again."""
    found = [{k: v for k, v in one.document().items() if k != "rows"} for one in judge(ctl, checks(), ledger=False)]
    return {"schema": "kvctl.audit.checks/1", "at": now(), "checks": found}


def list_packs(ctl: "Controller", who: Principal, p: Nothing) -> dict[str, Any]:
    found = [{"pack": k.pack, "title": k.title, "rules": k.rules} for k in known_packs().values()]
    return {"schema": "kvctl.audit.packs/1", "packs": found}


def run(ctl: "Controller", who: Principal, p: AuditRun) -> dict[str, Any]:
    """A pack: every check of it judged now, with evidence, proofs and what verifies them, as one zip (base64)."""
    pack = pack_named(p.pack)
    made = packs.make(ctl, who, pack, p.tenant)  # first: a site where nothing happened has no evidence
    ctl.books.commit(
        who, [Event("audit.packed", {"pack": p.pack, "rules": pack.rules, "sha256": made.sha256}, p.tenant)]
    )
    return {
        "schema": "kvctl.audit.run/1", "pack": p.pack, "name": made.name, "sha256": made.sha256,
        "verdicts": [
            {k: v for k, v in outcome.document().items() if k != "rows"} for outcome in made.outcomes
        ],
        "zip": base64.b64encode(made.data).decode(),
    }  # fmt: skip


def waive(ctl: "Controller", who: Principal, p: AuditWaive) -> dict[str, Any]:
    """Accept a check's failures until a day, with the reason, by name. UsageError KV-AUD-004 without a reason, 009 for
    a check that there is not, 010 for an end that is over or more than YEAR away."""
    if not p.reason.strip():
        raise UsageError("KV-AUD-004", "a waiver has a reason")
    known = [check.id for check in checks()]
    if p.check not in known:
        raise UsageError("KV-AUD-009", f"there is no check {p.check[:40]!r}", fix=f"there are: {', '.join(known)}")
    until = moment(p.until)
    if not now() < until < _later(now(), YEAR):
        raise UsageError("KV-AUD-010", "a waiver ends within a year, and not before it begins", where=until)
    would = {"check": p.check, "until": until, "reason": p.reason}
    if not p.dry_run:
        ctl.books.commit(who, [Event("audit.waived", would)])
    return {"schema": "kvctl.audit.waive/1", "dry_run": p.dry_run, "would": would}


def _later(at: str, time: timedelta) -> str:
    return (datetime.fromisoformat(at) + time).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_named(ctl: "Controller", name: str) -> Log:
    if name == "control":
        return ctl.books.log
    if name == "data":
        return ctl.books.data.open()
    raise UsageError("KV-AUD-006", f"there is no log {name!r}", fix="control or data")


SERVICES: dict[str, "Service"] = {
    "audit.checks": judged, "audit.export": exported, "audit.log": log, "audit.packs": list_packs,
    "audit.prove": prove, "audit.run": run,
    "audit.verify": verify, "audit.waive": waive,
}  # fmt: skip
