"""Where a reader is: of each page the levels that were opened, with the rows and the age of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvctl.tui import audit
from kvctl.tui.asking import GIVE_UP, Answer
from kvctl.tui.narrow import Narrow
from kvctl.tui.pages import PAGES
from kvctl.tui.tables import Ask, Level, Row
from kvctl.tui.words import age

SLOW = 3.0  # seconds without an answer until it is said
SIGNED_OUT = "KV-API-010"


@dataclass(slots=True, eq=False)
class Frame:
    """One level with what was read for it. Times are time.time()."""

    level: Level
    rows: list[Sequence[Row]] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)  # a table each; "" when it was read
    narrow: list[Narrow] = field(default_factory=list)
    text: str = ""
    read_at: float | None = None  # when the question was put that brought all that is shown
    asked_at: float = 0.0
    took: float = 0.0
    asking: int = 0  # number of the question that is out
    by_itself: bool = True
    signed_out: bool = False
    focus: int = 0

    def __post_init__(self) -> None:
        self.rows = [() for _ in self.level.tables]
        self.trouble = ["" for _ in self.level.tables] or [""]
        self.narrow = [Narrow() for _ in self.level.tables]

    def questions(self) -> list[Callable[[Ask], Any]]:
        if self.level.text is not None:
            return [self.level.text]
        return [table.read_rows for table in self.level.tables]

    def due(self, now: float, every: float, share: float) -> bool:
        """Whether it is time to read it; `share`: how many times as long as an answer took is waited at least."""
        if self.asking:
            return now - self.asked_at > GIVE_UP
        return self.by_itself and now - self.asked_at >= max(every, share * self.took)

    def take(self, began: float, answers: Sequence[Answer]) -> None:
        """What could not be read stays as it was, and its age with it."""
        self.asking, self.took = 0, time.time() - began
        self.trouble = [answer.trouble for answer in answers]
        self.signed_out = any(answer.code == SIGNED_OUT for answer in answers)
        for n, answer in enumerate(answers):
            if answer.trouble:
                continue
            if self.level.text is not None:
                self.text = answer.value
            else:
                self.rows[n] = answer.value
                self.by_itself = not audit.recorded([row.doc for row in answer.value[:1]])
        if not any(self.trouble):
            self.read_at = began

    def late(self, now: float) -> bool:
        return bool(self.asking) and now - self.asked_at > SLOW

    def freshness(self, now: float, dead: str) -> str:
        """How old what is shown is; since when, once nobody keeps it fresh any more."""
        if self.read_at is None:
            return "not read yet"
        if dead or any(self.trouble) or self.late(now):
            return f"stale since {time.strftime('%H:%M:%S', time.localtime(self.read_at))}"
        return f"data {age(now - self.read_at)} old"

    def problem(self, now: float, dead: str) -> str:
        """What a reader must know of this data."""
        if dead:
            return f"!! KV-CTL-032: the controller does not answer: {dead}"
        if self.signed_out:
            return "!! you are not signed in any more: L signs in again"
        if said := next((trouble for trouble in self.trouble if trouble), ""):
            return f"!! {said}"
        if self.late(now):
            return f"!! no answer for {age(now - self.asked_at)}"
        return "" if self.by_itself else "reading is on record here: r reads again"


@dataclass(slots=True)
class Trail:
    """The pages, each with its levels, and which page is on the screen."""

    page: str = "fleet"
    levels: dict[str, list[Frame]] = field(default_factory=dict)

    @property
    def frames(self) -> list[Frame]:
        return self.levels.setdefault(self.page, [Frame(PAGES[self.page])])

    @property
    def here(self) -> Frame:
        return self.frames[-1]

    def open(self, level: Level) -> None:
        self.frames.append(Frame(level))

    def back(self) -> bool:
        if len(self.frames) == 1:
            return False
        self.frames.pop()
        return True

    def crumbs(self) -> str:
        return " > ".join(frame.level.crumb for frame in self.frames)
