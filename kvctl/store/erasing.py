"""Taking chunks away for good: by scope, by subject, by name; and looking whether anything of them is left."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kvctl.store.api import Removal, Tier, Why
from kvctl.types.chunks import NO_SUBJECT, Scope
from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from kvctl.store.store import Store


def erase_scope(store: "Store", scope: Scope) -> dict[str, int]:
    """Remove everything of a scope from RAM and every tier; chunks removed by place, and `held`: kept, and frozen."""
    store.leases.drop_scope(scope)
    removed = Counter(ram=store.ram.remove_scope(scope))
    removal = Removal(Why.ERASED, told=False)
    try:
        for name, tier in _twice(store):
            with _counting(store, tier, removal):
                removed[name] += tier.erase_scope(scope, removal)
    finally:
        _freeze(store, removal)
        _tell_of_scope(store, scope)
    removed["ram"] += store.ram.remove_scope(scope)  # what a read under way brought in
    store.forget_pairs()
    return {**removed, "held": len(removal.held)}


def _tell_of_scope(store: "Store", scope: Scope) -> None:
    """One delta in place of one a chunk; then what is left, held or come in meanwhile, is put again."""
    store.guard.deltas.removed_scope(scope, Why.ERASED)
    for name, tier in store.tiers.items():
        for _, record in tier.walk(scope):
            store.guard.deltas.put(name, scope, record)


def erase_subject(store: "Store", tenant: str, domain: str | None, subject: bytes) -> dict[str, int]:
    """Remove a subject's chunks in one domain of a tenant or in all; chunks removed by place, and `held`, as above."""
    if subject == NO_SUBJECT:
        raise UsageError("KV-STORE-020", "no subject was named", why="all zero means that none was given")
    removed = Counter(ram=store.ram.remove_subject(tenant, domain, subject))
    removal = Removal(Why.ERASED)
    try:
        for name, tier in _twice(store):
            tier.flush()
            for scope in _known(store, tenant, domain):
                with _counting(store, tier, removal):
                    removed[name] += tier.erase_subject(scope, subject, removal)
                    if used := store.used_by(scope, subject):
                        removed["ram"] += store.ram.remove(scope, used, wipe=True)
                        removed[name] += tier.erase_keys(scope, used, removal)
    finally:
        _freeze(store, removal)
    removed["ram"] += store.ram.remove_subject(tenant, domain, subject)
    store.forget_pairs()
    return {**removed, "held": len(removal.held)}


def _known(store: "Store", tenant: str, domain: str | None) -> list[Scope]:
    """Scopes of a tenant that any tier knows: one that has none of their chunks now may have index values left."""
    known = {scope for tier in store.tiers.values() for scope in tier.known()}
    return sorted(one for one in known if one.tenant == tenant and domain in (None, one.domain))


def remove(store: "Store", scope: Scope, keys: Sequence[bytes], why: Why) -> dict[str, Any]:
    """Remove chunks by name, as an erasure does. Held ones stay; those that were to be erased are frozen."""
    wanted = list(dict.fromkeys(keys))
    removal = Removal(why)
    store.ram.remove(scope, wanted, wipe=True)
    try:
        for _, tier in _twice(store):
            tier.flush()
            with _counting(store, tier, removal):
                tier.erase_keys(scope, wanted, removal)
    finally:
        if why is Why.ERASED:
            _freeze(store, removal)
    store.forget_pairs()
    store.ram.remove(scope, wanted, wipe=True)  # what a read under way brought in
    gone = {record.key for _, record in removal.gone}
    held = {key for _, key in removal.held}
    return {
        "removed": len(gone - held),
        "bytes": sum(record.length for _, record in removal.gone),
        "held": sorted(key.hex() for key in held),
        "absent": len(set(wanted) - gone - held),
        "not_reached": store.not_reached(),
    }


def probe(store: "Store", scope: Scope, keys: Sequence[bytes]) -> dict[str, Any]:
    """Where anything of these chunks is, readable or not. What could not be asked is named: it is not a no."""
    rows = [_probed(store, scope, key) for key in dict.fromkeys(keys)]
    present = sum(bool(row["places"]) for row in rows)
    return {"present": present, "absent": len(rows) - present, "keys": rows, "not_reached": store.not_reached()}


def _probed(store: "Store", scope: Scope, key: bytes) -> dict[str, Any]:
    places: dict[str, str] = {"ram": "live"} if store.ram.holds(scope, key) else {}
    held = False
    for name, tier in store.tiers.items():
        found = tier.found(scope, key)
        if found is not None:
            places[str(name)] = str(found.state)
            held = held or store.guard.holds.now(scope, key, found.record.meta)
    return {"key": key.hex(), "places": places, "held": held, "frozen": key in store.guard.frozen.of(scope)}


@contextmanager
def _counting(store: "Store", tier: Tier, removal: Removal) -> Iterator[None]:
    """What went meanwhile is counted off, also when the tier could not let go of everything."""
    begun = len(removal.gone)
    try:
        yield
    finally:
        for scope, record in removal.gone[begun:]:
            store.space.settle(tier, scope, record.key, record.length)


def _freeze(store: "Store", removal: Removal) -> None:
    for scope in {scope for scope, _ in removal.held}:
        store.guard.frozen.add(scope, [key for owner, key in removal.held if owner == scope])


def _twice(store: "Store") -> Iterator[tuple[str, Tier]]:
    """Every tier, and again when there are several: a chunk that a move carries is between them at first."""
    for _ in range(min(2, len(store.tiers))):
        yield from ((str(name), tier) for name, tier in store.tiers.items())
