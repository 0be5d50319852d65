"""A move as it is asked for: which chunks, from where to where, under a name that lets it be taken up again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta as Rule
from msgspec import Struct

from kvctl.store.move import Moved, move
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
    least_position: int = 0  # only chunks from here on in their prompts
    pace: float | None = None  # bytes a second


def run_move(store: "Store", journals: Path, body: dict[str, Any], stop: Callable[[], bool]) -> Moved:
    """Carry a move out, or finish one. Raises UsageError for what cannot be meant."""
    try:
        asked = msgspec.convert(body, Move)
    except msgspec.ValidationError as bad:
        raise UsageError("KV-STORE-023", "this is no move", why=str(bad), fix="see docs/kvstored.md") from bad
    source, target = store.tier(asked.source), store.tier(asked.target)
    if source is target:
        raise UsageError("KV-STORE-023", "this is no move", why=f"{asked.source} is where the chunks are")
    journals.mkdir(mode=0o700, parents=True, exist_ok=True)
    return move(
        source,
        target,
        list(_chosen(store, asked)),
        journal=journals / f"{asked.id}.jsonl",
        stop=stop,
        pool=store.pool,
        may_remove=lambda scope, key: not store.leases.held(scope, key),
        on_moved=lambda scope, record: store.space.moved(asked.source, asked.target, scope, record),
        pace_bytes_per_second=asked.pace,
    )


def _chosen(store: "Store", asked: Move) -> Iterator[tuple[Scope, bytes]]:
    source = store.tier(asked.source)
    source.flush()
    for scope in sorted(source.scopes()):
        if _named(scope, asked):
            for owner, record in source.walk(scope):
                model = asked.model in (None, record.meta.model.hex())
                if model and record.meta.position >= asked.least_position:
                    yield owner, record.key


def _named(scope: Scope, asked: Move) -> bool:
    return (
        asked.tenant in (None, scope.tenant)
        and asked.domain in (None, scope.domain)
        and asked.epoch in (None, scope.epoch.hex())
    )
