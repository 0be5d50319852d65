"""A table that draws only lines that are on the screen, and of these only those that changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kvctl.tui.narrow import Narrow
from kvctl.tui.tables import Column, Row, Table
from kvctl.tui.widths import natural, shared

KEPT = 2000  # lines
GUTTER = 2  # the cursor, and a mark
HEAD = Style(bold=True, underline=True)
CURSOR = Style(reverse=True, bold=True)
FAULT = Style(bold=True)
# A colour repeats what the sign at the start of a cell says, and never stands alone.
TONES = {
    "!!": Style(color="red", bold=True), "!": Style(color="yellow"), "?": Style(color="magenta"),
    "+": Style(color="green"), ">": Style(color="cyan", bold=True),
}  # fmt: skip
PLAIN = Style()


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
        self._wanted: dict[str, int] = {}
        self._shared: list[tuple[int, Column, int]] = []
        self._strips: dict[tuple[object, ...], Strip] = {}  # lines as they were drawn, of these widths

    # --- rows
    def show(self, rows: Sequence[Row], said: str = "") -> None:
        """Bring what is on the screen up to these rows."""
        before, top, at, was = self.rows, self._top, self._at, self.said
        key = before[at].key if before else ""
        self.rows, self.said = list(rows), said
        if not (at < len(self.rows) and self.rows[at].key == key):
            self._at = next((n for n, row in enumerate(self.rows) if row.key == key), at)
        self._bound()
        changed = self.lay_out()
        if changed or (self._top, self._at, self.said) != (top, at, was) or not before or not self.rows:
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
    def lay_out(self) -> bool:
        """Share the room among the columns; whether that changed. Widths only grow, or a live table would jump."""
        columns = self.narrow.columns(self.table)
        for n, column in columns:
            self._wanted[column.name] = max(self._wanted.get(column.name, 0), natural(column, n, self.rows))
        before, self._shared = self._shared, shared(columns, self._wanted, self.size.width - GUTTER)
        if self._shared != before:
            self._strips.clear()
        return self._shared != before

    @property
    def left_out(self) -> int:
        """Columns that there is no room for."""
        return len(self.narrow.columns(self.table)) - len(self._shared) if self._shared else 0

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        if y == 0:
            return self._strip([(" " * GUTTER, PLAIN), *self._head()], self.rich_style + HEAD)
        n = self._top + y - 1
        if n < len(self.rows):
            return self._kept(self.rows[n], n == self._at)
        return self._strip([(f"  {self.said}" if y == 1 else "", PLAIN)], self.rich_style)

    def _kept(self, row: Row, here: bool) -> Strip:
        """Scrolling draws the same rows again and again."""
        key = (row.key, row.cells, row.fault, row.key in self.narrow.marks, here, self.has_focus, self.size.width)
        if key not in self._strips:
            if len(self._strips) >= KEPT:
                self._strips.clear()
            self._strips[key] = self._row(row, here)
        return self._strips[key]

    def _row(self, row: Row, here: bool) -> Strip:
        mark = "*" if row.key in self.narrow.marks else " "
        style = self.rich_style + (FAULT if row.fault else PLAIN)
        bar = here and self.has_focus
        parts = [((">" if here else " ") + mark, PLAIN)]
        for i, _, size in self._shared:
            cell = row.cells[i]
            parts.append((f"{fitted(cell, size)} ", PLAIN if bar else TONES.get(cell[:2].rstrip(), PLAIN)))
        return self._strip(parts, style + CURSOR if bar else style)

    def _head(self) -> list[tuple[str, Style]]:
        sort, sign = self.narrow.sort, "v" if self.narrow.down else "^"
        return [
            (f"{fitted(column.name.upper() + (sign if column.name == sort else ''), size)} ", PLAIN)
            for _, column, size in self._shared
        ]

    def _strip(self, parts: Sequence[tuple[str, Style]], style: Style) -> Strip:
        strip = Strip([Segment(text, style + own) for text, own in parts if text])
        return strip.adjust_cell_length(self.size.width, style)

    # --- events
    def on_resize(self, event: events.Resize) -> None:
        self._bound()
        self.lay_out()
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
