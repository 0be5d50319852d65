"""Tables whose columns are marked by a line of dashes under the header, as SONiC, NVUE and nvme-cli print them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .scalars import plain

_RULER = re.compile(r"\s*-{2,}(?: +-{1,})*\s*|\s*-(?: +-{2,})+\s*")


@dataclass(frozen=True)
class Table:
    """`rows` map header to cell, both stripped. A row whose columns cannot be told apart is in `unread`."""

    header: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    unread: tuple[str, ...]
    before: str  # the line above the header


def is_ruler(line: str) -> bool:
    return bool(_RULER.fullmatch(line.rstrip())) and "-" in line


def spans(ruler: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"-+", ruler)]


def cells(line: str, columns: list[tuple[int, int]]) -> list[str] | None:
    """The cells of a row under a ruler, or None when it does not fit the columns."""
    line = line.rstrip()
    gaps = [(end, start) for (_, end), (start, _) in zip(columns, columns[1:])]
    # Columns are cut by position only where the gaps are blank; copied text has often lost its spacing.
    if all(not line[end:start].strip() for end, start in gaps) and not line[: columns[0][0]].strip():
        ends = [start for start, _ in columns[1:]] + [len(line)]
        return [line[start:end].strip() for (start, _), end in zip(columns, ends)]
    for pattern in (r"\s{2,}|\t", r"\s+"):
        parts = re.split(pattern, line.strip())
        if len(parts) == len(columns):
            return parts
    return None


def tables(text: str) -> list[Table]:
    """Every ruled table of `text`. A table ends at a blank line, the next ruler's header, or the end."""
    lines = [line.expandtabs() for line in plain(text).splitlines()]
    rulers = [number for number, line in enumerate(lines) if is_ruler(line)]
    found = []
    for position, number in enumerate(rulers):
        columns = spans(lines[number])
        above = lines[number - 1] if number else ""
        # A log that writes its own blank before the first line moves the header alone.
        header = cells(above, columns) or cells(above.lstrip(), columns)
        if header is None:
            continue
        stop = rulers[position + 1] - 1 if position + 1 < len(rulers) else len(lines)
        rows, unread = [], []
        for line in lines[number + 1 : stop]:
            if not line.strip():
                break
            row = cells(line, columns)
            if row is None:
                unread.append(line)
            else:
                rows.append(dict(zip(header, row)))
        before = lines[number - 2] if number > 1 else ""
        found.append(Table(tuple(header), tuple(rows), tuple(unread), before.strip()))
    return found
