"""How values look: which kind each is, and words for sizes, times and states. web/templates/cells.html draws them."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from kvctl.types.amounts import size
from kvctl.types.eventwords import HEX, detail

ID = re.compile(r"[aehmd]-\d{8}-[0-9a-f]{4,16}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
STATES = ("state", "outcome", "verdict", "approval_state", "severity", "decision", "would", "change")
TONES = {
    "good": "PASS ok active done allow executed approved erased in-service yes pass sound finished in-force tightening",
    "bad": "FAIL failed denied deny unreachable rejected refused critical fail broken",
    "warn": "WAIVED suspended offboarding restricted stopped partial interrupted drained warning expired aborted stale "
    "weakening overdue unknown cancelled",
    "wait": "pending running returning proposed open new unseen planned stopping",
}
TONE = {word: tone for tone, words in TONES.items() for word in words.split()}
CLOCK = ("at", "started", "ended", "began_at")  # of the fleet plane: seconds since 1970
EPOCH, LATEST = 1e9, 1e11
SPANS_OF = ("minimum", "maximum", "idle")  # of a retention policy, in seconds
LABELS = {
    "idx": "Index", "ts": "Time", "sla": "SLA", "id": "Id", "api_key": "API key", "set_by": "Set by", "yes": "Votes",
    "payload_sha256": "Payload SHA-256", "sha256": "SHA-256", "sla_class": "SLA", "why": "Why", "go": "Must go",
    "read_age": "Facts read", "oldest_due": "Due since", "from_at": "From", "until_at": "Until", "lifted_at": "Lifted",
    "late_p99_s": "Late (p99)", "moved": "Chunks moved", "quota_bytes": "Quota on each store",
    "max_concurrent": "Requests at once", "require_subject": "Requests without a user",
    "late_p50_s": "Late (p50)", "took_seconds": "Took", "clock_ms": "Clock off (ms)", "anew": "Stored again",
    "hit_rate_why": "Why no hit rate", "cost_why": "Why no price", "link_pending": "Link open",
}  # fmt: skip
SPANS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def kind_of(name: str, value: Any) -> str:
    """none, state, yesno, time, bytes, span, num, id, hex, list, doc or text."""
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return "yesno"
    if isinstance(value, int | float):
        return number_kind(name, value)
    if isinstance(value, dict):
        return "progress" if name == "progress" else "doc"
    if isinstance(value, list):
        return "doc" if any(isinstance(one, dict | list) for one in value) else "list"
    if name in STATES:
        return "state"
    if TIME.fullmatch(value):
        return "time" if is_time(value) else "text"
    return "id" if ID.fullmatch(value) else "hex" if HEX.fullmatch(value) else "text"


def is_time(text: str) -> bool:
    """Whether it is a moment, and not only looks like one."""
    try:
        moment(text)
    except (ValueError, OverflowError):
        return False
    return True


def number_kind(name: str, value: float) -> str:
    if name in CLOCK and EPOCH < value < LATEST:
        return "time"
    if name.endswith("bytes") or name.startswith("bytes_") or name == "length":
        return "bytes"
    if name.endswith(("_s", "_seconds", "_age")) or name in SPANS_OF:
        return "span"
    return "num"


def label(name: str) -> str:
    """A field in words; what has digits in it is a store's or a node's own name."""
    words = name.replace("_", " ").replace("sha256", "SHA-256")
    own = "sha256" not in name and any(c.isdigit() for c in name)
    return LABELS.get(name) or (name if own else words[:1].upper() + words[1:])


def tone(value: Any) -> str:
    """good, bad, warn, wait or quiet: what the colour and the icon beside a word say once more."""
    return TONE.get(str(value).replace(" ", "-"), TONE.get(str(value), "quiet"))


def span(seconds: float) -> str:
    """The largest unit that is whole: 30 d, 90 min."""
    for unit, one in SPANS:
        if abs(seconds) >= one and (abs(seconds) >= 3 * one or abs(seconds) % one == 0):
            return f"{seconds / one:.0f} {unit}"
    return f"{seconds * 1000:.0f} ms" if 0 < seconds < 1 else f"{seconds:.0f} s"


def moment(value: Any) -> datetime:
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    found = datetime.fromisoformat(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def exact(value: Any) -> str:
    """As `<time datetime>` has it."""
    return moment(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(value: Any) -> str:
    return f"{moment(value):%Y-%m-%d %H:%M:%S} UTC"


def age(value: Any, now: datetime | None = None) -> str:
    seconds = ((now or datetime.now(UTC)) - moment(value)).total_seconds()
    unit, one = next(((u, n) for u, n in SPANS if abs(seconds) >= n), SPANS[-1])
    count = int(abs(seconds) // one)
    return f"{count} {unit} ago" if seconds >= 0 else f"in {count} {unit}"


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:8]}…{text[-6:]}"


def how_far(row: dict[str, Any]) -> tuple[int, int] | None:
    """Done and all, of a run (steps) or a move under way (chunks by store); None when it is not known."""
    if "steps" in row and isinstance(row["steps"], int):
        return row["done"], row["steps"]
    stores = (row.get("progress") or {}).values()
    total = sum(one["chosen"] or 0 for one in stores)
    return (sum(one["moved"] or 0 for one in stores), total) if total else None


def said(value: Any, name: str) -> str:
    """One value in words, inside a line."""
    kind = kind_of(name, value)
    if kind == "yesno":
        return "yes" if value else "no"
    if kind == "list":
        return ", ".join(map(str, value))
    if kind in ("none", "doc", "progress"):
        return "none" if kind == "none" else "…"
    return {"span": span, "bytes": size, "time": clock}.get(kind, str)(value)


def align(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """The class of a column: numbers to the right, long texts wrap."""
    found = [aligned(row.get(name), name) for row in rows[:50] if row.get(name) is not None]
    return next((kind for kind in ("wide", "num", "list") if kind in found), "")


def aligned(value: Any, name: str) -> str:
    kind = kind_of(name, value)
    if kind in ("bytes", "span", "num"):
        return "num"
    if kind == "text" and len(str(value)) > 32:
        return "wide"
    return {"doc": "wide", "list": "list"}.get(kind, "")


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def with_(address: dict[str, str], **more: Any) -> str:
    """A query that leads to the same page with something else in it; None takes a field away."""
    found = {k: v for k, v in address.items() if k != "csv"} | more
    return urlencode({name: value for name, value in found.items() if value is not None})


def with_page(address: dict[str, str], part: str, number: int) -> str:
    return with_(address, **{f"page-{part}": number})


FILTERS = {
    "detail": detail, "many": many, "align": align, "said": said, "pretty": pretty, "with_": with_,
    "with_page": with_page,
    "kind_of": kind_of, "label": label, "tone": tone, "size": size, "span": span, "exact": exact, "clock": clock,
    "age": age, "number": number, "short": short, "how_far": how_far,
}  # fmt: skip
