"""Audit packs: one zip that a person reads and a program verifies, on a machine that never heard of this site."""

import hashlib
import io
import json
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2

from kvctl import __version__
from kvctl.controller.checks import Check, Outcome, Pack, checks, run
from kvctl.controller.clock import now
from kvctl.controller.export import table_csv
from kvctl.ledger.log import Log
from kvctl.ledger.note import sign_manifest, verifier_key
from kvctl.state import audit as state
from kvctl.types.principals import Principal
from kvctl.types.resources import resource

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

EVIDENCE = (
    "erasure.closed", "epoch.destroyed", "approval.executed", "policy.activated", "hold.set", "hold.lifted",
    "move.started", "move.ended",
    "tier.refused", "backup.created", "tenant.offboarded", "retention.applied", "decision.made",
)  # fmt: skip
PROVED = 500  # newest events of these kinds that stand in a pack with their own proof
NOT_EXPORTED = ("tail", "tmp", "lock")  # of a log's directory: for its writer alone
MOST_LOG = 256 << 20  # bytes of a log that travel in a pack; of a longer one, the proved events alone
DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Made:
    name: str
    data: bytes
    sha256: str
    outcomes: list[Outcome]


def make(ctl: "Controller", who: Principal, pack: Pack, tenant: str | None) -> Made:
    """Judge, gather, prove and write. With a tenant, its own rows and events alone, and not the whole log."""
    at = now()
    wanted = [check for check in checks() if pack.pack in check.controls]
    outcomes = run(ctl, wanted, tenant=tenant)
    files: dict[str, bytes] = {}
    for one in outcomes:
        files |= check_files(one, tenant)
    evidence = proved(ctl, tenant)
    files |= evidence
    if tenant is None:
        files |= log_files(ctl.books.log, "control") | log_files(ctl.books.data.open(), "data")
    about = summary(ctl, who, pack, tenant, at, outcomes)
    about["left_out"] = [
        {"id": check.id, "title": check.title, "why": check.whole_site}
        for check in wanted
        if tenant and check.whole_site
    ]
    files["pack.json"] = json.dumps(about, indent=2, ensure_ascii=False).encode()
    files["report.html"] = report(pack, about, outcomes, sum(name.endswith(".tlog-proof") for name in evidence))
    origins = (ctl.books.log.origin, ctl.books.data.origin)
    keys = [verifier_key(origin, ctl.books.identity.public) + "\n" for origin in origins]
    files["keys/site.pub"] = "".join(keys).encode()
    files[f"checkpoints/{about['log']['size']}.checkpoint"] = ctl.books.log.checkpoint().encode()
    files["verify.py"] = (resource("audits") / "verify.py").read_bytes()
    files["README.txt"] = (resource("audits") / "templates" / "README.txt").read_bytes()
    files["MANIFEST.sha256"] = manifest(files)
    files["MANIFEST.sig"] = sign_manifest(files["MANIFEST.sha256"], ctl.books.log.origin, ctl.books.identity).encode()
    stamp = re.sub(r"[^0-9T]", "", at)[:15]
    name = f"{stamp}-{pack.pack}" + (f"-{tenant}" if tenant else "")
    data = zipped(files, name)
    return Made(name, data, hashlib.sha256(data).hexdigest(), outcomes)


def check_files(one: Outcome, tenant: str | None) -> dict[str, bytes]:
    base = f"checks/{one.check.id}"
    return {
        f"{base}.sql": sql_text(one.check, tenant).encode(),
        f"{base}.json": json.dumps(one.document(), indent=2, ensure_ascii=False, default=str).encode(),
        f"{base}.csv": table_csv(one.rows),
    }


def sql_text(check: Check, tenant: str | None) -> str:
    head = f"-- {check.id}: {check.question}\n-- PASS: {check.rule}\n-- and a population above zero.\n"
    head += f"-- Looked at beside the tables: {check.also}.\n" if check.also else ""
    if tenant is None:
        return f"{head}\n-- population\n{check.population.strip()};\n\n-- violations\n{check.violations.strip()};\n"
    head, own = f"{head}-- $tenant: {tenant}.\n", check.head(tenant)
    population, violations = (f"{own}\nFROM (\n{sql.strip()}\n);\n" for sql in (check.population, check.violations))
    return f"{head}\n-- population\n{population}\n-- violations\n{violations}"


def proved(ctl: "Controller", tenant: str | None) -> dict[str, bytes]:
    """Events that are evidence, each as the very bytes of its leaf, with a proof beside it."""
    files = {}
    with ctl.books.state.reading() as db:
        indexes = state.kinds(db, EVIDENCE, tenant, PROVED)
    log = ctl.books.log
    note = log.checkpoint()
    for index in indexes:
        (entry,) = log.read(index, index + 1)
        kind = json.loads(entry)["kind"]
        name = f"evidence/{index:08d}-{kind}.json"
        files[name] = entry
        files[f"{name}.tlog-proof"] = log.prove(index, checkpoint=note).encode()
    return files


def log_files(log: Log, name: str) -> dict[str, bytes]:
    """A log as its checkpoint covers it: tiles, entries, checkpoint."""
    log.checkpoint()
    root = log.directory
    found = [p for p in sorted(root.rglob("*")) if p.is_file() and p.relative_to(root).parts[0] not in NOT_EXPORTED]
    if sum(path.stat().st_size for path in found) > MOST_LOG:
        return {}
    return {f"ledger/{name}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in found}


def summary(
    ctl: "Controller", who: Principal, pack: Pack, tenant: str | None, at: str, outcomes: list[Outcome]
) -> dict[str, Any]:
    log = ctl.books.log
    counts = Counter(str(one.verdict) for one in outcomes)
    return {
        "schema": "kvctl.pack/1", "pack": pack.pack, "title": pack.title, "rules": pack.rules,
        "effective": pack.effective, "scope": pack.scope, "site": ctl.site, "country": ctl.settings.country,
        "tenant": tenant, "made_at": at,
        "made_by": who.name, "kvctl": __version__,
        "log": {"origin": log.origin, "size": log.size, "root": log.root().hex()},
        "verdicts": counts,
        "checks": [{"id": o.check.id, "title": o.check.title, "verdict": str(o.verdict)} for o in outcomes],
    }  # fmt: skip


def report(pack: Pack, about: dict[str, Any], outcomes: list[Outcome], proofs: int) -> bytes:
    """One page that needs no other file: style inside, no script, nothing fetched."""
    loader = jinja2.FileSystemLoader(resource("audits") / "templates")
    page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    by_article = [
        (article, text, [one for one in outcomes if article in one.check.controls[pack.pack]])
        for article, text in pack.articles.items()
    ]
    return page.get_template("report.html").render(
        pack=pack, about=about, outcomes=outcomes, articles=by_article, proofs=proofs
    ).encode()  # fmt: skip


def manifest(files: dict[str, bytes]) -> bytes:
    """As sha256sum writes it."""
    return b"".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode() for name, data in sorted(files.items()))


def zipped(files: dict[str, bytes], name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(f"{name}/{path}", DATE), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()
