"""How values are written: in words, with a sign that needs no colour, on one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kvctl.types import amounts

NOT_KNOWN = "not known"
FAULT = {"critical": "!!", "warning": "! "}
STATES = {
    "in-service": "+", "active": "+", "done": "+", "finished": "+", "executed": "+", "ok": "+", "running": ">",
    "returning": ">", "pending": "?", "proposed": "?", "unknown": "?", "unseen": "?", "interrupted": "!",
    "failed": "!!", "denied": "!!", "refused": "!!", "error": "!!", "partial": "!", "stopped": "!", "drained": "!",
    "suspended": "!", "offboarding": "!", "cancelled": "!", "skipped": "!", "unreachable": "!!", "approved": "+",
    "returned": "+", "new": "?", "rejected": "!!", "aborted": "!!", "expired": "!",
}  # fmt: skip


def plain(value: Any) -> str:
    """One line of printable text: what a node said may hold anything, an escape sequence, too."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)) or "-"


def state(value: Any) -> str:
    return f"{STATES.get(str(value), '-'):2} {plain(value)}"


def severity(value: Any) -> str:
    return f"{FAULT.get(str(value), '- ')} {plain(value)}"


def counted(values: Iterable[Any], order: Iterable[str] = ()) -> str:
    """How many there are of each, those of `order` first: `2 running, 1 failed`."""
    found = Counter(str(value) for value in values)
    names = [*(name for name in order if name in found), *sorted(found.keys() - set(order))]
    return ", ".join(f"{found[name]} {plain(name)}" for name in names)


def age(seconds: float | None) -> str:
    """Since then, in one unit; None: it never was."""
    if seconds is None:
        return "never"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def size(count: int | None) -> str:
    """Bytes in a binary unit; None is not zero."""
    return NOT_KNOWN if count is None else amounts.size(count)


def moment(value: Any) -> str:
    """A time of the controller's, which is UTC, to the second."""
    return plain(value).replace("T", " ").removesuffix("Z").split(".")[0].split("+")[0]


def described(doc: Mapping[str, Any]) -> str:
    """All that a document has, one value a line; what is inside of one stands below it."""
    lines = []
    for name, value in doc.items():
        title = plain(name).replace("_", " ")
        if isinstance(value, Mapping) and value:
            lines += [f"{title}", *(f"  {plain(inner):16} {plain(what)}" for inner, what in value.items())]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines += [title, *(f"  {', '.join(f'{plain(k)} {plain(v)}' for k, v in one.items())}" for one in value)]
        else:
            lines.append(f"{title:18} {plain(value)}")
    return "\n".join(lines)
