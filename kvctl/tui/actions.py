"""What keys do, declared once: bindings, help, palette and the line of hints are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvctl.tui.changes import Change

SHORT = 24  # characters of a help text that shares its line
WIDE = 80  # columns from which they do
GAP = "  "
SIGNS = "!! critical  ! warning  ? not known  + fine  > at work  * marked"


@dataclass(frozen=True, slots=True)
class Action:
    keys: str  # as Textual names them, the first is shown
    name: str  # the method action_NAME, with arguments
    help: str
    shown: str = ""  # how the key is written, when that is not its name
    hint: str = ""  # a word for the line of hints
    rank: int = 0  # which hints go first when the terminal is narrow, the highest
    changes: bool = False  # hidden and refused while read-only
    first: bool = False  # done before the next key is looked at: what is typed fast behind it is text, no command

    @property
    def label(self) -> str:
        return self.shown or self.keys.split(",")[0]


def change(key: str, text: str) -> Action:
    return Action(key, f"change('{key}')", text, changes=True)


ACTIONS: tuple[Action, ...] = (
    Action("enter,l,right", "open", "what is behind a row", "enter l", "open"),
    Action("escape,h,left", "back", "back; at the top it takes the filter away", "esc h", "back"),
    Action("slash", "enter('/')", "filter; /!TEXT: rows without it", "/", "filter", rank=1, first=True),
    Action("f", "faults", "faults only", hint="faults", rank=2),
    Action("s", "sort", "sort by next column", hint="sort", rank=4),
    Action("S", "turn", "sort the other way"),
    Action("c", "columns", "choose columns", hint="columns", rank=5),
    Action("space", "mark", "mark or unmark a row", hint="mark", rank=6),
    Action("down,j", "move(1)", "down", "j down"),
    Action("up,k", "move(-1)", "up", "k up"),
    Action("pagedown,ctrl+f", "leaf(1)", "a screen down", "pgdn"),
    Action("pageup,ctrl+b", "leaf(-1)", "a screen up", "pgup"),
    Action("g,home", "move(-10000000)", "first row"),
    Action("G,end", "move(10000000)", "last row"),
    Action("tab", "other", "next table of the page"),
    Action("colon", "enter(':')", "command: a page's name, or q", ":", "command", rank=7, first=True),
    Action("r", "again", "read again now"),
    Action("L", "sign_in", "sign in again"),
    Action("w", "writable", "read-only or writable", hint="write", rank=3),
    change("x", "cancel a run, stop a move"),
    change("R", "resume a run or move"),
    change("p", "propose a tier move"),
    change("m", "carry out a move"),
    change("a", "approve what is asked"),
    change("d", "deny what is asked"),
    Action("question_mark,f1", "help", "this help", "?", "help"),
    Action("q", "quit", "leave", hint="quit"),
)


def allowed(read_only: bool) -> list[Action]:
    return [action for action in ACTIONS if not (action.changes and read_only)]


def help_text(read_only: bool, width: int) -> str:
    """Two actions a line where both are short and there is room, so that all of it fits 24 lines of 80."""
    short: list[str] = []
    long: list[str] = []
    for action in allowed(read_only):
        (short if len(action.help) <= SHORT else long).append(f"{action.label:8} {action.help}")
    if width >= WIDE:
        half = (len(short) + 1) // 2
        both = zip(short[:half], [*short[half:], ""], strict=False)
        short = [f"{left:{SHORT + 10}} {right}".rstrip() for left, right in both]
    tail = ["1 to 8   the pages", "ctrl+p   all of this by name", SIGNS]
    return "\n".join([*short, *long, *tail])


def hints(read_only: bool, changes: Sequence[Change], width: int) -> str:
    """The keys that do something here; as many as there is room for, the most used ones longest."""
    shown = [(f"{action.label.split()[0]} {action.hint}", action.rank) for action in ACTIONS if action.hint]
    if not read_only:
        shown[-2:-2] = [(f"{change.key} {change.name}", 0) for change in changes]
    while len(GAP.join(text for text, _ in shown)) > width - 2 and max(rank for _, rank in shown):
        shown.remove(max(shown, key=lambda one: one[1]))
    return f" {GAP.join(text for text, _ in shown)}".ljust(width)
