"""What is the same for every contestant: who does which chunk, when it ends, what is counted."""

import threading
import time
from collections.abc import Callable

import pytest

from kvctl.bench.store.cells import Op
from kvctl.bench.store.client import Client, Race, endless
from kvctl.bench.store.jobs import Chunk, Job, Setup, chunk


class Recorded:
    """A lane that remembers what it was asked for."""

    seal_cpu: float | None = 0.0

    def __init__(self, act: Callable[[Chunk], None] = lambda chunk: None, batch: int = 1) -> None:
        self.seen: list[Chunk] = []
        self.calls = 0
        self.batch = batch
        self._act = act

    def get(self, *chunks: Chunk) -> None:
        self.calls += 1
        for one in chunks:
            self._act(one)
            self.seen.append(one)

    put = get

    def close(self) -> None:
        return


def job(limit: int = 100, seconds: float = 60.0, op: Op = Op.GET, kind: str = "measure", turn: int = 1) -> Job:
    return Job(kind, op, 4096, 3, limit, seconds, 8, turn, ())


def run(lanes: list[Recorded], one: Job) -> Race:
    race = Race(one, lanes, [chunk("x", 4096, at) for at in range(one.limit)])
    race.run()
    return race


def test_every_chunk_is_done_once_by_one_lane() -> None:
    lanes = [Recorded() for _ in range(3)]
    race = run(lanes, job(limit=300))
    done = [one for lane in lanes for one in lane.seen]
    assert sorted(one.place for one in done) == list(range(300))
    assert [len(times) for times in race.times] == [len(lane.seen) for lane in lanes]


def test_a_lane_of_batches_does_every_chunk_once_and_has_a_time_for_each() -> None:
    lanes = [Recorded(batch=8) for _ in range(3)]
    race = run(lanes, job(limit=301))
    assert sorted(one.place for lane in lanes for one in lane.seen) == list(range(301))
    assert sum(lane.calls for lane in lanes) in range(
        38, 41
    )  # 37 whole batches, and what is left by one to three lanes
    assert sum(map(len, race.times)) == 301


def test_when_the_time_is_up_what_was_done_has_no_gap() -> None:
    """The chunks that a sample wrote are the first ones of its list: these are removed after it."""
    pause = threading.Event()
    lanes = [Recorded(lambda chunk: (pause.wait(0.002), None)[1]) for _ in range(3)]
    begun = time.monotonic()
    run(lanes, job(limit=100_000, seconds=0.1))
    assert time.monotonic() - begun < 30
    done = sorted(one.place for lane in lanes for one in lane.seen)
    assert done == list(range(len(done)))
    assert 0 < len(done) < 100_000


def test_an_operation_that_fails_fails_the_sample() -> None:
    def fail(chunk: Chunk) -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        run([Recorded(), Recorded(fail), Recorded()], job(limit=100_000))


def test_latencies_are_those_of_the_operations() -> None:
    pause = threading.Event()
    race = run([Recorded(lambda chunk: (pause.wait(0.01), None)[1])], job(limit=3))
    assert all(0.009 < seconds < 5 for times in race.times for seconds in times)


def test_no_chunk_of_the_set_comes_back_before_all_others_came() -> None:
    order = endless(4096, 8)
    first, second = [[next(order).place for _ in range(8)] for _ in range(2)]
    assert sorted(first) == list(range(8))
    assert first == second != list(range(8))


def test_a_sample_goes_through_memory_and_is_counted() -> None:
    client = Client(Setup("memory", {}, 8192, 3, 1 << 20, "00" * 16, "00" * 32))
    taken = client.take(job(limit=50))
    assert (taken.ops, taken.bytes) == (50, 50 * 4096)
    assert taken.server_cpu is None
    assert taken.seal_cpu == 0.0
    assert taken.p50 is not None
    assert taken.p99 is not None
    assert 0 < taken.p50 <= taken.p99 <= taken.wall
    client.close()


def test_new_chunks_are_new_in_every_round_and_cell() -> None:
    client = Client(Setup("memory", {}, 8192, 1, 1 << 20, "00" * 16, "00" * 32))
    rounds = [
        {one.key for one in client._names(job(op=op, turn=turn))} for op in (Op.PUT, Op.DURABLE) for turn in (1, 2)
    ]
    assert len(set().union(*rounds)) == sum(map(len, rounds)) == 400
    assert [one.place for one in client._names(job(kind="fill", op=Op.PUT, limit=8))] == list(range(8))
