"""Which rows of a table are shown, in which order: filter, faults only, sorting, columns, marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvctl.tui.tables import Column, Row, Table


@dataclass(slots=True)
class Narrow:
    text: str = ""  # with `!` before it: rows without it
    faults: bool = False
    sort: str = ""  # a column's name; none: the controller's order
    down: bool = False
    hidden: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)

    def rows(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        found = [row for row in rows if (row.fault or not self.faults) and self._matches(row)]
        names = [column.name for column in table.columns]
        if self.sort in names:
            at = names.index(self.sort)
            known = [row for row in found if row.values[at] is not None]
            known.sort(key=lambda row: ordering(row.values[at]), reverse=self.down)
            found = known + [row for row in found if row.values[at] is None]
        return found

    def _matches(self, row: Row) -> bool:
        inverse = self.text.startswith("!")
        needle = self.text[inverse:].lower()
        return not needle or (needle in "\n".join(row.cells).lower()) is not inverse

    def columns(self, table: Table) -> list[tuple[int, Column]]:
        """Those that are shown, with their places in a row."""
        return [(n, column) for n, column in enumerate(table.columns) if column.name not in self.hidden]

    def sort_next(self, table: Table) -> None:
        names = ["", *(column.name for _, column in self.columns(table))]
        self.sort = names[(names.index(self.sort) + 1) % len(names)] if self.sort in names else ""
        self.down = False

    def said(self) -> list[str]:
        parts = [f"filter {self.text}"] if self.text else []
        parts += ["faults only"] if self.faults else []
        parts += [f"by {self.sort}{' down' if self.down else ''}"] if self.sort else []
        return parts + ([f"{len(self.marks)} marked"] if self.marks else [])


def ordering(value: Any) -> tuple[int, Any]:
    """Numbers before texts, so that a column of both has an order, too."""
    return (0, value) if isinstance(value, int | float) else (1, str(value).lower())
