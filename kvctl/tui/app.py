"""The console in a terminal: it shows levels, keeps them fresh, and hands keys on.

The controller is asked in threads alone; how old the data is stands on the screen all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.filter import LineFilter
from textual.message import Message as Event
from textual.screen import Screen
from textual.widgets import Input, Static

from kvctl.client.controller import ControllerClient
from kvctl.client.http import Http
from kvctl.tui import lines
from kvctl.tui.actions import ACTIONS, allowed, help_text, hints
from kvctl.tui.asking import Answer, Asked, Asking, Local
from kvctl.tui.changes import Ask, Change, Doc
from kvctl.tui.changing import Changing
from kvctl.tui.dialogs import Columns, Message
from kvctl.tui.frames import Frame, Trail
from kvctl.tui.grid import Grid
from kvctl.tui.page import Page
from kvctl.tui.pages import PAGES, named
from kvctl.tui.pulse import Pulse
from kvctl.tui.terminal import Ascii
from kvctl.tui.words import plain
from kvctl.types.requests import Nothing

REFRESH = 1.0  # seconds
TICK = 0.5
AT_EXIT = 2.0  # seconds for a call that is out


class Beat(Event):
    """Whether the controller is there: `dead` says why not."""

    def __init__(self, dead: str) -> None:
        super().__init__()
        self.dead = dead


class Console(App[None]):
    """`refresh`: seconds between two readings of what is on the screen. `who`: as whom the controller is asked, and
    `account` when that is a person who signed in. `local`: operations that this machine does itself."""

    TITLE = "kvctl"
    CSS_PATH = "console.tcss"
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(a.keys, a.name, a.help, show=False, priority=a.first) for a in ACTIONS),
        *(Binding(str(n), f"page('{name}')", name, show=False) for n, name in enumerate(PAGES, 1)),
    ]

    def __init__(
        self, client: ControllerClient, *, refresh: float = REFRESH, ascii_only: bool = False, who: str = "",
        account: str | None = None, local: Local | None = None,
    ) -> None:  # fmt: skip
        super().__init__(ansi_color=True)
        self.client = client
        self.trail = Trail()
        self.read_only = True
        self.dead = ""
        self._asking = Asking(client, self.post_message, local or {})
        self._changing = Changing(self, account)
        self._pulse = (
            Pulse(client.connection, lambda dead: self.post_message(Beat(dead))) if isinstance(client, Http) else None
        )
        self._every = refresh
        self._ascii = [Ascii()] if ascii_only else []
        self._notice = ""
        self.who = who
        self._site = ""
        self._opens = 0  # enters that wait for rows

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *self._ascii]

    def compose(self) -> ComposeResult:
        yield Static(id="top", markup=False)
        yield Static(id="tabs", markup=False)
        yield Page(id="page")
        yield Static(id="say", markup=False)
        yield Input(id="line", select_on_focus=False)
        yield Static(id="keys", markup=False)

    async def on_mount(self) -> None:
        await self.draw()
        self.put(self.named_site, lambda ask: ask("controller.status", Nothing())["site"])
        if self._pulse is not None:
            self._pulse.start()
        self.set_interval(min(TICK, self._every), self.tick)

    def named_site(self, answers: Sequence[Answer]) -> None:
        """A tenant's own people may not ask for it, and do without."""
        self._site = plain(answers[0].value) if not answers[0].trouble else ""
        self.say()

    @property
    def drawn(self) -> bool:
        """Not while it leaves: timers and answers still come when the widgets have gone."""
        return bool(self.query("#keys")) and bool(self.query("#page"))

    @property
    def page(self) -> Page:
        return self.query_one("#page", Page)

    @property
    def grid(self) -> Grid | None:
        return self.page.grid

    # --- asking
    def tick(self) -> None:
        if not self.drawn:
            return
        if not self.dead and self.trail.here.due(time.time(), self._every, self._asking.share):
            self.ask(self.trail.here)
        self.say()

    def ask(self, frame: Frame) -> None:
        number = self._asking.ask(frame, frame.questions())
        if number:
            frame.asking, frame.asked_at = number, frame.asked_at if frame.asking else time.time()

    def put(self, then: Callable[[Sequence[Answer]], None], question: Callable[[Ask], Any]) -> bool:
        """One question beside those of pages; False when too many are out."""
        return bool(self._asking.ask(then, [question]))

    def again(self) -> None:
        self.ask(self.trail.here)

    async def on_asked(self, message: Asked) -> None:
        if not self.drawn:
            return
        frame = message.about
        if not isinstance(frame, Frame):
            frame(message.answers)
        elif message.number == frame.asking or not frame.asking:
            frame.take(message.began, message.answers)
            if frame is self.trail.here:
                self.page.fill()
                self.say()
                await self.open_waiting(frame)

    def on_beat(self, message: Beat) -> None:
        self.dead = message.dead
        if not self.drawn:
            return
        if not self.dead:
            self._asking.forget()
            self.trail.here.asking = 0
            self.ask(self.trail.here)
        self.say()

    # --- drawing
    async def draw(self) -> None:
        """The level that the reader is at, from what is known of it."""
        frame = self.trail.here
        if not self.dead and frame.due(time.time(), self._every, self._asking.share):
            self.ask(frame)
        await self.page.show(frame, self.trail.crumbs())
        self.say()

    def say(self) -> None:
        """The lines around the page."""
        frame, now, width = self.trail.here, time.time(), self.size.width
        left = "  ".join(part for part in ("kvctl", self._site and f"site {self._site}", self.who) if part)
        lines.put(self.query_one("#top", Static), lines.top(left, self.trail, now, width, self.read_only, self.dead))
        lines.put(self.query_one("#tabs", Static), lines.tabs(self.trail.page, width))
        lines.put(self.query_one("#say", Static), lines.message(frame, self._notice, now, self.dead))
        lines.put(self.query_one("#keys", Static), Content(hints(self.read_only, self.offered(), width)))
        self.page.name_all()

    def notice(self, text: str) -> None:
        self._notice = text
        self.say()

    def on_resize(self) -> None:
        if self.drawn:
            self.call_after_refresh(self.say)

    def narrowed(self) -> None:
        self.page.fill()
        if self.grid is not None:
            self.grid.lay_out()
            self.grid.refresh()
        self.say()

    def offered(self) -> tuple[Change, ...]:
        """What may be changed here."""
        return self.trail.here.level.changes if self.grid is None else self.grid.table.changes

    def chosen(self) -> list[Doc]:
        """The documents that a change would be done to: marked rows, otherwise the one at the cursor."""
        grid, level = self.grid, self.trail.here.level
        if grid is None:
            return [level.doc] if level.doc is not None else []
        marked = [row.doc for row in grid.rows if row.key in grid.narrow.marks]
        return marked or ([grid.current.doc] if grid.current else [])

    # --- keys: where to
    async def action_page(self, name: str) -> None:
        self.trail.page, self._notice, self._opens = name, "", 0
        await self.draw()

    async def action_open(self) -> None:
        frame = self.trail.here
        if frame.level.tables and frame.read_at is None and not any(frame.trouble):
            self._opens += 1
            self.notice("opens when it is read")
            return
        level = frame.level.behind
        if self.grid is not None and self.grid.current is not None:
            level = self.grid.table.behind(self.grid.current.doc)
        if level is not None:
            self.trail.open(level)
            await self.draw()

    async def open_waiting(self, frame: Frame) -> None:
        """Enter that came before the rows did."""
        if self._opens:
            self._notice, self._opens = "", self._opens - 1
            if frame.read_at is not None:
                await self.action_open()

    on_grid_opened = action_open

    async def action_back(self) -> None:
        self._opens, self._notice = 0, ""
        if self.query_one("#line", Input).display:
            self.close_line()
        elif self.trail.back():
            await self.draw()
        elif self.grid is not None:
            self.grid.narrow.text = ""
            self.narrowed()

    def action_move(self, step: int) -> None:
        if self.grid is not None:
            self.grid.move(step)
            self.page.name_all()
        else:
            self.query_one("#page VerticalScroll").scroll_relative(y=step, animate=False)

    def action_leaf(self, step: int) -> None:
        self.action_move(step * max(1, self.page.size.height - 3))

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
        self.push_screen(Message(help_text(self.read_only, self.size.width)))

    # --- keys: the line for a filter or a command
    def action_enter(self, lead: str) -> None:
        line = self.query_one("#line", Input)
        line.display = True
        line.value = lead
        self.screen.set_focus(line)
        line.action_end()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is typed into the line from within it, or from a dialog."""
        return action != "enter" or not (len(self.screen_stack) > 1 or any(one.display for one in self.query("#line")))

    def close_line(self) -> None:
        self.query_one("#line", Input).display = False
        self.page.focus_on()

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
            self.notice(f"! there is no page {plain(word)}; there are {', '.join(PAGES)}")

    # --- keys: changes
    def action_writable(self) -> None:
        self.read_only = not self.read_only
        self.notice("")

    def action_change(self, key: str) -> None:
        self._changing.start(key)

    def action_sign_in(self) -> None:
        self._changing.sign_in()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for action in allowed(self.read_only):

            async def run(name: str = action.name) -> None:
                await self.run_action(name)

            yield SystemCommand(action.help, f"key {action.label}", run)
        for n, name in enumerate(PAGES, 1):

            async def go(name: str = name) -> None:
                await self.action_page(name)

            yield SystemCommand(f"page {name}", f"key {n}", go)

    def finish(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()
        self._asking.finish(AT_EXIT)
