"""Which rule keeps a copy of a chunk, or says that it must go. Pure: docs/retention.md has the rules in words.

A copy is judged by the policy that was in force when its chunk was stored, never by a later one. The order is hold,
maximum, minimum, idle: the first that decides does. kvctl.state.retention says the same in SQL, for millions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

LONGEST = 10**10  # seconds, 317 years: an age beyond it is this one, so that every moment has a date


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a chunk. Times are UTC. `subjects`: everybody who used it, the one it was stored for included."""

    tenant: str
    domain: str
    kind: str  # class of the policy: common, conversation, ...
    model: str
    stored_at: datetime
    expires_at: datetime | None = None  # as its writer fixed it; None: the writer named no end
    used_at: datetime | None = None
    subjects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Version:
    """A retention policy of a tenant's class, from `valid_from` until before `valid_to`. Durations are seconds."""

    tenant: str
    kind: str
    version: int
    minimum_s: int
    maximum_s: int | None
    idle_s: int | None
    valid_from: datetime
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """What matches everything that is given stays, until before `until_at` or until it is lifted. `from_at` tells since
    when: it is on record, so it is in force, whatever the clock says now."""

    id: str
    tenant: str
    domain: str | None
    subject: str | None
    model: str | None
    from_at: datetime
    until_at: datetime | None = None
    lifted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`rule`: hold, maximum, minimum, idle, within, or none (no policy). `until`: when it stops deciding so."""

    go: bool
    rule: str
    until: datetime | None
    text: str


def judge(copy: Copy, versions: Sequence[Version], holds: Sequence[Hold], now: datetime) -> Outcome:
    """What becomes of a copy, and by which rule."""
    return next(outcome for outcome in considered(copy, versions, holds, now) if outcome is not None)


def considered(
    copy: Copy, versions: Sequence[Version], holds: Sequence[Hold], now: datetime
) -> Iterator[Outcome | None]:
    """What each rule says, in their order; None: it does not decide. The last one always does."""
    version = in_force(versions, copy)
    yield held(copy, holds, now)
    yield too_old(copy, version, now)
    yield too_young(copy, version, now)
    yield unused(copy, version, now)
    yield within(copy, version)


def in_force(versions: Iterable[Version], copy: Copy) -> Version | None:
    """The policy that was in force when the chunk was stored."""
    for version in versions:
        began = (version.tenant, version.kind) == (copy.tenant, copy.kind) and version.valid_from <= copy.stored_at
        if began and (version.valid_to is None or copy.stored_at < version.valid_to):
            return version
    return None


def matches(hold: Hold, copy: Copy, now: datetime) -> bool:
    """Whether a hold is in force and is of this copy."""
    if hold.lifted_at is not None or (hold.until_at is not None and hold.until_at <= now):
        return False
    if hold.tenant != copy.tenant or hold.domain not in (None, copy.domain) or hold.model not in (None, copy.model):
        return False
    return hold.subject is None or hold.subject in copy.subjects


def held(copy: Copy, holds: Iterable[Hold], now: datetime) -> Outcome | None:
    found = sorted((hold for hold in holds if matches(hold, copy, now)), key=lambda hold: hold.id)
    if not found:
        return None
    ends = [hold.until_at for hold in found if hold.until_at is not None]
    until = max(ends) if len(ends) == len(found) else None
    names = ", ".join(hold.id for hold in found)
    return Outcome(False, "hold", until, f"held by {names}: it stays until that is lifted, whatever else says")


def age(seconds: int) -> timedelta:
    return timedelta(seconds=min(seconds, LONGEST))


def deadline(copy: Copy, version: Version | None) -> datetime | None:
    """When it must be gone: what its writer fixed or what the policy of that time says, whichever is earlier."""
    ends = [copy.expires_at] if copy.expires_at is not None else []
    if version is not None and version.maximum_s is not None:
        ends.append(copy.stored_at + age(version.maximum_s))
    return min(ends, default=None)


def idle_end(copy: Copy, version: Version | None) -> datetime | None:
    if version is None or version.idle_s is None:
        return None
    return (copy.used_at or copy.stored_at) + age(version.idle_s)


def too_old(copy: Copy, version: Version | None, now: datetime) -> Outcome | None:
    end = deadline(copy, version)
    if end is None or end > now:
        return None
    return Outcome(True, "maximum", None, f"its maximum age passed at {end.isoformat()}Z{_by(version)}")


def too_young(copy: Copy, version: Version | None, now: datetime) -> Outcome | None:
    if version is None or (end := copy.stored_at + age(version.minimum_s)) <= now:
        return None
    return Outcome(False, "minimum", end, f"its minimum age is not reached{_by(version)}")


def unused(copy: Copy, version: Version | None, now: datetime) -> Outcome | None:
    end = idle_end(copy, version)
    if end is None or end > now:
        return None
    if copy.used_at is None:
        told = f"counted from storing, {copy.stored_at.isoformat()}Z: the store reports no use of it"
    else:
        told = f"not used since {copy.used_at.isoformat()}Z"
    return Outcome(True, "idle", None, f"{told}{_by(version)}")


def within(copy: Copy, version: Version | None) -> Outcome:
    ends = [end for end in (deadline(copy, version), idle_end(copy, version)) if end is not None]
    until = min(ends, default=None)
    if version is None:
        text = "no policy was in force when it was stored"
        return Outcome(False, "none", until, f"{text}; its writer's end is kept" if until else f"{text}, and no end")
    return Outcome(False, "within", until, f"within its ages{_by(version)}")


def _by(version: Version | None) -> str:
    return f" (policy {version.kind} version {version.version})" if version else " (fixed when it was stored)"
