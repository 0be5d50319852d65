"""Carrying a move out: one store after the other, with progress, stopped cleanly, and counted once whatever breaks off.

A store goes on by itself when whoever asked it is gone, and keeps what its run came to. So a run that is not on record
yet is fetched first, and then the rest is asked for.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvctl.controller.residency import decision
from kvctl.controller.stores import StoreAddress, ask
from kvctl.govern.moves import outcome
from kvctl.state import moves as table
from kvctl.types.errors import KvctlError, LockedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

DAY = 86400.0
TICK = 1.0  # seconds between two looks at a store that moves
NOT_RUNNING = "KV-STORE-028"
Progress = Callable[[Mapping[str, Any]], None]
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """A move that this process carries out."""

    asked: threading.Event = field(default_factory=threading.Event)  # to stop
    forbidden: str = ""  # the rule that residency stops it by
    interrupted: bool = False
    progress: dict[str, dict[str, Any]] = field(default_factory=dict)  # store -> how far it is

    @property
    def stopping(self) -> bool:
        return self.interrupted or self.asked.is_set()


_running: dict[tuple[str, str], Running] = {}  # by state directory and move
_lock = threading.Lock()


def is_running(ctl: "Controller", move: str) -> bool:
    return _found(ctl, move) is not None


def live(ctl: "Controller", move: str) -> dict[str, Any] | None:
    """How far each store is; None for a move that this process does not carry out."""
    found = _found(ctl, move)
    return None if found is None else dict(found.progress)


def stop_here(ctl: "Controller", move: str) -> bool:
    """Have a move of this process stop; whether there is one."""
    found = _found(ctl, move)
    if found is not None:
        found.asked.set()
    return found is not None


def start(ctl: "Controller", move: str, who: Principal) -> threading.Thread:
    """Carry a move out in a thread of its own."""

    def work() -> None:
        try:
            run_move(ctl, move, who=who)
        except KvctlError as error:
            log.warning("move %s: %s", move, error)
        except Exception:
            log.exception("move %s", move)

    thread = threading.Thread(target=work, name=move, daemon=True)
    thread.start()
    return thread


def run_move(
    ctl: "Controller", move: str, progress: Progress | None = None, *, who: Principal = SYSTEM, stopping: bool = False
) -> dict[str, Any]:
    """Carry out what move.started, move.resumed or move.returning last said, to its end; the move as it stands then.

    `progress` is told {move, store, chosen, moved, bytes} about once a second. `stopping`: only fetch what stores did.
    LockedError KV-TIER-009 when this process does it already.
    """
    with _claimed(ctl, move) as run, _ctrl_c(run):
        if stopping:
            run.asked.set()
        with ctl.books.state.reading() as db:
            row, last = table.find(db, move), table.current(db, move)
            counted = {(one["store"], one["began_at"]) for one in table.ran(db, move)}
        assert row is not None
        assert last is not None
        one = _Carrier(ctl, who, row, last["back"], run, progress or _log_progress, counted)
        ended = {}
        for step in last["steps"]:
            found = one.carry(step)
            if found is not None:
                ended[step["store"]] = found
        return one.finish([step["store"] for step in last["steps"]], ended)


@dataclass(slots=True)
class _Carrier:
    _ctl: "Controller"
    _who: Principal
    _row: Mapping[str, Any]
    _back: bool
    _run: Running
    _progress: Progress
    _counted: set[tuple[str, float | None]]

    def carry(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the store's last run came to, on record; None when it was not asked any more."""
        store, request = step["store"], step["request"]
        address = StoreAddress.of(self._ctl.settings.stores[store])
        found = None
        try:
            left = self._left_over(store, address, request["id"])
            if left is not None:
                found = self._record(store, left)
            if not self._run.stopping:
                found = self._record(store, self._ask(store, address, request))
        except KvctlError as error:
            why = " ".join(part for part in (f"{error.code} {error.what}", error.why) if part)
            found = self._record(store, {"state": "failed", "why": why})
        return found

    def _left_over(self, store: str, address: StoreAddress, name: str) -> dict[str, Any] | None:
        """A run of an earlier try that nobody has counted, waited for when it is still under way."""
        while True:
            found = _row_of(address, name)
            if found is None or found["state"] != "running":
                break
            self._tell(store, found)
            if self._run.stopping:
                _cancel(address, name)
            threading.Event().wait(TICK)
        if found is None or (store, found["began_at"]) in self._counted:
            return None
        if found["state"] == "interrupted":
            # The store ended in the middle: it wrote down that it began, and never how far it came.
            found |= {"moved": None, "bytes": None, "failed": None, "skipped": None, "why": "the store ended meanwhile"}
        return found

    def _ask(self, store: str, address: StoreAddress, request: Mapping[str, Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(1, "move") as pool:
            future = pool.submit(ask, address, "move", dict(request), timeout=DAY)
            while not future.done():
                self._look(future, store, address, request)
            return future.result()

    def _look(
        self, future: "Future[dict[str, Any]]", store: str, address: StoreAddress, request: Mapping[str, Any]
    ) -> None:
        wait([future], TICK)
        if future.done():
            return
        name = request["id"]
        self._decide_again(store, request["target"])
        try:
            if self._run.stopping:
                _cancel(address, name)
            self._tell(store, _row_of(address, name))
        except KvctlError as error:
            log.debug("%s: %s", store, error)  # the answer to the move itself will say what is wrong

    def _decide_again(self, store: str, tier: str) -> None:
        """A policy that was put in force meanwhile stops the move; that it does is on record."""
        if self._run.stopping:
            return
        tenant = self._row["tenant"]
        with self._ctl.books.state.reading() as db:
            made = decision(self._ctl, db, "move", tenant, store=store, tier=tier, ref=self._row["id"])
        if made.verdict.allowed:
            return
        self._run.forbidden = f"{store}/{tier}: {made.verdict.rule}"
        data = {"move": self._row["id"], "decisions": [made.id], "rules": [self._run.forbidden]}
        self._ctl.books.commit(self._who, [made.event, Event("tier.refused", data, tenant, "refused")])
        self._run.asked.set()

    def _tell(self, store: str, found: Mapping[str, Any] | None) -> None:
        if found is not None:
            about = {name: found[name] for name in ("chosen", "moved", "bytes")}
            self._run.progress[store] = about
            self._progress({"move": self._row["id"], "store": store, **about})

    def _record(self, store: str, found: Mapping[str, Any]) -> dict[str, Any]:
        names = ("state", "moved", "bytes", "failed", "skipped", "why", "began_at")
        data = {"move": self._row["id"], "store": store, "back": self._back} | {name: found.get(name) for name in names}
        outcome = "failed" if data["state"] == "failed" else "ok"
        self._ctl.books.commit(self._who, [Event("move.store-ended", data, self._row["tenant"], outcome)])
        self._counted.add((store, data["began_at"]))
        return data

    def finish(self, planned: list[str], ended: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        state, why = outcome(planned, ended, back=self._back)
        if self._run.forbidden:
            why = "; ".join(part for part in (f"residency forbids it: {self._run.forbidden}", why) if part)
        counts = {
            name: sum(sum((row[name] or {}).values()) for row in ended.values()) for name in ("failed", "skipped")
        }
        data = {"move": self._row["id"], "state": state, "why": why, **counts}
        told = Event("move.ended", data, self._row["tenant"], "failed" if state == "failed" else "ok")
        self._ctl.books.commit(self._who, [told])
        with self._ctl.books.state.reading() as db:
            row = table.find(db, self._row["id"]) or {}
        return {"move": row["id"], **row, "stores": dict(ended), "interrupted": self._run.interrupted}


def _row_of(address: StoreAddress, name: str) -> dict[str, Any] | None:
    """The newest run of a move that the store knows of."""
    found: list[dict[str, Any]] = ask(address, "moves")["moves"]
    return next((row for row in found if row["id"] == name), None)


def _cancel(address: StoreAddress, name: str) -> None:
    try:
        ask(address, "move/cancel", {"id": name})
    except UsageError as error:
        if error.code != NOT_RUNNING:  # it has not begun, or it is over: the next look says which
            raise


def _log_progress(about: Mapping[str, Any]) -> None:
    log.info("%(store)s: %(moved)s of %(chosen)s chunks moved, %(bytes)s bytes", about)


def _found(ctl: "Controller", move: str) -> Running | None:
    with _lock:
        return _running.get((str(ctl.directory), move))


@contextlib.contextmanager
def _ctrl_c(run: Running) -> Iterator[None]:
    """Ctrl-C in the terminal of this process asks the store to stop, and its count is waited for; a second one ends the
    process. An exception could come anywhere, between what the store did and its record."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def asked(number: int, frame: object) -> None:
        run.interrupted = True  # no lock is taken: the main thread may hold it
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _claimed(ctl: "Controller", move: str) -> Iterator[Running]:
    key, run = (str(ctl.directory), move), Running()
    with _lock:
        if key in _running:
            raise LockedError("KV-TIER-009", f"{move} runs already", fix="kvctl tier ls shows how far it is")
        _running[key] = run
    try:
        yield run
    finally:
        with _lock:
            del _running[key]
