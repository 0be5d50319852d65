"""One store of a pool: its client behind a breaker, with threads of its own so that a hung store holds no other's."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from kvctl.connector.breaker import Breaker, Health, Policy, State
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import DeadlineExceeded, StoreRefused, StoreUnavailable
from kvctl.connector.placement import Node
from kvctl.connector.threads import handed_over
from kvctl.connector.wire import Refusal

T = TypeVar("T")
Call = Callable[[StoreClient], T]
Judge = Callable[[T], Health]
READERS = 4  # threads of one node that ask and fetch
LANES = 2  # threads of one node that store: one seals while the other sends
# Refusals that say something about the store; the others are about one request or one capability.
AILING = {
    Refusal.UNKNOWN_CONNECTOR,
    Refusal.BAD_PROOF,
    Refusal.VERSION,
    Refusal.TOO_MANY,
    Refusal.DRAINING,
    Refusal.INTERNAL,
}


class Member:
    """Thread-safe. `chance` gives numbers in [0, 1) for the breaker's jitter."""

    def __init__(self, node: Node, client: StoreClient, policy: Policy, chance: Callable[[], float]) -> None:
        self.node = node
        self.client = client
        self._policy = policy
        self._chance = chance
        self.refused: StoreRefused | None = None  # the last refusal, for people
        self.restart()

    def restart(self) -> None:
        """With a closed breaker and no thread: what a child does after fork (its client restarts by itself)."""
        self._breaker = Breaker(self._policy)
        self._lock = Lock()
        self._readers = ThreadPoolExecutor(READERS, f"kvctl-{self.node.name}-read")
        self._writers = ThreadPoolExecutor(LANES, f"kvctl-{self.node.name}-write")

    @property
    def state(self) -> State:
        return self._breaker.state

    def ask(self, call: Call[T], judge: Judge[T] | None = None) -> T:
        """Make a call to the store; StoreUnavailable at once while the breaker is open, else what the client raises.

        A call with `judge` reads chunks. What it does not find well is given back, and is a failure to the breaker.
        """
        read = judge is not None
        with self._lock:
            self._breaker, allowed = self._breaker.ask(time.monotonic())
        if not allowed:
            times = max(self._breaker.failed, self._breaker.unread)
            raise StoreUnavailable(f"{self.node.name} failed {times} times; it is left alone for now")
        begun = time.monotonic()
        try:
            answer = call(self.client)
        except BaseException as error:
            self._judge(error, begun, read)
            raise
        health = Health.WELL if judge is None else judge(answer)
        if health is Health.WELL:
            self._change(lambda breaker: breaker.success(read=read))
        elif health is Health.SLOW:
            self._too_slow(begun, read)
        else:
            self._failed(read)
        return answer

    def start(self, call: Call[T], judge: Judge[T] | None = None) -> "Future[T]":
        """`ask` in a thread of this member's. StoreUnavailable when it has none to give."""
        return self._begun(self._readers, lambda: self.ask(call, judge))

    def write(self, work: Callable[[], T]) -> "Future[T]":
        """Storing chunks, which takes long, in threads that no question waits for."""
        return self._begun(self._writers, work)

    def _begun(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> "Future[T]":
        begun = handed_over(threads, work)
        if begun is None:  # a newer map has dropped this node meanwhile
            begun = Future()
            begun.set_exception(StoreUnavailable(f"no thread for {self.node.name}"))
        return begun

    def close(self) -> None:
        """Calls under way end as they would."""
        self._readers.shutdown(wait=False)
        self._writers.shutdown(wait=False)
        self.client.close()

    def _judge(self, error: BaseException, begun: float, read: bool) -> None:
        if isinstance(error, StoreRefused):
            self.refused = error
        if isinstance(error, DeadlineExceeded):
            self._too_slow(begun, read)
        elif isinstance(error, StoreUnavailable) or (isinstance(error, StoreRefused) and error.refusal in AILING):
            self._failed(read)
        elif isinstance(error, StoreRefused):
            self._change(Breaker.success)
        else:
            self._change(lambda breaker: breaker.abandon(time.monotonic()))

    def _too_slow(self, begun: float, read: bool) -> None:
        """Not its fault when it hardly had time."""
        now = time.monotonic()
        if now - begun >= self._policy.fair:
            self._failed(read)
        else:
            self._change(lambda breaker: breaker.abandon(now))

    def _failed(self, read: bool) -> None:
        self._change(lambda breaker: breaker.failure(time.monotonic(), self._chance(), read=read))

    def _change(self, change: Callable[[Breaker], Breaker]) -> None:
        with self._lock:
            self._breaker = change(self._breaker)
