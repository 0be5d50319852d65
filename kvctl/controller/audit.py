"""The audit verbs: reading, proving, verifying and exporting the control log, and packs of evidence.

Whoever reads or exports is on record, too.
"""

import base64
from typing import TYPE_CHECKING, Any

from kvctl.controller import export, packs
from kvctl.controller.checks import disagreements, pack_named
from kvctl.controller.checks import packs as known_packs
from kvctl.ledger.note import verifier_key
from kvctl.ledger.verify import verify as verify_log
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
    EventRecord,
    Nothing,
)

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

MOST = 1000  # events of one answer


def log(ctl: "Controller", who: Principal, p: AuditLog) -> dict[str, Any]:
    """Events that match, newest first (or behind `after`, oldest first)."""
    if not 1 <= p.limit <= MOST:
        raise UsageError("KV-AUD-002", f"--limit is 1 to {MOST}")
    asked = {name: getattr(p, name) for name in ("tenant", "kind", "actor", "since", "until", "after", "limit")}
    if who.has(Role.AUDITOR):  # auditors are audited
        shown = {name: value for name, value in asked.items() if value is not None}
        ctl.books.commit(who, [Event("audit.read", shown, p.tenant)])
    with ctl.books.state.reading() as db:
        found = state.events(db, **asked)
    return {"schema": "kvctl.audit.log/1", "size": ctl.books.log.size, "events": found}


def verify(ctl: "Controller", who: Principal, p: AuditVerify) -> dict[str, Any]:
    """Compute the whole log again from its entries; every place that is not as it was written."""
    only_control(p.log)
    books = ctl.books
    books.log.checkpoint()
    report = verify_log(books.log.directory, books.log.origin, books.identity.public, p.since)
    problems = [{"place": one.place, "what": one.what, "idx": one.index} for one in report.problems]
    problems += disagreements(ctl) if report.sound else []
    outcome = "failed" if problems else "ok"
    books.commit(who, [Event("audit.verified", {"size": report.size, "problems": len(problems)}, outcome=outcome)])
    return {
        "schema": "kvctl.audit.verify/1", "log": p.log, "sound": not problems, "size": report.size,
        "root": report.root.hex() if report.root else None, "checkpoint": books.log.checkpoint(),
        "since": p.since is not None, "problems": problems,
    }  # fmt: skip


def prove(ctl: "Controller", who: Principal, p: AuditProve) -> dict[str, Any]:
    """One entry with its proof, the log's key and the checkpoint: all that somebody else needs to check it."""
    only_control(p.log)
    ledger = ctl.books.log
    if not 0 <= p.index < ledger.size:
        raise UsageError("KV-AUD-003", f"there is no entry {p.index}", why=f"the log has {ledger.size}")
    (entry,) = ledger.read(p.index, p.index + 1)
    return {
        "schema": "kvctl.audit.prove/1", "index": p.index, "entry": entry.decode(), "proof": ledger.prove(p.index),
        "key": verifier_key(ledger.origin, ctl.books.identity.public),
    }  # fmt: skip


def exported(ctl: "Controller", who: Principal, p: AuditExport) -> dict[str, Any]:
    """The log's events as JSON Lines, CSV or Parquet, base64."""
    with ctl.books.state.reading() as db:
        data, count = export.events(db, p)
    ctl.books.commit(who, [Event("audit.exported", {"format": p.format, "events": count}, p.tenant)])
    return {
        "schema": "kvctl.audit.export/1", "format": p.format, "events": count,
        "content": base64.b64encode(data).decode(),
    }  # fmt: skip


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
    """Accept a check's failures until a day, with the reason, by name."""
    would = {"check": p.check, "until": p.until, "reason": p.reason}
    if not p.reason.strip():
        raise UsageError("KV-AUD-004", "a waiver has a reason")
    if not p.dry_run:
        ctl.books.commit(who, [Event("audit.waived", would)])
    return {"schema": "kvctl.audit.waive/1", "dry_run": p.dry_run, "would": would}


def record(ctl: "Controller", who: Principal, p: EventRecord) -> dict[str, Any]:
    """An event of another plane of this site, from a process on this machine."""
    if not p.kind.startswith(OTHER_PLANES):
        raise UsageError("KV-AUD-005", f"{p.kind} is not for others to record", fix=f"one of {', '.join(OTHER_PLANES)}")
    (done,) = ctl.books.commit(who, [Event(p.kind, p.data, p.tenant, p.outcome)])
    return {"schema": "kvctl.event.record/1", "index": done.index}


OTHER_PLANES = ("fleet.", "plan.", "run.", "deploy.", "lab.")


def only_control(log: str) -> None:
    if log != "control":
        raise UsageError("KV-AUD-006", f"there is no log {log!r}", fix="control")


SERVICES: dict[str, "Service"] = {
    "audit.export": exported, "audit.log": log, "audit.packs": list_packs, "audit.prove": prove, "audit.run": run,
    "audit.verify": verify, "audit.waive": waive, "event.record": record,
}  # fmt: skip
