"""What lies over a page for a moment: text, a question, a form, a choice of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, SelectionList, Static

from kvctl.tui.changes import Field
from kvctl.tui.narrow import Narrow
from kvctl.tui.tables import Table

STEPS: list[BindingType] = [
    Binding("j,down", "step(1)", show=False), Binding("k,up", "step(-1)", show=False),
    Binding("pagedown,ctrl+f", "step(10)", show=False), Binding("pageup,ctrl+b", "step(-10)", show=False),
]  # fmt: skip


class Message(ModalScreen[None]):
    """A text to read, such as the help or why something was refused."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h,enter,question_mark,f1", "leave", "back"), *STEPS,
    ]  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll():
                yield Static(self._text, markup=False)
            yield Static("esc back   j k move", classes="foot", markup=False)

    def action_step(self, step: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)

    def action_leave(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Yes needs its own key; every other way out is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "say(True)", "yes"), Binding("n,escape,q,enter", "say(False)", "no"), *STEPS,
    ]  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll():
                yield Static(self._text, markup=False)
            yield Static("y yes   n no   j k move", classes="foot", markup=False)

    def action_step(self, step: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)

    def action_say(self, yes: bool) -> None:
        self.dismiss(yes)


class Form(ModalScreen[dict[str, str]]):
    """Fields, one a line; enter goes on, and the last enter gives what was typed. None: left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back"), Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]  # fmt: skip

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        super().__init__()
        self._title, self._fields = name, fields

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self._title, markup=False)
            for field in self._fields:
                choices = f" ({', '.join(field.choices)})" if field.choices else ""
                yield Static(f"{field.label}{choices}:", markup=False)
                yield Input(field.value, password=field.secret, select_on_focus=False, id=f"f-{field.name}")
            yield Static("", classes="foot", id="foot", markup=False)

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        self._say("enter goes on   esc leaves")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        inputs = list(self.query(Input))
        at = inputs.index(event.input)
        field = self._fields[at]
        if field.choices and event.value not in field.choices:
            self._say(f"! one of {', '.join(field.choices)}")
        elif at + 1 < len(inputs):
            inputs[at + 1].focus()
        else:
            self.dismiss({f.name: i.value.strip() for f, i in zip(self._fields, inputs, strict=True)})

    def _say(self, text: str) -> None:
        self.query_one("#foot", Static).update(text)

    def action_leave(self) -> None:
        self.dismiss(None)


class Columns(ModalScreen[None]):
    """Columns of a table; space shows or hides one, and the table follows at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c,q,h", "leave", "back"),
        Binding("j", "step(1)", show=False), Binding("k", "step(-1)", show=False),
    ]  # fmt: skip

    def __init__(self, table: Table, narrow: Narrow, changed: Callable[[], None]) -> None:
        super().__init__()
        self._table, self._narrow, self._changed = table, narrow, changed

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(f"columns of {self._table.name}", markup=False)
            yield SelectionList(
                *((column.name, column.name, column.name not in self._narrow.hidden) for column in self._table.columns)
            )
            yield Static("space shows or hides one   esc back", classes="foot", markup=False)

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[str]) -> None:
        names = [column.name for column in self._table.columns]
        chosen = event.selection_list.selected or names[:1]  # a table without a column shows nothing at all
        self._narrow.hidden = set(names) - set(chosen)
        self._changed()

    def action_step(self, step: int) -> None:
        choice = self.query_one(SelectionList)
        move = choice.action_cursor_down if step > 0 else choice.action_cursor_up
        move()

    def action_leave(self) -> None:
        self.dismiss(None)
