"""What keys do, declared once: bindings, help, palette and the line of hints are made from it."""

from dataclasses import dataclass

SHORT = 24  # characters of a help text that shares its line


@dataclass(frozen=True, slots=True)
class Action:
    keys: str  # as Textual names them, the first is shown
    name: str  # the method action_NAME, with arguments
    help: str
    shown: str = ""  # how the key is written, when that is not its name
    hint: str = ""  # a word for the line of hints
    changes: bool = False  # hidden and refused while read-only

    @property
    def label(self) -> str:
        return self.shown or self.keys.split(",")[0]


ACTIONS: tuple[Action, ...] = (
    Action("question_mark,f1", "help", "this help", "?", "help"),
    Action("1", "page('fleet')", "fleet"),
    Action("2", "page('tenants')", "tenants, tier moves, pending approvals"),
    Action("3", "page('runs')", "runs"),
    Action("4", "page('audit')", "audit: the newest events"),
    Action("enter,l,right", "open", "what is behind a row", "enter l", "open"),
    Action("escape,h,left", "back", "back; at the top it takes the filter away", "esc h", "back"),
    Action("down,j", "move(1)", "down", "j down"),
    Action("up,k", "move(-1)", "up", "k up"),
    Action("pagedown,ctrl+f", "leaf(1)", "a screen down", "pgdn"),
    Action("pageup,ctrl+b", "leaf(-1)", "a screen up", "pgup"),
    Action("g,home", "move(-10000000)", "first row"),
    Action("G,end", "move(10000000)", "last row"),
    Action("tab", "other", "next table of the page"),
    Action("slash", "enter('/')", "filter; /!TEXT: rows without it", "/", "filter"),
    Action("colon", "enter(':')", "command: :fleet :tenants :runs :audit :findings :q", ":", "cmd"),
    Action("f", "faults", "faults only", hint="faults"),
    Action("s", "sort", "sort by next column"),
    Action("S", "turn", "sort the other way"),
    Action("c", "columns", "choose columns"),
    Action("space", "mark", "mark or unmark a row"),
    Action("r", "again", "read again now"),
    Action("w", "writable", "read-only or writable", hint="write"),
    Action("x", "cancel", "cancel the run, or those that are marked", hint="cancel", changes=True),
    Action("q", "quit", "leave", hint="quit"),
)


def allowed(read_only: bool) -> list[Action]:
    return [action for action in ACTIONS if not (action.changes and read_only)]


def help_text(read_only: bool) -> str:
    """Two actions a line where both are short, so that all of it fits 24 lines."""
    short: list[str] = []
    long: list[str] = []
    for action in allowed(read_only):
        (short if len(action.help) <= SHORT else long).append(f"{action.label:8} {action.help}")
    half = (len(short) + 1) // 2
    pairs = [f"{left:{SHORT + 10}} {right}" for left, right in zip(short[:half], [*short[half:], ""], strict=False)]
    tail = ["ctrl+p   all of this by name", "", "!! critical   ! warning   ? not known   + fine   > at work   * marked"]
    return "\n".join([*pairs, *long, *tail])


def hints(read_only: bool) -> str:
    return "  ".join(f"{action.label.split()[0]} {action.hint}" for action in allowed(read_only) if action.hint)
