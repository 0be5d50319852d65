"""The lines around a page."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from kvctl.tui.frames import Frame, Trail
from kvctl.tui.grid import Grid
from kvctl.tui.pages import PAGES

BAD = Style.parse("bold red")
HERE = Style.parse("bold reverse")
DIM = Style.parse("dim")
SPACE = 2


def top(left: str, trail: Trail, now: float, width: int, read_only: bool, dead: str) -> Content:
    """Which site and who, how old the data is, and whether changes are allowed. The left is cut first."""
    right = f"{trail.here.freshness(now, dead)}  {'read-only' if read_only else 'WRITABLE'} "
    return Content(ends(f" {left}", right, width))


def tabs(page: str, width: int) -> Content:
    """The pages with their digits; on a narrow screen only this one has its name."""
    names = [f"{n} {name}" for n, name in enumerate(PAGES, 1)]
    if 1 + sum(map(len, names)) + SPACE * (len(names) - 1) > width:
        names = [text if text[2:] == page else text[:1] for text in names]
    parts = [Content.styled(text, HERE if text[2:] == page else DIM) for text in names]
    return Content(" ") + Content(" " * SPACE).join(parts)


def title(name: str, grid: Grid | None, count: str, width: int, marked: bool) -> Content:
    """What a table or a text is, how many of what, and how it is narrowed."""
    right = ""
    if grid is not None:
        lost = f"{grid.left_out} column{'s' if grid.left_out > 1 else ''} left out" if grid.left_out else ""
        right = "  ".join(part for part in [*grid.narrow.said(), lost, grid.position] if part)
    room = width - len(right) - len(name) - 6  # a mark, a space at the end, and gaps
    left = f"{'>' if marked else ' '}{name}" + (f"  {count[:room]}" if count and room > SPACE else "")
    return Content(ends(left, f"{right} ", width))


def message(frame: Frame, notice: str, now: float, dead: str) -> Content:
    problem = frame.problem(now, dead)
    text = f" {'  '.join(part for part in (problem, notice) if part)}"
    return Content.styled(text, BAD) if problem.startswith("!!") or notice.startswith("!!") else Content(text)


def ends(left: str, right: str, width: int) -> str:
    """Both in one line. The left one is cut at its front, where it says least."""
    room = max(width - len(right) - SPACE, 1)
    if len(left) > room:
        left = f"~{left[len(left) - room + 1 :]}"
    return f"{left:{room}}{' ' * SPACE}{right}"


def put(line: Static, text: Content) -> None:
    """Draw a line only when it changed."""
    shown = line.content
    if not (isinstance(shown, Content) and shown.plain == text.plain and shown.spans == text.spans):
        line.update(text, layout=False)
