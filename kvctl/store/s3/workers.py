"""Threads that make requests: a fixed number, with a queue that says when it is full."""

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Semaphore, Thread

log = logging.getLogger(__name__)


class Workers:
    """`threads` threads; at most `queued` more jobs wait for one."""

    def __init__(self, name: str, threads: int, queued: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._room = Semaphore(threads + queued)
        self._threads = [Thread(target=self._run, name=f"{name}-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Callable[[], None]) -> bool:
        """Take a job; False when there is no room."""
        if not self._room.acquire(blocking=False):
            return False
        self._jobs.put(job)
        return True

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a thread that ended would be missed silently, one job after the other
                log.exception("a job of the object tier failed")
            finally:
                self._room.release()

    def close(self) -> None:
        """End when the jobs taken so far are done."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
