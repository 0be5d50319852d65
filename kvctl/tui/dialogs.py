"""What lies over a page for a moment: text, a question, a choice of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static

from kvctl.tui.narrow import Narrow
from kvctl.tui.tables import Table


class Help(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h,enter,question_mark,f1", "leave", "back"),
        Binding("j", "step(1)", show=False), Binding("k", "step(-1)", show=False),
    ]  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Static(self._text, markup=False)

    def action_step(self, step: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)

    def action_leave(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Yes needs its own key; every other way out is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "say(True)", "yes"), Binding("n,escape,q,enter", "say(False)", "no"),
    ]  # fmt: skip

    def __init__(self, question: str, names: list[str]) -> None:
        super().__init__()
        self._text = "\n".join([question, "", *(f"  {name}" for name in names), "", "y yes    n no"])

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Static(self._text, markup=False)

    def action_say(self, yes: bool) -> None:
        self.dismiss(yes)


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
            yield Static(f"columns of {self._table.name}: space shows or hides one, esc goes back", markup=False)
            yield SelectionList(
                *((column.name, column.name, column.name not in self._narrow.hidden) for column in self._table.columns)
            )

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
