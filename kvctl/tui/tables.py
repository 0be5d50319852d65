"""What a page is made of, as data: tables of documents, and what is behind a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kvctl.tui.changes import Ask, Change, Doc
from kvctl.tui.words import plain

__all__ = ["Ask", "Change", "Column", "Doc", "Level", "Row", "Table", "never", "of", "whole"]


@dataclass(frozen=True, slots=True)
class Column:
    """`value` is what rows are sorted by, `show` makes text of it. Width 0 takes what the others leave.

    `rank`: which go first when the terminal is narrow, the highest; 0 stays.
    """

    name: str
    width: int
    value: Callable[[Doc], Any]
    show: Callable[[Any], str] = plain
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    cells: tuple[str, ...]
    values: tuple[Any, ...]
    fault: bool
    doc: Doc


@dataclass(frozen=True, slots=True)
class Table:
    """`read` asks the controller, in a thread. `count` says in words what its rows are; `empty`: what to do for some.

    The first column names a row and is never cut while there is room for it.
    """

    name: str
    columns: tuple[Column, ...]
    key: Callable[[Doc], str]
    read: Callable[[Ask], Sequence[Doc]]
    fault: Callable[[Doc], bool]
    behind: Callable[[Doc], Level]
    changes: tuple[Change, ...] = ()
    count: Callable[[Sequence[Doc]], str] = lambda docs: str(len(docs))
    empty: str = "nothing"

    def read_rows(self, ask: Ask) -> tuple[Row, ...]:
        return tuple(self._row(doc) for doc in self.read(ask))

    def _row(self, doc: Doc) -> Row:
        values = tuple(column.value(doc) for column in self.columns)
        cells = tuple(column.show(value) for column, value in zip(self.columns, values, strict=True))
        return Row(self.key(doc), cells, values, self.fault(doc), doc)


@dataclass(frozen=True, slots=True)
class Level:
    """One view: its crumb, and either tables or a text. `behind`: what enter on the text leads to.

    `changes` are to `doc`, which the text is about.
    """

    crumb: str
    tables: tuple[Table, ...] = ()
    text: Callable[[Ask], str] | None = None
    behind: Level | None = None
    changes: tuple[Change, ...] = ()
    doc: Doc | None = None


def of(name: str) -> Callable[[Doc], Any]:
    return lambda doc: doc.get(name)


def never(doc: Doc) -> bool:
    return False


def whole(crumb: str, text: str) -> Level:
    """A text that is known already."""
    return Level(crumb, text=lambda ask: text)
