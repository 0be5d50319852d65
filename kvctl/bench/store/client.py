"""A contestant's client process: `python -m kvctl.bench.store.client`, told by lines what to do (jobs.py).

It is the same for every contestant: threads, buffers, names, order, clock. Only the lane differs.
"""

import gc
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from kvctl.bench.store import cpu
from kvctl.bench.store.cells import Op
from kvctl.bench.store.figures import percentile
from kvctl.bench.store.jobs import Chunk, Job, Setup, Taken, chunk
from kvctl.bench.store.lanes.kinds import way
from kvctl.bench.store.lanes.lane import Lane, buffers, cut, touched

SET = "set"  # label of the chunks that GETs read


class Client:
    """Buffers and a way to one contestant, kept from sample to sample."""

    def __init__(self, setup: Setup) -> None:
        self._plain = touched(setup.largest)
        self._plain[:4096] = os.urandom(4096)
        self._buffers = [buffers(self._plain, setup.largest) for _ in range(setup.connections)]
        self._way = way(setup)
        self._orders: dict[int, Iterator[Chunk]] = {}

    def take(self, job: Job) -> Taken:
        """Run one job on `job.connections` lanes, each a thread."""
        chunks = self._names(job)
        places = self._buffers[: job.connections]
        lanes = [self._way.lane(cut(memory, job.size), job.op, new=job.new) for memory in places]
        try:
            taken = self._run(job, lanes, chunks)
        finally:
            for lane in lanes:
                lane.close()
        if job.new:
            self._way.clean(chunks[: taken.ops])
        return taken

    def _run(self, job: Job, lanes: Sequence[Lane], chunks: Sequence[Chunk]) -> Taken:
        race = Race(job, lanes, chunks)
        gc.collect()
        server, own = cpu.seconds(job.pids), time.process_time()
        wall = race.run()
        own = time.process_time() - own
        if job.op is not Op.GET:
            self._way.settle()
        times = sorted(itertools.chain.from_iterable(race.times))
        return Taken(
            ops=len(times),
            bytes=len(times) * job.size,
            wall=wall,
            client_cpu=own,
            server_cpu=cpu.seconds(job.pids) - server if job.pids else None,
            seal_cpu=None if lanes[0].seal_cpu is None else sum(lane.seal_cpu or 0.0 for lane in lanes),
            p50=percentile(times, 0.50),
            p99=percentile(times, 0.99),
        )

    def _names(self, job: Job) -> list[Chunk]:
        """The chunks of a job in their order. A GET goes on where the last one of its size ended."""
        if job.new:
            return [chunk(f"{job.op} {job.connections} {job.seed}", job.size, at) for at in range(job.limit)]
        if job.kind == "fill":
            return [chunk(SET, job.size, at) for at in range(job.limit)]
        order = self._orders.setdefault(job.size, endless(job.size, job.chunks))
        return list(itertools.islice(order, job.limit))

    def close(self) -> None:
        self._way.close()


class Race:
    """Threads that take one chunk after the other from one common list, until it is empty or the time is up."""

    def __init__(self, job: Job, lanes: Sequence[Lane], chunks: Sequence[Chunk]) -> None:
        self.times: list[list[float]] = [[] for _ in lanes]
        self._lanes = lanes
        self._chunks = chunks
        self._next = itertools.count()  # its __next__ is one step of the interpreter: no two threads get one number
        self._seconds = job.seconds
        self._get = job.op is Op.GET
        self._failed: list[BaseException] = []
        self._deadline = 0.0
        self._start = threading.Barrier(len(lanes) + 1)

    def run(self) -> float:
        """Seconds from the start of all to the end of the last; what a lane raised is raised."""
        threads = [threading.Thread(target=self._work, args=(at,)) for at in range(len(self._lanes))]
        for thread in threads:
            thread.start()
        begun = time.perf_counter()
        self._deadline = begun + self._seconds
        self._start.wait()
        for thread in threads:
            thread.join()
        wall = time.perf_counter() - begun
        if self._failed:
            raise self._failed[0]
        return wall

    def _work(self, at: int) -> None:
        self._start.wait()
        lane = self._lanes[at]
        try:
            if self._get and lane.batch > 1:
                self._loop_batches(lane, self.times[at])
            else:
                self._loop(lane.get if self._get else lane.put, self.times[at])
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            self._failed.append(error)

    def _loop(self, act: Callable[[Chunk], None], times: list[float]) -> None:
        chunks, clock, deadline = self._chunks, time.perf_counter, self._deadline
        end = clock()
        while end <= deadline and not self._failed:
            at = next(self._next)
            if at >= len(chunks):
                return
            begun = clock()
            act(chunks[at])
            end = clock()
            times.append(end - begun)

    def _loop_batches(self, lane: Lane, times: list[float]) -> None:
        """As `_loop`, several chunks a call; the time of a call is divided among them."""
        chunks, clock = self._chunks, time.perf_counter
        end = clock()
        while end <= self._deadline and not self._failed:
            batch = [chunks[at] for at in itertools.islice(self._next, lane.batch) if at < len(chunks)]
            if not batch:
                return
            begun = clock()
            lane.get(*batch)
            end = clock()
            times += [(end - begun) / len(batch)] * len(batch)


def endless(size: int, chunks: int) -> Iterator[Chunk]:
    """The set in an order without a pattern, again and again: none comes back before all others came."""
    members = [chunk(SET, size, at) for at in range(chunks)]
    random.Random(size).shuffle(members)
    return itertools.cycle(members)


def private_stdout() -> TextIO:
    """The stream of answers. Whatever else writes to standard output, such as a C++ library, goes to the log."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


def main() -> None:
    """Answer each line until standard input ends."""
    answers = private_stdout()
    client = Client(Setup(**json.loads(sys.stdin.readline())))
    answers.write("ready\n")
    answers.flush()
    try:
        for line in sys.stdin:
            values = json.loads(line)
            job = Job(**values | {"op": Op(values["op"]), "pids": tuple(values["pids"])})
            answers.write(json.dumps(asdict(client.take(job))) + "\n")
            answers.flush()
    finally:
        client.close()


if __name__ == "__main__":
    main()
