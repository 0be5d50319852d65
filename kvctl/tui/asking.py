"""Questions to the controller, each in a thread of its own, so that one that does not answer stops nothing else.

Threads are daemons, because a process that ends must not wait for a controller that is stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from textual.message import Message

from kvctl.client.controller import ControllerClient, Direct
from kvctl.tui.changes import told
from kvctl.tui.tables import Ask
from kvctl.types.errors import KvctlError

GIVE_UP = 10.0  # seconds until a question is asked again although the last one is still out
SHARE, SHARE_HERE = 5.0, 12.0  # how long an answer is good for, in times of what it took; here it takes this core
MOST = 6  # questions that are out; a hung controller gets no more
Local = Mapping[str, Callable[[Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one part of a question came to: a value, or why there is none, with the code of that and what to do."""

    value: Any = None
    trouble: str = ""
    code: str = ""
    fix: str = ""


class Asked(Message):
    """Answers arrived. `about`: whatever the one who asked wants to know them by; `began`: time.time()."""

    def __init__(self, about: Any, number: int, began: float, answers: Sequence[Answer]) -> None:
        super().__init__()
        self.about = about
        self.number = number
        self.began = began
        self.answers = answers


@dataclass(slots=True)
class Asking:
    """`local`: operations that this machine does itself."""

    client: ControllerClient
    deliver: Callable[[Message], Any]
    local: Local = field(default_factory=dict)
    _count: int = 0
    _out: set[threading.Thread] = field(default_factory=set)
    _books: Any = None

    def __post_init__(self) -> None:
        # In this process one call at a time may have the books open.
        self._books = threading.Lock() if isinstance(self.client, Direct) else nullcontext()

    @property
    def share(self) -> float:
        return SHARE_HERE if isinstance(self.client, Direct) else SHARE

    def ask(self, about: Any, questions: Sequence[Callable[[Ask], Any]]) -> int:
        """Put questions; the number of the Asked that will bring the answers, or 0: too many are out."""
        self._out = {thread for thread in self._out if thread.is_alive()}
        if len(self._out) >= MOST:
            return 0
        self._count += 1
        thread = threading.Thread(target=self._run, args=(about, self._count, questions), daemon=True)
        self._out.add(thread)
        thread.start()
        return self._count

    def forget(self) -> None:
        """Questions to somebody who is not there any more hold up nothing."""
        self._out.clear()

    def finish(self, seconds: float) -> None:
        """Give calls that are out this long to end, so that no books are left open half way."""
        end = time.monotonic() + seconds
        for thread in self._out:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, about: Any, number: int, questions: Sequence[Callable[[Ask], Any]]) -> None:
        began = time.time()
        answers = [self._answer(question) for question in questions]
        self.deliver(Asked(about, number, began, answers))

    def _answer(self, question: Callable[[Ask], Any]) -> Answer:
        try:
            return Answer(question(self._call))
        except KvctlError as error:
            return Answer(trouble=told(error), code=error.code, fix=error.fix)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return Answer(trouble=f"KV-TUI-001: an answer of another shape: {type(error).__name__} {error}")

    def _call(self, name: str, request: Any) -> dict[str, Any]:
        if name in self.local:
            return self.local[name](request)
        with self._books:
            return self.client.call(name, request)
