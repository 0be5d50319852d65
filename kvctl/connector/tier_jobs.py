"""Work handed to threads, whose results are fetched later, never waited for but at the end."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Barrier, BrokenBarrierError

from kvctl.connector.threads import handed_over

log = logging.getLogger(__name__)
MEET = 1.0  # seconds for all threads to have started


@dataclass(frozen=True, slots=True)
class Done:
    """A job's end. `keys`: which were loaded, of a load; None: they share the fate of `success`."""

    number: int
    success: bool
    keys: tuple[bytes, ...] | None = None
    seconds: float = 0.0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that had no thread yet when it was last looked at."""

    number: int
    future: "Future[None]"
    until: float
    undone: Callable[[], None]


class Jobs:
    """A group of threads and the results of what they did. `start` and `finished` are for one thread."""

    def __init__(self, threads: int, name: str, defect: Callable[[], None]) -> None:
        self._count = threads
        self._threads = ThreadPoolExecutor(threads, name)
        self._defect = defect
        self._done: SimpleQueue[Done] = SimpleQueue()
        self._under_way: set[Future[None]] = set()
        self._waiting: list[Waiting] = []

    def ready(self) -> None:
        """Start the threads, so that the first piece of work does not wait for one."""
        together = Barrier(self._count)
        for _ in range(self._count):
            self.run(lambda: self._meet(together))

    @staticmethod
    def _meet(together: Barrier) -> None:
        with suppress(BrokenBarrierError):  # the system gives no further thread: those that are there do
            together.wait(MEET)

    def run(self, work: Callable[[], None]) -> bool:
        """Begin work that reports nothing; whether a thread will do it."""
        return self._begun(work) is not None

    def start(
        self,
        number: int,
        work: Callable[[], Done],
        until: float = math.inf,
        undone: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin a job; it ends in `finished` whatever happens, even when no thread can be had.

        One that has no thread by `until` never begins. `undone` is called of a job that did not begin, or did not end.
        """

        def job() -> None:
            done = Done(number, False)
            try:
                done = work()
            except Exception:  # noqa: BLE001  it is the job's end, not the thread's
                self._report()
                self._guarded(undone)
            self._done.put(done)

        future = self._begun(job)
        if future is None:
            self._undone(number, undone)
        elif until < math.inf:
            self._waiting.append(Waiting(number, future, until, undone))

    def refuse(self, number: int) -> None:
        """A job that ends at once, with nothing done."""
        self._done.put(Done(number, False))

    def finished(self) -> Sequence[Done]:
        self._call_off()
        found = []
        while True:
            try:
                found.append(self._done.get_nowait())
            except Empty:
                return found

    def drain(self) -> None:
        """Return when no work is under way; each piece of it is held to a deadline of its own."""
        wait(list(self._under_way))

    def close(self) -> None:
        """What has not begun never does; what has, ends by its deadline."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _begun(self, work: Callable[[], None]) -> "Future[None] | None":
        future = handed_over(self._threads, lambda: self._guarded(work))
        if future is not None:
            self._under_way.add(future)
            future.add_done_callback(self._under_way.discard)
        return future

    def _call_off(self) -> None:
        """End what is overdue and still waits for a thread: all of them may be at work on jobs with more time."""
        now = time.monotonic()
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            if job.future.running() or job.future.done():
                continue
            if now < job.until:
                self._waiting.append(job)
            elif job.future.cancel():  # else it has just begun
                self._undone(job.number, job.undone)

    def _undone(self, number: int, undone: Callable[[], None]) -> None:
        self._guarded(undone)
        self._done.put(Done(number, False))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001
            self._report()

    def _report(self) -> None:
        log.exception("KV-VLLM-020: the tier's own error; to the engine it is a miss")
        self._defect()
