"""A real vLLM whose store fails, before a request and in the middle of one: the answer, its cost, and what is told."""

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.wire import PutStatus
from tests.engine.behind import Behind, until
from tests.engine.serving import BLOCK, ROW, Answered, prompt

pytestmark = pytest.mark.engine

LONG, MIDDLE, SHORT = prompt(8192, "long"), prompt(4096, "middle"), prompt(1024, "short")
CHUNKS = 6  # of a request that have come when a fault begins in its middle
SHARE = 0.25  # of the predicted recompute that may be lost: the tier's fifth, and the steps in which an engine waits
COSTS = ("wait_seconds", "saved_seconds", "recompute_seconds")


@dataclass
class Asked:
    answer: Answered
    lost: float  # seconds waited beyond what was saved, as a share of the predicted recompute
    reasons: frozenset[str]  # of misses
    failed: float  # chunks that did not come or did not open


class Ward(Behind):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cold: dict[int, Answered] = {}

    def start(self) -> None:
        self.engine.start()
        for ids in (LONG, MIDDLE, SHORT):
            self.cold[len(ids)] = self.engine.complete(ids, self.site.body())
        until(lambda: self.chunks >= (len(LONG) + len(MIDDLE) + len(SHORT)) // BLOCK)

    @property
    def up(self) -> bool:
        self.nudge()
        return self.engine.metric("kvctl_tier_store_up{") == 1

    def nudge(self) -> None:
        """The engine tells what it counted with its next step."""
        self.engine.complete(prompt(16), {}, 1)

    def told(self) -> Mapping[str, float]:
        self.nudge()
        names = ("wait_seconds", "saved_seconds", "recompute_seconds", "failed_chunks", "defects")
        found = {name: self.engine.metric(f"kvctl_tier_{name}_total{{") for name in names}
        # Not `absent`: a request that makes the engine tell is too short for a chunk.
        reasons = ("unreachable", "late", "slower", "failed", "defect")
        return found | {why: self.engine.metric(f'kvctl_tier_misses_total{{reason="{why}"}}') for why in reasons}

    def ask(self, ids: list[int]) -> Asked:
        """A prompt that the store has and the engine does not, or not any more; its answer is the right one."""
        self.engine.forget()
        before = self.told()
        answer = self.engine.complete(ids, self.site.body())
        assert answer.tokens == self.cold[len(ids)].tokens
        grown = {name: number - before[name] for name, number in self.told().items()}
        assert grown["defects"] == 0
        lost = (grown["wait_seconds"] - grown["saved_seconds"]) / grown["recompute_seconds"]
        reasons = frozenset(name for name, number in grown.items() if number and name not in COSTS)
        return Asked(answer, lost, reasons - {"failed_chunks"}, grown["failed_chunks"])

    def opens(self) -> None:
        """The store is left alone after a few requests, and then costs nothing."""
        for _ in range(12):
            if not self.up:
                break
            self.ask(SHORT)
        assert not self.up
        assert self.ask(SHORT).lost <= SHARE

    def heals(self) -> None:
        """What the store has is loaded again, and the store is asked."""
        until(lambda: self.ask(SHORT).answer.cached == len(SHORT))
        assert self.up

    def restart(self) -> None:
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait()
        self.again()

    def again(self) -> None:
        self.daemon.events.clear()
        self.daemon.start()


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    made = Ward(tmp_path_factory.mktemp("ward"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_a_store_that_stopped_before(ward: Ward):
    ward.daemon.stop()
    asked = ward.ask(MIDDLE)
    assert (asked.answer.cached, asked.reasons) == (0, {"unreachable"})
    assert asked.lost <= SHARE
    ward.opens()
    ward.again()
    ward.heals()


def test_a_store_that_stops_in_the_middle(ward: Ward):
    ward.proxy.after(CHUNKS, ward.daemon.stop)
    asked = ward.ask(LONG)
    ward.proxy.clear()
    assert 0 < asked.answer.cached < len(LONG)
    assert "failed" in asked.reasons
    assert asked.lost <= SHARE
    ward.again()
    ward.heals()


def test_a_store_that_hangs_before(ward: Ward):
    ward.daemon.signal(signal.SIGSTOP)
    try:
        asked = ward.ask(MIDDLE)
        assert asked.answer.cached == 0
        assert asked.reasons <= {"late", "unreachable"}
        assert 0 < asked.lost <= SHARE
        ward.opens()
    finally:
        ward.daemon.signal(signal.SIGCONT)
    ward.heals()


def test_a_store_that_hangs_in_the_middle(ward: Ward):
    ward.proxy.after(CHUNKS, lambda: ward.daemon.signal(signal.SIGSTOP))
    try:
        asked = ward.ask(LONG)
    finally:
        ward.proxy.clear()
        ward.daemon.signal(signal.SIGCONT)
    assert asked.answer.cached < len(LONG)
    assert "failed" in asked.reasons
    assert asked.failed > 0
    assert asked.lost <= SHARE
    ward.heals()


def test_a_store_that_restarted_before(ward: Ward):
    """It may be left alone for a moment still, when it was asked while it was away."""
    ward.restart()
    asked = ward.ask(MIDDLE)
    assert (asked.answer.cached, asked.reasons) in ((len(MIDDLE), frozenset()), (0, {"unreachable"}))
    assert asked.lost <= SHARE
    ward.heals()


def test_a_store_that_restarts_in_the_middle(ward: Ward):
    ward.proxy.after(CHUNKS, ward.restart)
    asked = ward.ask(LONG)
    ward.proxy.clear()
    assert asked.answer.cached < len(LONG)
    assert "failed" in asked.reasons
    assert asked.lost <= SHARE
    ward.heals()


def test_bits_that_flip_before(ward: Ward):
    ward.proxy.flips = True
    asked = ward.ask(MIDDLE)
    assert (asked.answer.cached, asked.reasons) == (0, {"failed"})
    assert asked.failed > 0
    assert asked.lost <= SHARE
    ward.opens()
    ward.proxy.clear()
    ward.heals()


def test_bits_that_flip_in_the_middle(ward: Ward):
    ward.proxy.after(CHUNKS, lambda: setattr(ward.proxy, "flips", True))
    asked = ward.ask(MIDDLE)
    ward.proxy.clear()
    assert asked.answer.cached < len(MIDDLE)
    assert "failed" in asked.reasons
    assert asked.failed > 0
    assert asked.lost <= SHARE
    ward.heals()


def test_a_store_that_becomes_full_and_is(ward: Ward):
    """Nothing may leave it: what was stored is under a hold."""
    holds = [{"id": "h1", "tenant": name} for name in ward.site.leases]
    assert ward.daemon.admin("POST", "/v1/holds", {"version": 1, "holds": holds})[0] == 200
    fill(ward, room=16)
    in_the_middle, before = sent(ward, prompt(4096, "becomes")), sent(ward, prompt(4096, "is"))
    assert 0 < in_the_middle[0] < 4096 // BLOCK
    assert before == (0, 4096 // BLOCK)
    asked = ward.ask(MIDDLE)
    assert (asked.answer.cached, asked.reasons) == (len(MIDDLE), frozenset())
    assert ward.up
    assert ward.daemon.admin("POST", "/v1/holds", {"version": 2, "holds": []})[0] == 200


def sent(ward: Ward, ids: list[int]) -> tuple[float, float]:
    """(chunks that the store took, chunks that it refused) of a prompt, which is answered rightly all the same."""
    names = ("kvctl_tier_stored_chunks_total{", 'kvctl_tier_unstored_chunks_total{reason="refused"}')
    before = [ward.engine.metric(name) for name in names]
    ward.engine.forget()
    answer = ward.engine.complete(ids, ward.site.body())
    found = (0.0, 0.0)

    def all_are() -> bool:
        nonlocal found
        ward.nudge()
        stored, refused = (ward.engine.metric(name) - seen for name, seen in zip(names, before, strict=True))
        found = (stored, refused)
        return sum(found) >= len(ids) // BLOCK

    until(all_are)
    assert ward.engine.complete(ids, ward.site.body()).tokens == answer.tokens
    return found


def fill(ward: Ward, room: int) -> None:
    """Take all of the store's room but that for so many chunks."""
    lease = ward.site.leases["globex"]
    capacity = ward.daemon.metric('kvstored_tier_capacity_bytes{tier="flash"}')
    with StoreClient(ward.daemon.unix, ward.daemon.connector, ward.daemon.identity.public) as client:
        while capacity - ward.daemon.metric('kvstored_tier_used_bytes{tier="flash"}') > (room + 1) * ROW:
            assert client.put(lease, os.urandom(32), bytes(ROW)) is PutStatus.STORED


def test_a_store_that_is_slow_before(ward: Ward):
    ward.proxy.rate = 1e6
    asked = ward.ask(MIDDLE)
    assert asked.answer.cached < len(MIDDLE)
    assert asked.reasons & {"failed", "late", "slower"}
    assert asked.lost <= SHARE
    for _ in range(4):
        asked = ward.ask(SHORT)
        assert asked.lost <= SHARE
    assert asked.answer.cached < len(SHORT) or not ward.up
    ward.proxy.clear()
    ward.heals()


def test_a_store_that_becomes_slow_in_the_middle(ward: Ward):
    ward.proxy.after(CHUNKS, lambda: setattr(ward.proxy, "rate", 1e6))
    asked = ward.ask(LONG)
    ward.proxy.clear()
    assert asked.answer.cached < len(LONG)
    assert asked.reasons & {"failed", "late"}
    assert asked.lost <= SHARE
    ward.heals()
