"""Inter-token latency of streams while other requests come in: with their saves and restores, and without.

Both sides get the same requests. With: new contexts are stored, known ones come from the store. Without: nothing is
stored, and known ones come from the engine's host tier. What differs is the tier's own work.

Windows with and without alternate, without at both ends: each with is compared with the mean of the two beside it, so
that a load which rises or falls evenly is in neither's favour.
"""

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle

from kvctl.bench.hosts import say
from kvctl.bench.store.figures import percentile
from kvctl.bench.ttft.cells import SESSION_TOKENS
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.engine import Engine
from kvctl.bench.ttft.restore import DOMAIN, unsound
from kvctl.bench.ttft.site import Site
from kvctl.fleet.lab.serving_demo import prompt

STREAMS = 2
STREAM_TOKENS = 128  # of a stream's prompt: less than a chunk
NEW, KNOWN, RECOMPUTED = "new", "known", "recomputed"  # what a request turned out to be
RESTORED = 24  # contexts that are restored in turn: more than the host tier has rows, so that it has forgotten each
AT_HAND = 4  # contexts that the host tier keeps
EVERY = 0.4  # seconds from one other request to the next


class Traffic(StrEnum):
    BOTH = "saves and restores"
    RESTORES = "restores alone"


@dataclass(frozen=True, slots=True)
class Phase:
    """Gaps between tokens of all streams, while `requests` others came in.

    `known` of these were of contexts that nobody had to compute, and `recomputed` of those were computed all the same.
    """

    traffic: Traffic
    stored: bool  # with saves and restores
    p50: float
    p99: float
    count: int
    requests: int
    known: int
    recomputed: int


@dataclass(slots=True)
class Between:
    site: Site
    engine: Engine
    tokens: int  # of a stream
    phases: list[Phase] = field(default_factory=list)
    failed: str = ""
    _known: list[list[int]] = field(default_factory=list)
    _at_hand: list[list[int]] = field(default_factory=list)

    def run(self, windows: int, traffics: Sequence[Traffic], clock: Clock) -> None:
        """So many windows with, of each kind of traffic; fewer, but one at least, when the time is over."""
        self._prepare()
        for at, traffic in enumerate(traffics):
            mine = clock.share(1, len(traffics) - at - 1)
            self.phases.append(self._phase(traffic, stored=False))
            for turn in range(windows):
                if mine.over and turn:
                    break
                self.phases.append(self._phase(traffic, stored=True))
                self.phases.append(self._phase(traffic, stored=False))

    def _prepare(self) -> None:
        self._known = [prompt(SESSION_TOKENS, secrets.token_hex(8)) for _ in range(RESTORED)]
        self._at_hand = [prompt(SESSION_TOKENS, secrets.token_hex(8)) for _ in range(AT_HAND)]
        wanted = self.site.chunks((self.site.main,)) + RESTORED
        for ids in self._known:
            self.engine.complete(ids, self.site.body(DOMAIN), 1)
        self.site.await_chunks((self.site.main,), wanted)

    def _phase(self, traffic: Traffic, *, stored: bool) -> Phase:
        if not stored:
            for ids in self._at_hand:
                self.engine.complete(ids, {}, 1)
        prompts = [prompt(STREAM_TOKENS, secrets.token_hex(8)) for _ in range(STREAMS)]
        with self._others(traffic, stored) as told:
            answers = self.engine.at_once(prompts, {}, self.tokens)
        gaps = sorted(gap for answer in answers for gap in answer.gaps)
        p50, p99 = percentile(gaps, 0.50), percentile(gaps, 0.99)
        if p50 is None or p99 is None:
            raise unsound("a stream of one token")
        known, recomputed = told.count(KNOWN) + told.count(RECOMPUTED), told.count(RECOMPUTED)
        if recomputed > known / 2:
            raise unsound(f"{traffic}: of {known} known contexts {recomputed} were computed")
        made = Phase(traffic, stored, p50, p99, len(gaps), len(told), known, recomputed)
        say(f"  {traffic}, {'with' if stored else 'without'}: p99 {1000 * made.p99:.0f} ms, {len(told)} requests")
        return made

    @contextmanager
    def _others(self, traffic: Traffic, stored: bool) -> Iterator[list[str]]:
        """Requests at a steady pace while the block runs. KV-BENCH-033 when one was not what it is to be."""
        stop, told, problems = threading.Event(), list[str](), list[BaseException]()

        def work() -> None:
            due = time.monotonic()
            repeats = cycle(self._known if stored else self._at_hand)
            news = cycle([True, False] if traffic is Traffic.BOTH else [False])
            try:
                while not stop.wait(max(due - time.monotonic(), 0)):
                    due = max(due + EVERY, time.monotonic())
                    new = next(news)
                    ids = prompt(SESSION_TOKENS, secrets.token_hex(8)) if new else next(repeats)
                    answer = self.engine.complete(ids, self.site.body(DOMAIN) if stored else {}, 1)
                    if new and answer.cached:
                        raise unsound(f"{traffic}: {answer.cached} tokens of a new context were not computed")
                    told.append(NEW if new else KNOWN if answer.cached == SESSION_TOKENS else RECOMPUTED)
            except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
                problems.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield told
        finally:
            stop.set()
            thread.join()
        if problems:
            raise problems[0]

    def compared(self, traffic: Traffic) -> list[tuple[float, float]]:
        """p99 of each window with, and the mean of the p99 of the two without beside it; none when one failed."""
        mine = [phase for phase in self.phases if phase.traffic is traffic]
        return [
            (one.p99, (before.p99 + after.p99) / 2)
            for before, one, after in zip(mine, mine[1:], mine[2:], strict=False)
            if one.stored and not self.failed
        ]
