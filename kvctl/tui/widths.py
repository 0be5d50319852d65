"""How wide each column is: what names a row is whole, what matters least goes first when there is no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from kvctl.tui.tables import Column, Row

LEAST = 22  # of a column that takes what the others leave
SMALLEST = 4


def natural(column: Column, place: int, rows: Sequence[Row]) -> int:
    """Cells that the widest value of a column takes, with room for its name and the sign of sorting."""
    widest = max((width(row.cells[place]) for row in rows), default=0)
    return max(width(column.name) + 1, widest)


def width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def shared(
    columns: Sequence[tuple[int, Column]], wanted: Mapping[str, int], room: int
) -> list[tuple[int, Column, int]]:
    """Columns that fit into `room`, each with its place in a row and its width. `wanted`: the natural widths."""
    kept = list(columns)
    while len(kept) > 1 and sum(least(c, wanted, kept) + 1 for _, c in kept) > room:
        ranked = max(kept[1:], key=lambda one: one[1].rank)
        if not ranked[1].rank:
            break
        kept.remove(ranked)
    sizes = [least(column, wanted, kept) for _, column in kept]
    spare = room - sum(sizes) - len(sizes)
    for at in sorted(range(len(kept)), key=lambda n: kept[n][1].width != 0):
        more = max(0, min(spare, wanted.get(kept[at][1].name, 0) - sizes[at]))
        sizes[at] += more
        spare -= more
    return [(n, column, size) for (n, column), size in zip(kept, shrunk(sizes, room), strict=True)]


def least(column: Column, wanted: Mapping[str, int], kept: Sequence[tuple[int, Column]]) -> int:
    needs = wanted.get(column.name, 0)
    return needs if column is kept[0][1] else min(needs, column.width or LEAST)


def shrunk(sizes: Sequence[int], room: int) -> list[int]:
    """When even what stays does not fit, the columns behind the first give before it does."""
    sizes = list(sizes)
    over = sum(sizes) + len(sizes) - room
    for n in [*range(len(sizes) - 1, 0, -1), 0]:
        give = max(0, min(over, sizes[n] - SMALLEST))
        sizes[n] -= give
        over -= give
    return sizes
