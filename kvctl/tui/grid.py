"""A table that draws only lines that are on the screen, and of these only those that changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kvctl.tui.narrow import Narrow
from kvctl.tui.tables import Column, Row, Table

GUTTER = 2  # the cursor, and a mark
HEAD = Style(bold=True, underline=True)
CURSOR = Style(reverse=True)
FAULT = Style(bold=True)
LEAST = 8  # of a column that takes what the others leave


class Grid(Widget, can_focus=True):
    """Rows of one table. The cursor stays on its row when others come and go."""

    class Opened(Message):
        """A row was clicked again while the cursor was on it."""

    def __init__(self, table: Table, narrow: Narrow) -> None:
        super().__init__()
        self.table = table
        self.narrow = narrow
        self.rows: list[Row] = []
        self.said = ""  # instead of rows
        self.drawn = 0  # lines, since it was made
        self._at = 0
        self._top = 0

    # --- rows
    def show(self, rows: Sequence[Row], said: str = "") -> None:
        """Bring what is on the screen up to these rows."""
        before, top, at, was = self.rows, self._top, self._at, self.said
        key = before[at].key if before else ""
        self.rows, self.said = list(rows), said
        if not (at < len(self.rows) and self.rows[at].key == key):
            self._at = next((n for n, row in enumerate(self.rows) if row.key == key), at)
        self._bound()
        if (self._top, self._at, self.said) != (top, at, was) or not before or not self.rows:
            self.refresh()
            return
        for line in range(self._page):
            n = top + line
            if line_of(before, n) != line_of(self.rows, n):
                self.refresh(Region(0, line + 1, self.size.width, 1))

    @property
    def current(self) -> Row | None:
        return self.rows[self._at] if self.rows else None

    @property
    def position(self) -> str:
        return f"{self._at + 1 if self.rows else 0}/{len(self.rows)}"

    def move(self, step: int) -> None:
        self.to(self._at + step)

    def to(self, at: int) -> None:
        before, top = self._at, self._top
        self._at = at
        self._bound()
        if self._top != top:
            self.refresh()
        else:
            for n in {before, self._at}:
                self.refresh(Region(0, n - top + 1, self.size.width, 1))

    @property
    def _page(self) -> int:
        return max(1, self.size.height - 1)

    def _bound(self) -> None:
        self._at = max(0, min(len(self.rows) - 1, self._at))
        lowest = max(0, len(self.rows) - self._page)
        self._top = max(0, min(lowest, max(self._at - self._page + 1, min(self._top, self._at))))

    # --- drawing
    def widths(self) -> list[tuple[int, Column, int]]:
        columns = self.narrow.columns(self.table)
        left = self.size.width - GUTTER - sum(c.width for _, c in columns) - len(columns)
        return [(n, column, column.width or max(LEAST, left)) for n, column in columns]

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        width, style = self.size.width, self.rich_style
        if y == 0:
            return self._strip(" " * GUTTER + self._head(), width, style + HEAD)
        n = self._top + y - 1
        if n < len(self.rows):
            row = self.rows[n]
            mark = "*" if row.key in self.narrow.marks else " "
            text = "".join(f"{fitted(row.cells[i], size)} " for i, _, size in self.widths())
            if row.fault:
                style += FAULT
            here = n == self._at
            return self._strip(
                (">" if here else " ") + mark + text, width, style + CURSOR if here and self.has_focus else style
            )
        return self._strip(f"  {self.said}" if y == 1 else "", width, style)

    def _head(self) -> str:
        sort, sign = self.narrow.sort, "v" if self.narrow.down else "^"
        return "".join(
            f"{fitted(column.name.upper() + (sign if column.name == sort else ''), size)} "
            for _, column, size in self.widths()
        )

    def _strip(self, text: str, width: int, style: Style) -> Strip:
        return Strip([Segment(set_cell_size(text, width), style)], width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows) + 1

    # --- events
    def on_resize(self, event: events.Resize) -> None:
        self._bound()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        n = self._top + event.y - 1
        if event.y == 0 or n >= len(self.rows):
            return
        if n == self._at and self.has_focus:
            self.post_message(self.Opened())
        self.to(n)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-1)


def line_of(rows: Sequence[Row], n: int) -> tuple[object, ...] | None:
    return (rows[n].key, rows[n].cells, rows[n].fault) if n < len(rows) else None


def fitted(text: str, width: int) -> str:
    """Cut or padded to a width in cells; what was cut shows it."""
    cut = set_cell_size(text, width)
    return cut if len(cut.rstrip()) >= len(text.rstrip()) or width < 2 else set_cell_size(text, width - 1) + "~"
