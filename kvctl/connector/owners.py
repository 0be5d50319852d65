"""Who writes and who may have each chunk of a chain, by the maps in force and without nodes that are left out. Pure."""

from collections.abc import Collection, Iterable, Sequence

from kvctl.connector.placement import PoolMap
from kvctl.types.chunks import Kind


def writers(
    pool_map: PoolMap, chain: Sequence[bytes], position: int, kind: Kind, left_out: Collection[str] = ()
) -> list[str]:
    run = pool_map.run(chain, position)
    return [node.name for node in pool_map.owners(run, pool_map.copies.of(kind), left_out)]


def readers(
    maps: Sequence[PoolMap], chain: Sequence[bytes], positions: Iterable[int], left_out: Collection[str] = ()
) -> dict[int, list[str]]:
    """Position -> the nodes that may have the chunk, in the order in which to ask them."""
    runs: dict[tuple[bytes, ...], list[str]] = {}
    owners = {}
    for position in positions:
        run = tuple(pool_map.run(chain, position) for pool_map in maps)
        if run not in runs:
            runs[run] = candidates(maps, run, left_out)
        owners[position] = runs[run]
    return owners


def candidates(maps: Sequence[PoolMap], runs: Sequence[bytes], left_out: Collection[str] = ()) -> list[str]:
    """Owners by each map, the newest first. A reader does not know a chunk's kind: as many as any kind has copies."""
    found = [
        node.name
        for pool_map, run in zip(maps, runs, strict=True)
        for node in pool_map.owners(run, pool_map.copies.most, left_out)
    ]
    return list(dict.fromkeys(found))
