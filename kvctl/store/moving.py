"""A move as it is asked for: which chunks, from where to where, under a name that lets it be taken up again."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta as Rule
from msgspec import Struct

from kvctl.store.api import Record, Why
from kvctl.store.journal import taken
from kvctl.store.move import move
from kvctl.store.moves import Moves
from kvctl.types.chunks import Scope, TierName
from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from kvctl.store.store import Store

Hex = Annotated[str, Rule(pattern="^[0-9a-f]{32}$")]


class Move(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`id` names the move: asked for again with the same id, it goes on where it stopped."""

    id: Annotated[str, Rule(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    source: TierName
    target: TierName
    tenant: str | None = None
    domain: str | None = None
    epoch: Hex | None = None
    model: Hex | None = None
    kind: Literal["private", "common"] | None = None
    least_position: int = 0  # only chunks from here on in their prompts
    held: bool = False  # chunks under a hold are moved as well
    pace: float | None = None  # bytes a second
    undo: Annotated[str, Rule(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] | None = None  # only what that move moved


def run_move(store: "Store", moves: Moves, body: dict[str, Any], stop: Callable[[], bool]) -> dict[str, Any]:
    """Carry a move out, or finish one. UsageError for what cannot be meant, LockedError while it runs already."""
    try:
        asked = msgspec.convert(body, Move)
    except msgspec.ValidationError as bad:
        raise UsageError("KV-STORE-023", "this is no move", why=str(bad), fix="see docs/kvstored.md") from bad
    source, target = store.tier(asked.source), store.tier(asked.target)
    if source is target:
        raise UsageError("KV-STORE-023", "this is no move", why=f"{asked.source} is where the chunks are")
    space, deltas, holds = store.space, store.guard.deltas, store.guard.holds

    def settled(scope: Scope, key: bytes) -> None:
        for tier in (target, source):
            space.settle(tier, scope, key)

    with moves.run(asked.id, str(asked.source), str(asked.target)) as running:
        chunks = list(_chosen(store, asked))
        if asked.undo is not None:
            theirs = taken(moves.journal(asked.undo))
            chunks = [one for one in chunks if one in theirs]
        running.chosen = len(chunks)
        move(
            source,
            target,
            chunks,
            journal=moves.journal(asked.id),
            stop=lambda: stop() or running.cancelled,
            pool=store.pool,
            may_remove=lambda scope, key: not store.leases.held(scope, key),
            is_held=lambda scope, record: holds.now(scope, record.key, record.meta),
            release=asked.held,
            on_copy=lambda scope, record: deltas.put(asked.target, scope, record),
            on_no_copy=lambda scope, record: deltas.removed(asked.target, scope, record, Why.LOST),
            on_settled=settled,
            tally=running.tally,
            pace_bytes_per_second=asked.pace,
        )
    return running.row()


def _chosen(store: "Store", asked: Move) -> Iterator[tuple[Scope, bytes]]:
    source = store.tier(asked.source)
    source.flush()
    for scope in sorted(source.scopes()):
        if _named(scope, asked):
            yield from ((owner, record.key) for owner, record in source.walk(scope) if _wanted(record, asked))


def _wanted(record: Record, asked: Move) -> bool:
    meta = record.meta
    return (
        asked.model in (None, meta.model.hex())
        and asked.kind in (None, meta.kind.name.lower())
        and meta.position >= asked.least_position
    )


def _named(scope: Scope, asked: Move) -> bool:
    return (
        asked.tenant in (None, scope.tenant)
        and asked.domain in (None, scope.domain)
        and asked.epoch in (None, scope.epoch.hex())
    )
