"""What a new policy changes, and how grave that is: decisions with plain data.

Weakening is whatever may bring a byte into a law's reach in which it was not, keep it longer than it was allowed to be
kept, or protect it for a shorter time than was promised. Everything else that changes a promise tightens it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from kvctl.govern.policy import ANY_TIER, SECTIONS, TIERS, Entity, Policy, Residency, Retention, Row


class Change(StrEnum):
    INITIAL = "initial"  # there never was such a row
    NEUTRAL = "neutral"
    TIGHTENING = "tightening"
    WEAKENING = "weakening"


VOTES = {Change.INITIAL: 0, Change.NEUTRAL: 0, Change.TIGHTENING: 1, Change.WEAKENING: 2}
SIDES = ("storage_countries", "processing_countries", "support_countries")


@dataclass(frozen=True, slots=True)
class Changed:
    """One row. `before` None: there is none in force; `after` None: it is withdrawn."""

    section: str
    key: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    change: Change

    @property
    def tenant(self) -> str | None:
        row = self.after or self.before or {}
        return row.get("tenant")


def diff(now: Policy, past: Policy, new: Policy) -> list[Changed]:
    """`past` has the last row of each key that is no longer in force: withdrawing a row does not make the next one
    under its key an initial one."""
    found: list[Changed] = []
    for section in SECTIONS:
        old, fresh = getattr(now, section), getattr(new, section)
        for key in sorted(old.keys() | fresh.keys()):
            if old.get(key) != fresh.get(key):
                change = JUDGES[section](key, now, past, new)
                found.append(Changed(section, key, _plain(old.get(key)), _plain(fresh.get(key)), change))
    return found


def votes(changes: list[Changed]) -> int:
    """How many approve it: as many as the gravest of its rows needs."""
    return max((VOTES[one.change] for one in changes), default=0)


def _plain(row: Row | None) -> dict[str, Any] | None:
    """As it comes back from JSON: what was approved is compared with it."""
    made: dict[str, Any] | None = msgspec.json.decode(msgspec.json.encode(row))
    return made


def _entity(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    before, after = now.entities.get(key), new.entities[key]
    return Change.INITIAL if before is None else _reach(_laws(before), _laws(after))


def _laws(entity: Entity) -> frozenset[str]:
    return frozenset({entity.country, entity.controlled_by})


def _site(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    before, after = now.at(key), new.at(key)
    if before is None or after is None:
        return Change.INITIAL
    if before.country != after.country:
        return Change.WEAKENING  # everything there lies in another country from now on
    return _reach(before.countries, after.countries)


def _place(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    """By where each tier is that this row places, before and after."""
    store, tier = key.rsplit("/", 1)
    return max((_moved(store, one, now, past, new) for one in _placed(store, tier, now, new)), key=_gravity)


def _placed(store: str, tier: str, now: Policy, new: Policy) -> Iterator[str]:
    yield tier
    if tier == ANY_TIER:
        for one in TIERS:
            key = f"{store}/{one}"
            if key not in now.places and key not in new.places:
                yield one


def _moved(store: str, tier: str, now: Policy, past: Policy, new: Policy) -> Change:
    before, after = now.where(store, tier), new.where(store, tier)
    if after is None:
        return Change.TIGHTENING if before else Change.NEUTRAL  # a place that nobody knows takes nothing
    last = before or past.where(store, tier)
    if last is None:
        return Change.INITIAL
    if last.country != after.country:
        return Change.WEAKENING
    change = _reach(last.countries, after.countries)
    return Change.TIGHTENING if before is None and change is Change.NEUTRAL else change


def _reach(before: frozenset[str], after: frozenset[str]) -> Change:
    return Change.WEAKENING if after - before else Change.NEUTRAL


def _residency(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    return _versioned(now.residency.get(key), past.residency.get(key), new.residency.get(key), compare_residency)


def _retention(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    return _versioned(now.retention.get(key), past.retention.get(key), new.retention.get(key), compare_retention)


def _versioned(before: Any, past: Any, after: Any, compare: Callable[[Any, Any], Change]) -> Change:
    if after is None:
        return Change.WEAKENING
    if before is not None:
        return compare(before, after)
    if past is None:
        return Change.INITIAL
    return max(Change.TIGHTENING, compare(past, after), key=_gravity)


def compare_residency(before: Residency, after: Residency) -> Change:
    signs = []
    for side in SIDES:
        old, fresh = set(getattr(before, side)), set(getattr(after, side))
        signs += [Change.WEAKENING] * bool(fresh - old) + [Change.TIGHTENING] * bool(old - fresh)
    if before.controlled_by != after.controlled_by:
        signs.append(Change.TIGHTENING if after.controlled_by == "same" else Change.WEAKENING)
    return max(signs, key=_gravity, default=Change.NEUTRAL)


def compare_retention(before: Retention, after: Retention) -> Change:
    """A longer maximum or idle time keeps what had to be gone; a shorter minimum lets go what had to be there."""
    signs = [_longer(before.maximum, after.maximum), _longer(before.idle, after.idle)]
    signs.append(_longer(after.minimum, before.minimum))
    return max(signs, key=_gravity)


def _longer(before: int | None, after: int | None) -> Change:
    if before == after:
        return Change.NEUTRAL
    if after is None or (before is not None and after > before):
        return Change.WEAKENING
    return Change.TIGHTENING


def _subprocessor(key: str, now: Policy, past: Policy, new: Policy) -> Change:
    """A register of who was told: nothing is enforced from it. A corrected line is looked at, a new one is a fact."""
    if key not in new.subprocessors:
        return Change.NEUTRAL
    return Change.WEAKENING if key in now.subprocessors else Change.INITIAL


def _gravity(change: Change) -> int:
    return list(Change).index(change)


JUDGES: dict[str, Callable[[str, Policy, Policy, Policy], Change]] = {
    "entities": _entity, "sites": _site, "places": _place, "residency": _residency, "retention": _retention,
    "subprocessors": _subprocessor,
}  # fmt: skip
