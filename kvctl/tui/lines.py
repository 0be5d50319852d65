"""The lines around a page."""

from __future__ import annotations

from textual.widgets import Static

from kvctl.tui.frames import Trail


def top(trail: Trail, now: float, width: int, read_only: bool) -> str:
    """Where the reader is, how old the data is, and whether changes are allowed. The way there is cut first."""
    right = f"{trail.here.freshness(now)}  {'read-only' if read_only else 'WRITABLE'}"
    left, room = f"kvctl  {trail.crumbs()}", max(width - len(right) - 2, 1)
    if len(left) > room:
        left = f"~{left[len(left) - room + 1 :]}"
    return f"{left:{room}}  {right}"


def put(line: Static, text: str) -> None:
    """Draw a line only when it changed."""
    if str(line.content) != text:
        line.update(text)
