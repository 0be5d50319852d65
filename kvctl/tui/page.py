"""One level on the screen: its tables with a title each, or its text."""

from __future__ import annotations

from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from kvctl.tui import lines
from kvctl.tui.frames import Frame
from kvctl.tui.grid import Grid


class Page(Vertical):
    """`show` takes another frame; `fill` brings what is drawn up to what the frame has."""

    frame: Frame | None = None
    crumbs = ""
    counts: tuple[str, ...] = ()

    async def show(self, frame: Frame, crumbs: str) -> None:
        self.frame = None  # until its widgets are there
        async with self.batch():
            await self.remove_children()
            if frame.level.text is not None:
                await self.mount(Static(classes="name", markup=False), VerticalScroll(Static(id="text", markup=False)))
            for n, (table, narrow) in enumerate(zip(frame.level.tables, frame.narrow, strict=True)):
                grid = Grid(table, narrow)
                grid.styles.height = "2fr" if n == 0 else "1fr"
                await self.mount(Static(classes="name", markup=False), grid)
        self.frame, self.crumbs = frame, crumbs
        self.focus_on()
        self.fill()

    def focus_on(self) -> None:
        """Keys go to the level that is shown, but not away from a line in which somebody types.

        At once: focus() of a widget comes later, when a line may be open.
        """
        frame, grids = self.frame, list(self.query(Grid))
        if frame is None or any(line.display for line in self.screen.query("#line")):
            return
        self.screen.set_focus(grids[frame.focus] if grids else self.query_one(VerticalScroll))

    def fill(self) -> None:
        frame = self.frame
        if frame is None:
            return
        if frame.level.text is not None:
            text = frame.text or frame.trouble[0] or "reading"
            found = self.query_one("#text", Static)
            if str(found.content) != text:
                found.update(text)
        for n, grid in enumerate(self.query(Grid)):
            grid.show(grid.narrow.rows(grid.table, frame.rows[n]), self._said(frame, n))
        tables = zip(frame.level.tables, frame.rows, strict=True)
        self.counts = tuple(table.count([row.doc for row in rows]) if rows else "" for table, rows in tables)
        self.name_all()

    def _said(self, frame: Frame, n: int) -> str:
        """Instead of rows: why there are none, and what to do."""
        if frame.rows[n]:
            return "nothing matches: esc takes the filter away, f shows all"
        return frame.trouble[n] or (frame.level.tables[n].empty if frame.read_at else "reading")

    def name_all(self) -> None:
        frame = self.frame
        if frame is None:
            return
        names, grids = list(self.query(".name").results(Static)), list(self.query(Grid))
        if not grids:
            lines.put(names[0], lines.title(self.crumbs, None, "", self.size.width, False))
        for n, (name, grid) in enumerate(zip(names, grids, strict=False)):
            crumbs = self.crumbs if len(grids) == 1 else grid.table.name
            marked = len(grids) > 1 and grid is self.grid
            lines.put(name, lines.title(crumbs, grid, self.counts[n], self.size.width, marked))

    @property
    def grid(self) -> Grid | None:
        """The table that keys go to."""
        grids, frame = list(self.query(Grid)), self.frame
        if not grids or frame is None:
            return None
        focused = self.app.screen_stack[0].focused
        if focused in grids:
            frame.focus = grids.index(focused)
        return grids[min(frame.focus, len(grids) - 1)]
