"""What happened: the entries of a site's control log. The log is the truth; every table is made from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is about to be recorded. `data` is JSON-able, whole enough to build every table row from it,
    and free of secrets, user ids and prompt text."""

    kind: str  # noun.verb-past: tenant.created
    data: Mapping[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    outcome: str = "ok"  # ok | denied | refused | failed


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event in the log."""

    index: int  # its leaf, from 0
    at: str  # RFC 3339, UTC, milliseconds
    actor: str
    actor_tenant: str | None
    kind: str
    tenant: str | None
    outcome: str
    data: Mapping[str, Any]
