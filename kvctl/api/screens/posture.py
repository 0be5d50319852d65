"""Posture: what needs eyes, and what to do about it."""

from kvctl.api.cells import many
from kvctl.api.menu import Document, Page, Part, Row, Tile

# Where a check that fails is put right.
ADVICE = {
    "A": ("/approvals", "Open the requests that it names: who voted, on what, and when."),
    "E1": ("/erasure", "An erasure is past its date: open it and see which store or hold it waits for."),
    "E": ("/erasure", "Open the receipt: it says what was not covered. Begin the erasure again when a store was away."),
    "L1": ("/audit", "Verify the log now, with a checkpoint that was kept elsewhere, and keep the machine as it is."),
    "L2": ("/audit", "The log had trouble: see the controller's journal and the disk that its state is on."),
    "L3": ("/fleet", "A source is silent: see that its store or gateway runs and can be reached, then sync it."),
    "L4": ("/fleet", "A clock is off: set the time service of that machine right."),
    "L5": ("/access", "An account without a person: disable it."),
    "R1": ("/residency", "Copies are outside the policy: move them to a place that it allows, or change the policy."),
    "R2": ("/residency", "Copies were outside: look at that time, and note why in the record of processing."),
    "R3": ("/moves", "A move has no decision before it: stop it, and see who began it."),
    "R4": ("/moves", "A source was not removed in time: resume the move."),
    "R5": ("/audit", "A backup has no decision before it: remove it, and make it through the controller."),
    "R6": ("/fleet", "A store holds what the catalogue does not know: sync it, then compare again."),
    "T3": ("/retention", "What a hold keeps was removed: say so to whoever the hold is for, and see why."),
    "T": ("/retention", "Remove what must go; where a store does not answer, see to the store."),
    "X1": ("/tenants", "Revoke the keys that it names, and see where they were used."),
    "X2": ("/tenants", "Rotate the epoch of the domains that it names."),
    "X3": ("/tenants", "Chunks lie unsealed: see the connector's settings, and erase them."),
    "X5": ("/access", "An account holds roles that are kept apart: take one away."),
}
ORDER = ("FAIL", "NO EVIDENCE", "WAIVED", "PASS")


def advice(check: str) -> tuple[str, str]:
    return ADVICE.get(check) or ADVICE.get(check[:1], ("/packs", "Run the pack: its rows say what violates."))


def checks_tile(found: Document) -> Tile:
    said = [one["verdict"] for one in found["checks"]]
    failing, passing = said.count("FAIL"), said.count("PASS")
    return Tile(f"{failing} failing", f"{passing} of {len(said)} pass", "bad" if failing else "good")


def log_tile(found: Document) -> Tile:
    verified = found["verified"]
    if verified is None:
        return Tile("Never verified", f"{found['log_size']:,} entries", "warn")
    sound = verified["outcome"] == "ok"
    return Tile("Sound" if sound else "Not sound", f"{found['log_size']:,} entries", "good" if sound else "bad")


def waiting_tile(found: Document) -> Tile:
    count = len(found["approvals"])
    return Tile(f"{count} waiting", "for a second person", "warn" if count else "good")


def stores_tile(found: Document) -> Tile:
    stores = found["stores"]
    away = [one for one in stores if one["state"] != "ok"]
    if not stores:
        return Tile("No store", "none is registered", "warn")
    return Tile(f"{len(away)} not read" if away else "All read", many(len(stores), "store"), "bad" if away else "good")


def findings_tile(found: Document) -> Tile:
    rows = found["findings"]
    critical = sum(one["severity"] == "critical" for one in rows)
    return Tile(many(len(rows), "finding"), f"{critical} critical", "bad" if critical else "warn" if rows else "good")


def erasures_tile(found: Document) -> Tile:
    waiting = [one for one in found["erasures"] if unfinished(one)]
    late = sum(bool(one["overdue"]) for one in waiting)
    return Tile(f"{len(waiting)} open", f"{late} past their date", "bad" if late else "warn" if waiting else "good")


def holds_tile(found: Document) -> Tile:
    count = sum(in_force(one) for one in found["holds"])
    return Tile(f"{count} in force", "keep what they name", "quiet")


def outside_tile(found: Document) -> Tile:
    chunks = found["totals"]["outside"]["chunks"]
    return Tile(
        f"{chunks:,} outside", f"of {found['totals']['copies']['chunks']:,} copies", "bad" if chunks else "good"
    )


def going_tile(found: Document) -> Tile:
    going = found["going"]["copies"]
    return Tile(f"{going:,} must go", f"{found['kept']['copies']:,} are kept", "warn" if going else "good")


def jobs_tile(found: Document) -> Tile:
    if not found["jobs"]:
        return Tile("Not running", "no schedule", "warn")
    failing = sum(not_well(one) for one in found["jobs"])
    return Tile(
        f"{failing} failing" if failing else "All well", many(len(found["jobs"]), "job"), "bad" if failing else "good"
    )


def unfinished(row: Row) -> bool:
    return row["closed"] is None


def in_force(row: Row) -> bool:
    return not row.get("lifted_at")


def not_well(row: Row) -> bool:
    return bool(row["failures_in_a_row"])


def under_way(row: Row) -> bool:
    return row["state"] in ("running", "returning")


PAGES = (
    Page(
        "/",
        "Posture",
        "What needs eyes now, and what to do about it.",
        everyone=True,
        group="Overview",
        icon="pulse",
        parts=(
            Part(
                "Evidence checks",
                "audit.checks",
                view="checks",
                calm=10,
                tile=checks_tile,
                live="approval. erasure. hold. move. policy. retention. audit.waived audit.verified",
            ),
            Part("Control log", "controller.status", view="log", tile=log_tile, live="audit.verified"),
            Part(
                "Waits for approval",
                "approve.ls",
                "approvals",
                ("id", "kind", "tenant", "yes", "required", "requester", "reason", "expires"),
                "Nothing waits.",
                given=(("state", "pending"),),
                live="approval.",
                tile=waiting_tile,
            ),
            Part(
                "Moves under way",
                "move.ls",
                "moves",
                ("id", "tenant", "state", "source", "target", "progress"),
                "No move is under way.",
                fits=under_way,
                live="move.",
                busy=under_way,
            ),
            Part(
                "Outside residency",
                "residency.now",
                "outside",
                ("tenant", "rule", "country", "store", "tier", "chunks", "bytes"),
                "Every copy is where its tenant's policy allows it.",
                live="policy. move.",
                tile=outside_tile,
                per=10,
            ),
            Part(
                "Past retention",
                "retention.plan",
                "totals",
                ("tenant", "class", "tier", "rule", "copies", "bytes", "oldest_due", "late_p99_s"),
                "Nothing must go.",
                fits=lambda row: bool(row["go"]),
                live="hold. policy. retention.",
                tile=going_tile,
                per=10,
            ),
            Part(
                "Stores",
                "store.ls",
                "stores",
                ("store", "state", "why", "copies", "bytes", "seen_at"),
                "No store is registered. Deploy one with kvctl deploy storage.",
                tile=stores_tile,
            ),
            Part(
                "Findings on nodes",
                "fleet.findings",
                "findings",
                ("severity", "node", "check", "subject", "observed", "expected", "remedy"),
                "No finding on any node that was read.",
                tile=findings_tile,
                live="fleet.",
                per=10,
            ),
            Part(
                "Open erasures",
                "erase.ls",
                "erasures",
                ("id", "tenant", "scope", "outcome", "received", "due"),
                "No erasure is open.",
                fits=unfinished,
                live="erasure.",
                tile=erasures_tile,
            ),
            Part(
                "Holds in force",
                "hold.ls",
                "holds",
                ("id", "tenant", "subject", "reason", "set_by", "from_at"),
                "Nothing is held.",
                fits=in_force,
                live="hold.",
                tile=holds_tile,
                per=10,
            ),
            Part(
                "Jobs of the controller",
                "controller.status",
                "jobs",
                ("job", "outcome", "last", "took_seconds", "runs", "failed"),
                "No schedule runs: this controller is not a kvctld.",
                tile=jobs_tile,
            ),
        ),
    ),
)
