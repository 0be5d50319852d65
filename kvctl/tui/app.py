"""The console in a terminal: it shows levels, keeps them fresh, and hands keys on.

The controller is asked in threads alone; how old the data is stands on the screen all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input, Static

from kvctl.client.controller import ControllerClient
from kvctl.tui import lines
from kvctl.tui.actions import ACTIONS, allowed, help_text, hints
from kvctl.tui.asking import Asked, Asking
from kvctl.tui.dialogs import Columns, Confirm, Help
from kvctl.tui.frames import Frame, Trail
from kvctl.tui.grid import Grid
from kvctl.tui.pages import named
from kvctl.tui.runs import cancelling
from kvctl.tui.terminal import Ascii
from kvctl.tui.words import plain

REFRESH = 2.0  # seconds
TICK = 1.0
AT_EXIT = 2.0  # seconds for a call that is out
READ_ONLY = "read-only: w makes it writable"


class Console(App[None]):
    """`refresh`: seconds between two readings of what is on the screen."""

    TITLE = "kvctl"
    CSS_PATH = "console.tcss"
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.name, a.help, show=False) for a in ACTIONS]

    def __init__(self, client: ControllerClient, *, refresh: float = REFRESH, ascii_only: bool = False) -> None:
        super().__init__()
        self.trail = Trail()
        self.read_only = True
        self._asking = Asking(client, self.post_message)
        self._every = refresh
        self._ascii = [Ascii()] if ascii_only else []
        self._notice = ""

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *self._ascii]

    def compose(self) -> ComposeResult:
        yield Static(id="top", markup=False)
        yield Static(id="say", markup=False)
        yield Vertical(id="body")
        yield Input(id="line", select_on_focus=False)
        yield Static(id="keys", markup=False)

    async def on_mount(self) -> None:
        await self.draw()
        self.set_interval(min(TICK, self._every), self.tick)

    @property
    def drawn(self) -> bool:
        """Not while it leaves: timers and answers still come when the widgets have gone."""
        return bool(self.query("#keys")) and bool(self.query("#body"))

    # --- asking
    def tick(self) -> None:
        if not self.drawn:
            return
        if self.trail.here.due(time.time(), self._every):
            self.ask(self.trail.here)
        self.say()

    def ask(self, frame: Frame) -> None:
        number = self._asking.ask(frame, frame.questions())
        if number:
            frame.asking, frame.asked_at = number, frame.asked_at if frame.asking else time.time()

    def on_asked(self, message: Asked) -> None:
        if isinstance(message.about, str):
            self.notice("; ".join(answer.trouble or message.about for answer in message.answers))
            self.ask(self.trail.here)
            return
        frame: Frame = message.about
        if message.number == frame.asking or not frame.asking:
            frame.take(message.began, message.answers)
            if frame is self.trail.here and self.drawn:
                self.fill()
                self.say()

    # --- drawing
    async def draw(self) -> None:
        """The level that the reader is at, from what is known of it."""
        frame, body = self.trail.here, self.query_one("#body", Vertical)
        if frame.due(time.time(), self._every):
            self.ask(frame)
        async with body.batch():
            await body.remove_children()
            if frame.level.text is not None:
                await body.mount(VerticalScroll(Static(id="text", markup=False)))
                body.query_one(VerticalScroll).focus()
            for n, (table, narrow) in enumerate(zip(frame.level.tables, frame.narrow, strict=True)):
                if len(frame.level.tables) > 1:
                    await body.mount(Static(f"-- {table.name} ", classes="name", markup=False))
                grid = Grid(table, narrow)
                grid.styles.height = "2fr" if n == 0 else "1fr"
                await body.mount(grid)
            grids = list(self.query(Grid))
            if grids:
                grids[frame.focus].focus()
        self.fill()
        self.say()

    def fill(self) -> None:
        frame = self.trail.here
        if frame.level.text is not None:
            text = frame.text or frame.trouble[0] or "reading"
            found = self.query_one("#text", Static)
            if str(found.content) != text:
                found.update(text)
        for n, grid in enumerate(self.query(Grid)):
            rows = grid.narrow.rows(grid.table, frame.rows[n])
            read = "nothing" if frame.read_at or (frame.trouble[n] == "" and frame.rows[n]) else "reading"
            grid.show(rows, frame.trouble[n] or ("nothing matches" if frame.rows[n] else read))

    def say(self) -> None:
        """The lines around the page."""
        frame, now, grid = self.trail.here, time.time(), self.grid
        lines.put(self.query_one("#top", Static), lines.top(self.trail, now, self.size.width, self.read_only))
        shown = "" if grid is None else "  ".join([grid.position, *grid.narrow.said()])
        parts = [frame.problem(now), self._notice, shown]
        lines.put(self.query_one("#say", Static), "  ".join(part for part in parts if part))
        lines.put(self.query_one("#keys", Static), hints(self.read_only))

    def notice(self, text: str) -> None:
        self._notice = text
        self.say()

    @property
    def grid(self) -> Grid | None:
        """The table that keys go to."""
        grids = list(self.query(Grid))
        focused = self.screen_stack[0].focused
        if focused in grids:
            self.trail.here.focus = grids.index(focused)
        return grids[min(self.trail.here.focus, len(grids) - 1)] if grids else None

    def narrowed(self) -> None:
        self.fill()
        if self.grid is not None:
            self.grid.refresh()
        self.say()

    # --- keys: where to
    async def action_page(self, name: str) -> None:
        self.trail.page, self._notice = name, ""
        await self.draw()

    async def action_open(self) -> None:
        level = self.trail.here.level.behind
        if self.grid is not None and self.grid.current is not None:
            level = self.grid.table.behind(self.grid.current.doc)
        if level is not None:
            self.trail.open(level)
            await self.draw()

    on_grid_opened = action_open

    async def action_back(self) -> None:
        line = self.query_one("#line", Input)
        if line.display:
            self.close_line()
        elif self.trail.back():
            await self.draw()
        elif self.grid is not None:
            self.grid.narrow.text = ""
            self.narrowed()

    def action_move(self, step: int) -> None:
        if self.grid is not None:
            self.grid.move(step)
            self.say()
        else:
            self.query_one("#body VerticalScroll", VerticalScroll).scroll_relative(y=step, animate=False)

    def action_leaf(self, step: int) -> None:
        self.action_move(step * max(1, self.query_one("#body", Vertical).size.height - 2))

    def action_other(self) -> None:
        self.screen_stack[0].focus_next(Grid)
        self.say()

    # --- keys: what is shown
    def action_faults(self) -> None:
        if self.grid is not None:
            self.grid.narrow.faults = not self.grid.narrow.faults
            self.narrowed()

    def action_sort(self) -> None:
        if self.grid is not None:
            self.grid.narrow.sort_next(self.grid.table)
            self.narrowed()

    def action_turn(self) -> None:
        if self.grid is not None:
            self.grid.narrow.down = not self.grid.narrow.down
            self.narrowed()

    def action_columns(self) -> None:
        if self.grid is not None:
            self.push_screen(Columns(self.grid.table, self.grid.narrow, self.narrowed))

    def action_mark(self) -> None:
        if self.grid is not None and self.grid.current is not None:
            self.grid.narrow.marks ^= {self.grid.current.key}
            self.grid.move(1)
            self.say()

    def action_again(self) -> None:
        if not self.trail.here.asking:
            self.ask(self.trail.here)

    def action_help(self) -> None:
        self.push_screen(Help(help_text(self.read_only)))

    # --- keys: the line for a filter or a command
    def action_enter(self, lead: str) -> None:
        line = self.query_one("#line", Input)
        line.display = True
        line.value = lead
        line.focus()
        line.action_end()

    def close_line(self) -> None:
        self.query_one("#line", Input).display = False
        if self.grid is not None:
            self.grid.focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        self.close_line()
        if event.value.startswith(":"):
            await self.command(event.value[1:].strip())
        elif self.grid is not None:
            self.grid.narrow.text = event.value.removeprefix("/").strip()
            self.narrowed()

    async def command(self, word: str) -> None:
        page = named(word)
        if word in ("q", "quit"):
            self.exit()
        elif page:
            await self.action_page(page)
        else:
            self.notice(f"! there is no page {plain(word)}")

    # --- keys: changes
    def action_writable(self) -> None:
        self.read_only = not self.read_only
        self.notice("")

    def action_cancel(self) -> None:
        grid = self.grid
        if self.read_only:
            self.notice(f"! {READ_ONLY}")
        elif grid is not None and grid.table.cancels is not None:
            chosen = [row for row in grid.rows if row.key in grid.narrow.marks] or [r for r in [grid.current] if r]
            runs = sorted({grid.table.cancels(row.doc) for row in chosen})
            if runs:
                self.push_screen(
                    Confirm(f"Cancel {len(runs)} run(s)? Steps at work end, none begins.", runs), self.cancel(runs)
                )

    def cancel(self, runs: list[str]) -> Callable[[bool | None], None]:
        def answered(yes: bool | None) -> None:
            if not yes:
                return
            self.notice(f"cancel {', '.join(runs)}: sent, no answer yet")
            for run in runs:
                if not self._asking.ask(f"{run}: asked to stop", [cancelling(run)]):
                    self.notice(f"!! {run}: not sent, too many questions are without an answer")

        return answered

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for action in allowed(self.read_only):

            async def run(name: str = action.name) -> None:
                await self.run_action(name)

            yield SystemCommand(action.help, f"key {action.label}", run)

    def finish(self) -> None:
        self._asking.finish(AT_EXIT)
