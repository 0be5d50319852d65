"""The console in a terminal: tables that keep themselves fresh, and what is behind each row.

Every question is asked in a thread: a controller that does not answer never stops the keys, and how old the data is
stands on the screen.
"""

import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from kvctl.client.controller import ControllerClient
from kvctl.tui.screens import SCREENS, Row, Screen
from kvctl.types.errors import KvctlError
from kvctl.types.requests import PlanNamed, RunNamed

REFRESH = 2.0  # seconds
HELP = """\
1-8, :NAME   pages: findings stores tenants tiers moves approvals runs audit
enter, l     what is behind a row        esc, h   back
j k g G      down, up, first, last       /        filter; !text: without it
f            faults only                 s        sort by the next column
r            read again now              p        the plan that would repair
w            read-only or writable       x        cancel a run (writable)
?            this                        q        leave
"""


class Detail(ModalScreen[None]):
    """Text over the page: a row with all it has, a plan, the help."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,h,q,enter", "dismiss", "Back")]
    DEFAULT_CSS = """
    Detail { align: center middle; }
    Detail VerticalScroll { width: 96%; height: 90%; border: solid $accent; background: $surface; padding: 0 1; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text, markup=False)

    def action_dismiss(self, result: None = None) -> None:  # type: ignore[override]
        self.dismiss(result)


class Console(App[None]):
    """One table at a time; `client` is asked in threads."""

    TITLE = "kvctl"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    #line { height: 1; background: $panel; padding: 0 1; }
    #ask { display: none; height: 3; }
    #ask.open { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"page('{s.name}')", s.name, show=False) for n, s in enumerate(SCREENS, 1)),
        Binding("question_mark", "help", "Help"),
        Binding("slash", "ask('/')", "Filter"),
        Binding("colon", "ask(':')", "Command"),
        Binding("f", "faults", "Faults"),
        Binding("s", "sort", "Sort"),
        Binding("p", "plan", "Plan"),
        Binding("r", "again", "Refresh", show=False),
        Binding("w", "writable", "Read-only", show=False),
        Binding("x", "cancel", "Cancel run", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
        Binding("g", "cursor(-1000000)", show=False),
        Binding("G", "cursor(1000000)", show=False),
        Binding("l", "open", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, client: ControllerClient, refresh: float = REFRESH) -> None:
        super().__init__()
        self._client = client
        self._refresh = refresh
        self._screen_shown: Screen = SCREENS[0]
        self._rows: list[Row] = []
        self._shown: dict[str, Row] = {}
        self._filter = ""
        self._faults = False
        self._order = -1
        self._read_only = True
        self._asking: set[str] = set()
        self._read_at = 0.0
        self._trouble = ""

    def compose(self) -> ComposeResult:
        yield Static("", id="line", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Input(id="ask", select_on_focus=False)
        yield Footer()

    def on_mount(self) -> None:
        self.action_page(self._screen_shown.name)
        self.set_interval(self._refresh, self.ask_again)
        self.set_interval(1.0, self.say)

    # --- what is shown
    def action_page(self, name: str) -> None:
        self._screen_shown = next(screen for screen in SCREENS if screen.name == name)
        self._rows, self._shown, self._read_at, self._order = [], {}, 0.0, -1
        table = self.query_one(DataTable)
        table.clear(columns=True)
        for column in self._screen_shown.columns:
            table.add_column(column.replace("_", " ").upper(), key=column)
        table.focus()
        self.ask_again()
        self.say()

    def ask_again(self) -> None:
        """One question at a time for a page: a controller that hangs does not get a queue of them."""
        name = self._screen_shown.name
        if name not in self._asking:
            self._asking.add(name)
            self._ask(self._screen_shown)

    @work(thread=True)
    def _ask(self, screen: Screen) -> None:
        try:
            found = list(self._client.call(screen.operation, screen.request).get(screen.rows) or [])
            self.call_from_thread(self._answered, screen, found, "")
        except KvctlError as error:
            self.call_from_thread(self._answered, screen, None, f"{error.code} {error.what}")

    def _answered(self, screen: Screen, rows: list[Row] | None, trouble: str) -> None:
        self._asking.discard(screen.name)
        if screen is not self._screen_shown:
            return
        self._trouble = trouble
        if rows is not None:
            self._rows, self._read_at = rows, time.monotonic()
            self.show_rows()
        self.say()

    def show_rows(self) -> None:
        """Bring the table up to the rows: only cells that differ are touched."""
        table, screen = self.query_one(DataTable), self._screen_shown
        wanted = {key_of(screen, row): row for row in self.chosen()}
        if list(wanted) != list(self._shown):
            at = table.cursor_row
            table.clear()
            for key, row in wanted.items():
                table.add_row(*(cell(row, c) for c in screen.columns), key=key)
            if wanted:
                table.move_cursor(row=min(at, len(wanted) - 1))
        else:
            for key, row in wanted.items():
                for column in screen.columns:
                    if row.get(column) != self._shown[key].get(column):
                        table.update_cell(key, column, cell(row, column))
        self._shown = wanted

    def chosen(self) -> Sequence[Row]:
        screen, text = self._screen_shown, self._filter
        rows = [row for row in self._rows if not self._faults or row.get(screen.states) in screen.faults]
        if text:
            inverse, needle = text.startswith("!"), text.lstrip("!").lower()
            rows = [row for row in rows if (needle in whole(screen, row)) is not inverse]
        if self._order >= 0:
            column = screen.columns[self._order]
            rows = sorted(rows, key=lambda row: cell(row, column))
        return rows

    def say(self) -> None:
        """The line on top: page, what narrows it, how old it is, and what is wrong."""
        screen = self._screen_shown
        parts = [f"[{screen.name}] {len(self._shown)} of {len(self._rows)}"]
        parts += [f"filter {self._filter}"] if self._filter else []
        parts += ["faults only"] if self._faults else []
        parts += [f"sorted by {screen.columns[self._order]}"] if self._order >= 0 else []
        age = f"{time.monotonic() - self._read_at:.0f} s old" if self._read_at else "not read yet"
        parts += [age, "read-only" if self._read_only else "WRITABLE"]
        parts += [f"! {self._trouble}"] if self._trouble else []
        self.query_one("#line", Static).update("  ".join(parts))

    # --- keys
    def action_cursor(self, step: int) -> None:
        table = self.query_one(DataTable)
        table.move_cursor(row=max(0, min(table.row_count - 1, table.cursor_row + step)))

    def action_faults(self) -> None:
        self._faults = not self._faults
        self.show_rows()
        self.say()

    def action_sort(self) -> None:
        self._order = (self._order + 2) % (len(self._screen_shown.columns) + 1) - 1
        self.show_rows()
        self.say()

    def action_again(self) -> None:
        self.ask_again()

    def action_writable(self) -> None:
        self._read_only = not self._read_only
        self.say()

    def action_help(self) -> None:
        self.push_screen(Detail(HELP))

    def action_ask(self, lead: str) -> None:
        box = self.query_one("#ask", Input)
        box.value = lead
        box.add_class("open")
        box.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.remove_class("open")
        self.query_one(DataTable).focus()
        text = event.value
        if text.startswith(":"):
            self._command(text[1:].strip())
        else:
            self._filter = text.removeprefix("/").strip()
            self.show_rows()
            self.say()

    def _command(self, word: str) -> None:
        names = [screen.name for screen in SCREENS if word and screen.name.startswith(word)]
        if word in ("q", "quit"):
            self.exit()
        elif names:
            self.action_page(names[0])
        else:
            self.notify(f"no page {word!r}", severity="warning")

    def current(self) -> Row | None:
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return self._shown.get(str(key))

    def action_open(self) -> None:
        row = self.current()
        if row is not None:
            self.push_screen(Detail(described(row)))

    def on_data_table_row_selected(self, _: DataTable.RowSelected) -> None:
        self.action_open()

    def action_plan(self) -> None:
        row = self.current()
        self._plan(str(row.get("node", "")) if row else "")

    @work(thread=True)
    def _plan(self, node: str) -> None:
        try:
            plan = self._client.call("fleet.plan", PlanNamed())["plan"]
        except KvctlError as error:
            self.call_from_thread(self.push_screen, Detail(str(error)))
            return
        steps = [step for step in plan["steps"] if not node or step["node"] == node]
        self.call_from_thread(self.push_screen, Detail(plan_text(plan, steps, node)))

    def action_cancel(self) -> None:
        row = self.current()
        if self._screen_shown.name != "runs" or row is None:
            return
        if self._read_only:
            self.notify("read-only: w makes it writable", severity="warning")
        else:
            self._cancel(str(row["id"]))

    @work(thread=True)
    def _cancel(self, run: str) -> None:
        try:
            self._client.call("run.cancel", RunNamed(run))
            self.call_from_thread(self.notify, f"{run}: asked to stop")
        except KvctlError as error:
            self.call_from_thread(self.notify, f"{error.code} {error.what}", severity="error")


def key_of(screen: Screen, row: Row) -> str:
    return "\0".join(cell(row, column) for column in screen.identity)


def cell(row: Row, column: str) -> str:
    """One line of printable text: what a node said may hold anything."""
    value = row.get(column)
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return "".join(c if c.isprintable() else "?" for c in text)[:80]


def whole(screen: Screen, row: Row) -> str:
    return " ".join(cell(row, column) for column in screen.columns).lower()


def described(row: Row) -> str:
    """Everything a row has, what matters to a reader of a finding first."""
    first = [name for name in ("what", "observed", "expected", "why", "source", "remedy", "fix") if name in row]
    names = [*first, *(name for name in row if name not in first)]
    lines = [f"{name:16} {text(row[name])}" for name in names if row[name] not in (None, "", [], {})]
    return "\n".join(lines)


def text(value: Any) -> str:
    found = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else "?" for c in found)


def plan_text(plan: Row, steps: Sequence[Row], node: str) -> str:
    lines = [f"plan {plan['id']} of {plan['created']}" + (f", steps on {node}" if node else "")]
    for step in steps:
        lines.append(
            f"\n{step['id']} {step['node']} {step['role']}" + ("  NIC reset or reboot" if step["reboot"] else "")
        )
        lines += [f"  {c['subject']} {c['name']}: {c['before'] or '-'} -> {c['after'] or '-'}" for c in step["changes"]]
    return "\n".join(lines if steps else [*lines, "\nno steps: kvctl plan makes a new one"])
