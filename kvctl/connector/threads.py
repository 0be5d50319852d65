"""Handing work to a thread so that it is done once or not at all."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")


def handed_over(executor: Executor, work: Callable[[], T]) -> "Future[T] | None":
    """Work that a thread will do; None when none will: the executor is closed, or the system gives it no thread.

    An executor that cannot start a thread raises and keeps the work queued all the same. Such work is called off here:
    done later, it would write to memory that its caller has taken back.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised where the result is asked for
            future.set_exception(error)

    try:
        executor.submit(run)
    except RuntimeError:
        if future.cancel():
            return None
    return future
