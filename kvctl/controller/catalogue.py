"""Taking in what stores say they hold: counted deltas, whole listings after a gap, and the daily comparison."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller import datalog
from kvctl.controller.destroyed import declare
from kvctl.controller.stores import StoreAddress, ask
from kvctl.state import catalogue as table
from kvctl.types.errors import KvctlError, UnreachableError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import Nothing, StoreNamed

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

PAGE = 10_000  # rows of one answer, as many as a store gives
TOGETHER = 50_000  # rows of one transaction
MOST = 1_000_000  # deltas of one call: what is left comes with the next one
SECONDS = 60.0  # for one answer
SLACK = timedelta(seconds=2)  # between our word for now and what a store told just before
NEAR_MS = 500.0  # clocks that are so near to each other are taken for the same
GONE_KEPT = timedelta(days=396)  # copies that are gone stay in the catalogue so long
# Listings and runs of deltas go through tables of the one connection that writes.
_reading = threading.RLock()
Told = Callable[[str, str, Sequence[dict[str, Any]]], None]  # store, boot, deltas that are in the catalogue now


def sync(ctl: Controller, store: str, told: Told | None = None) -> dict[str, Any]:
    """Bring the catalogue up to one store. A store that cannot be read is said to be so; what is known of it stays.

    `told` hears of the deltas that were taken in, in order. UsageError KV-RET-001 for a store that nobody configured.
    """
    address = address_of(ctl, store)
    with ctl.books.state.reading() as db:
        known = table.source(db, store)
    try:
        with _reading:
            found = {"store": store, "state": "ok", **_follow(ctl, store, address, told)}
        if known and known.state != "ok" and ctl.schedule is not None:
            ctl.schedule.poke("erasures")  # one may wait for this store
        return found
    except KvctlError as error:
        return _unread(ctl, store, error)


def _unread(ctl: Controller, store: str, error: KvctlError) -> dict[str, Any]:
    """What a store that could not be read comes to; what is wrong on this side is raised."""
    if isinstance(error, UsageError) or not error.code.startswith("KV-STORE"):
        raise error
    state = "unreachable" if isinstance(error, UnreachableError) else "failed"
    why = f"{error.code}: {error.what}" + (f": {error.why}" if error.why else "")
    with ctl.books.state.writing() as db:
        table.mark_source(db, store, state, why, _now())
    return {"store": store, "state": state, "why": why}


def address_of(ctl: Controller, store: str) -> StoreAddress:
    settings = ctl.settings.stores.get(store)
    if settings is None:
        known = ", ".join(sorted(ctl.settings.stores)) or "none"
        raise UsageError("KV-RET-001", f"there is no store {store!r}", why=f"the controller has: {known}")
    return StoreAddress.of(settings)


def sync_all(ctl: Controller) -> list[dict[str, Any]]:
    return [sync(ctl, store) for store in sorted(ctl.settings.stores)]


def _follow(ctl: Controller, store: str, address: StoreAddress, told: Told | None) -> dict[str, Any]:
    with ctl.books.state.reading() as db:
        known = table.source(db, store)
    boot, at = (known.boot, known.next) if known else ("", 0)
    taken = {"put": 0, "removed": 0, "removed_scope": 0, "seen": 0}
    while True:
        run = _Run(address, boot, at)
        if run.gap:
            return {"taken": taken, **_read_again(ctl, store, address, run, (boot, at))}
        with ctl.books.state.writing() as db:  # the counter and the rows are there together, or neither is
            counts = table.take(db, store, run.deltas, run.ahead)
            table.keep_source(
                db, store, run.boot, run.next, now=_now(), sent=run.next - at, stored=len(run.deltas),
                clock_ms=run.clock_ms,
            )  # fmt: skip
        span = (run.boot, at, run.next)
        ctl.books.data.count(f"store:{store}", "chunks.counted", span, datalog.of_deltas(run.deltas))
        if told is not None:
            told(store, run.boot, run.deltas)
        taken = {op: taken[op] + counts[op] for op in taken}
        at = run.next
        if run.whole or sum(taken.values()) >= MOST:
            return {"taken": taken, "gap": None}


class _Run:
    """Deltas behind a place, page by page up to TOGETHER of them. `gap`: why they do not follow on it, or "".

    `next` is where the reading goes on; after a gap, what a whole listing that is begun now is at least as new as.
    """

    def __init__(self, address: StoreAddress, boot: str, after: int) -> None:
        self.deltas: list[dict[str, Any]] = []
        self.gap, self.whole, self.clock_ms = "", False, float("nan")
        self.boot, self.next = boot, after
        while not self.gap and not self.whole and len(self.deltas) < TOGETHER:
            self._page(address)

    @property
    def ahead(self) -> float:
        """Seconds to take off the store's times; what the way to the store may account for is none."""
        return self.clock_ms / 1000 if abs(self.clock_ms) > NEAR_MS else 0.0

    def _page(self, address: StoreAddress) -> None:
        query = {"after": self.next, "limit": PAGE} | ({"boot": self.boot} if self.boot else {})
        before = time.time()
        page = ask(address, "deltas", query=query, timeout=SECONDS)
        if page.get("now") is not None:
            self.clock_ms = round((page["now"] - (before + time.time()) / 2) * 1000, 1)
        found: list[dict[str, Any]] = page["deltas"]
        if page["gap"] or page["boot"] != self.boot:
            self.gap = "first reading" if not self.boot else "another run" if page["boot"] != self.boot else "let go"
        elif [delta["n"] for delta in found] != list(range(self.next + 1, self.next + 1 + len(found))):
            self.gap = "numbers are missing"
        else:
            self.deltas += found
        self.whole = len(found) < PAGE
        self.boot, self.next = page["boot"], page["next"]


# --- after a gap ----------------------------------------------------------------------------------------------------
def _read_again(
    ctl: Controller, store: str, address: StoreAddress, run: _Run, missed: tuple[str, int]
) -> dict[str, Any]:
    """Read the whole listing, make the catalogue equal to it, and keep on record what was missed."""
    list_whole(ctl, address)
    boot, at = missed
    known = bool(boot)
    with ctl.books.state.writing() as db:
        found = table.difference(db, store)
        table.reconcile(db, store, _now())
        table.keep_source(
            db, store, run.boot, run.next, now=_now(), sent=0, stored=found.untracked, clock_ms=run.clock_ms
        )
        if known:
            stop = run.next if run.boot == boot else None
            table.add_gap(db, store, boot, at + 1, stop, _now(), run.gap)
    counts = {"untracked": found.untracked, "missing": found.missing, "found": found.found}
    span = (run.boot, run.next, run.next)
    ctl.books.data.count(f"store:{store}", "chunks.read", span, {None: counts}, cause=run.gap)
    if known:
        data = {"store": store, "boot": boot, "from": at + 1, "cause": run.gap, "now": run.boot, **counts}
        ctl.books.commit(SYSTEM, [Event("catalogue.gap", data)])
    return {"gap": run.gap, "read": counts}


def list_whole(ctl: Controller, address: StoreAddress) -> None:
    """A store's whole listing, into the writing connection's table for it."""
    with ctl.books.state.writing() as db:
        table.begin_listing(db)
    for page in _together(_pages(address)):
        with ctl.books.state.writing() as db:
            table.add_listed(db, page)
    with ctl.books.state.writing() as db:
        table.end_listing(db)


def _pages(address: StoreAddress) -> Iterator[list[dict[str, Any]]]:
    after = ""
    while True:
        query = {"limit": PAGE} | ({"after": after} if after else {})
        page: list[dict[str, Any]] = ask(address, "ls", query=query, timeout=SECONDS)["chunks"]
        yield page
        if len(page) < PAGE:
            return
        after = page[-1]["cursor"]


def _together(pages: Iterator[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    kept: list[dict[str, Any]] = []
    for page in pages:
        kept += page
        if len(kept) >= TOGETHER:
            yield kept
            kept = []
    yield kept


# --- declared against observed --------------------------------------------------------------------------------------
def compare(ctl: Controller, store: str, who: Principal = SYSTEM) -> dict[str, Any]:
    """Compare the catalogue with a store's whole listing: an untracked copy is a finding. Then they are made equal."""
    address = address_of(ctl, store)
    with _reading:
        before = _now() - SLACK
        first = sync(ctl, store)
        if first["state"] == "ok":
            try:
                list_whole(ctl, address)
            except KvctlError as error:
                return _unread(ctl, store, error)
            first = sync(ctl, store)  # what came and went while it was read
        if first["state"] != "ok":
            return first
        with ctl.books.state.writing() as db:
            found = table.difference(db, store, before)
        counts = {
            "catalogued": found.catalogued, "found": found.found, "untracked": found.untracked,
            "missing": found.missing, "unlike": found.unlike,
        }  # fmt: skip
        # First: a comparison that the log does not know is one that somebody made up (check R6).
        ctl.books.commit(who, [Event("inventory.compared", {"store": store, **counts})])
        with ctl.books.state.writing() as db:
            table.add_comparison(db, store, _now(), found)
            table.reconcile(db, store, _now())
    return {"store": store, "state": "ok", **counts, "finding": found.untracked + found.unlike > 0}


def compare_all(ctl: Controller) -> list[dict[str, Any]]:
    """Every store; and what is gone for longer than the catalogue keeps it is forgotten."""
    done = [compare(ctl, store) for store in sorted(ctl.settings.stores)]
    with ctl.books.state.writing() as db:
        table.prune(db, _now() - GONE_KEPT)
    return done


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


# --- operations -----------------------------------------------------------------------------------------------------
def ls(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    """Every store that is configured or was ever read: how far it is in the catalogue, and since when it is not."""
    with ctl.books.state.reading() as db:
        found = {row["store"]: row for row in table.sources(db)}
    never = {"state": "never read", "why": "", "seen_at": None, "copies": None, "bytes": None}
    stores = [
        {"store": name, "configured": name in ctl.settings.stores, **found.get(name, never)}
        for name in sorted(ctl.settings.stores.keys() | found.keys())
    ]
    return {"schema": "kvctl.store.ls/1", "stores": stores}


def sync_now(ctl: Controller, who: Principal, p: StoreNamed) -> dict[str, Any]:
    """Bring the catalogue up to one store or all of them."""
    return {"schema": "kvctl.store.sync/1", **_each(ctl, p, sync)}


def compare_now(ctl: Controller, who: Principal, p: StoreNamed) -> dict[str, Any]:
    """Compare the catalogue with one store or all of them, as is done every day."""
    return {"schema": "kvctl.store.compare/1", **_each(ctl, p, lambda ctl, store: compare(ctl, store, who))}


def _each(ctl: Controller, p: StoreNamed, do: Callable[[Controller, str], dict[str, Any]]) -> dict[str, Any]:
    names = [p.store] if p.store is not None else sorted(ctl.settings.stores)
    for name in names:
        address_of(ctl, name)
    if p.dry_run:
        return {"would": [{"store": name} for name in names], "stores": []}
    return {"stores": [do(ctl, name) for name in names]}


SERVICES: dict[str, Service] = {
    "store.compare": compare_now, "store.destroyed": declare, "store.ls": ls, "store.sync": sync_now,
}  # fmt: skip
