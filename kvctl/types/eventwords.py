"""What an event of the control log says, in one line: the fields that matter for its kind."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvctl.types.amounts import size

LONGEST = 90  # characters of one value
MOST = 3  # values of a list
NAMES = ("id", "name", "operation")  # of fields whose value tells what it is
HEX = re.compile(r"(sha256:)?[0-9a-f]{24,}")
FRACTION = re.compile(r"(T\d\d:\d\d:\d\d)\.\d+Z$")  # of a second, at the end of a time

# Kind -> its fields, by dots into a document. Of the others, every plain field is said.
FIELDS: dict[str, tuple[str, ...]] = {
    "access.denied": ("operation", "code", "more"),
    "account.created": ("name", "roles", "until"),
    "approval.aborted": ("approval", "why"),
    "approval.executed": ("approval",),
    "approval.requested": ("approval", "kind", "required", "reason"),
    "approval.voted": ("approval", "decision", "role", "reason"),
    "audit.packed": ("pack", "rules"),
    "backup.created": ("backup", "label", "kept_at", "expires_at"),
    "backup.restored": ("backup", "kept_at"),
    "capability.issued": ("holder", "domain", "operations", "not_after"),
    "decision.made": ("action", "verdict", "store", "tier", "rule"),
    "epoch.created": ("domain", "epoch"),
    "epoch.destroyed": ("domain", "epoch", "receipt"),
    "erasure.closed": ("erasure", "receipt.scope.kind", "receipt.outcome"),
    "erasure.received": ("erasure", "scope", "domain", "subject", "model", "stored_from", "stored_until", "due"),
    "erasure.restricted": ("erasure", "receipt.scope.kind", "receipt.outcome"),
    "hold.set": ("hold", "reason", "domain", "subject", "model", "until"),
    "key.created": ("id", "domain", "label", "expires_at"),
    "move.ended": ("move", "state", "why", "failed", "skipped"),
    "move.proposed": ("move", "source", "target", "store", "approval", "reason"),
    "move.started": ("move", "back", "steps"),
    "move.store-ended": ("move", "store", "state", "moved", "bytes", "why"),
    "plan.made": ("plan", "nodes", "steps"),
    "policy.activated": ("changes", "approval", "reason"),
    "scope.erased": ("store", "domain", "epoch", "subject", "answer.removed", "answer.held"),
    "tenant.created": ("entity", "entity_country", "sla", "quota_bytes", "domains"),
    "tier.refused": ("move", "rules"),
}


def detail(kind: str, data: Mapping[str, Any]) -> str:
    """`value; name: value`. What is null or empty is left out, and the name of what the kind itself names."""
    names = FIELDS.get(kind) or tuple(data)
    plain = (kind.partition(".")[0], *NAMES)
    found = [(name.rpartition(".")[2], field(name, inside(data, name.split(".")))) for name in names]
    return "; ".join(text if name in plain else f"{name.replace('_', ' ')}: {text}" for name, text in found if text)


def inside(data: Any, names: Sequence[str]) -> Any:
    for name in names:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def field(name: str, value: Any) -> str:
    return size(value) if name.endswith("bytes") and type(value) is int and value >= 0 else said(value)


def said(value: Any) -> str:
    """A value in a few words; "" for none."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        plain = [f"{k} {v}" for k, v in value.items() if v is not None and not isinstance(v, list | dict)]
        return ", ".join(map(short, plain[:MOST])) + more(len(value) - min(len(plain), MOST))
    if isinstance(value, list):
        if any(isinstance(one, list | dict) for one in value):
            return f"{len(value)} entries" if len(value) > 1 else said(value[0])
        return ", ".join(short(str(one)) for one in value[:MOST]) + more(len(value) - MOST)
    return short(str(value))


def more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def short(text: str) -> str:
    if HEX.fullmatch(text):
        return f"{text.removeprefix('sha256:')[:12]}…"
    text = FRACTION.sub(r"\1Z", text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
