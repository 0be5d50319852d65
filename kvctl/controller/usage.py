"""Usage: taking in what gateways metered, and showing it beside what lies on the stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kvctl.controller import datalog
from kvctl.controller.stores import StoreAddress, ask
from kvctl.state import catalogue, usage
from kvctl.types.errors import KvctlError, UnreachableError, UsageError
from kvctl.types.principals import Principal
from kvctl.types.requests import UsageShow
from kvctl.types.times import utc

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

PAGE = 1000  # records of one answer
SECONDS = 30.0


def collect(ctl: Controller) -> list[dict[str, Any]]:
    """Take in the usage records of every gateway, each once; a gateway that cannot be read is said to be so."""
    return [_collected(ctl, name) for name in sorted(ctl.settings.gateways)]


def _collected(ctl: Controller, name: str) -> dict[str, Any]:
    source = f"gateway:{name}"
    settings = ctl.settings.gateways[name]
    address = replace(StoreAddress.of(settings), endpoint=settings.usage or settings.admin)
    try:
        return {"gateway": name, "state": "ok", **_follow(ctl, source, address)}
    except KvctlError as error:
        if not error.code.startswith(("KV-STORE", "KV-GATE")):
            raise
        state = "unreachable" if isinstance(error, UnreachableError) else "failed"
        with ctl.books.state.writing() as db:
            catalogue.mark_source(db, source, state, f"{error.code}: {error.why or error.what}", _now())
        return {"gateway": name, "state": state, "why": error.why or error.what}


def _follow(ctl: Controller, source: str, address: StoreAddress) -> dict[str, Any]:
    with ctl.books.state.reading() as db:
        known = catalogue.source(db, source)
    boot, counter = (known.boot, known.next) if known else ("", 0)
    taken = lost = 0
    while True:
        query = {"limit": PAGE} | ({"after": f"{boot}:{counter}"} if boot else {})
        records: list[dict[str, Any]] = ask(address, "usage", query=query, timeout=SECONDS)["records"]
        with ctl.books.state.writing() as db:
            if records:
                usage.take(db, source, records)
            for gap in gaps(boot, counter, records):
                catalogue.add_gap(db, source, *gap, _now(), "records are missing")
                lost += gap[2] - gap[1] + 1
            if records:
                boot, counter = records[-1]["boot"], records[-1]["counter"]
            stored = len(records)
            catalogue.keep_source(
                db, source, boot, counter, now=_now(), sent=stored, stored=stored, clock_ms=float("nan")
            )
        for part in runs(records):
            span = (part[0]["boot"], part[0]["counter"] - 1, part[-1]["counter"])
            ctl.books.data.count(
                source, "usage.counted", span, datalog.of_records(part), cause="records are missing", lasting=True
            )
        taken += len(records)
        if boot:
            ask(address, "collected", {"upto": f"{boot}:{counter}"}, timeout=SECONDS)
        if len(records) < PAGE:
            return {"records": taken, "lost": lost}


def runs(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Records that follow on each other, together."""
    part: list[dict[str, Any]] = []
    for record in records:
        if part and (record["boot"], record["counter"]) != (part[-1]["boot"], part[-1]["counter"] + 1):
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def gaps(boot: str, counter: int, records: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Numbers that are missing: (boot, first, last). Each boot counts from 1."""
    found = []
    for record in records:
        expected = counter + 1 if record["boot"] == boot else 1
        if record["counter"] > expected:
            found.append((record["boot"], expected, record["counter"] - 1))
        boot, counter = record["boot"], record["counter"]
    return found


def show(ctl: Controller, who: Principal, p: UsageShow) -> dict[str, Any]:
    """Bytes that are there now, by tenant, store and tier; requests and tokens of a time, by tenant and model.

    `stores` and `gateways` say of whom the numbers are not whole, and since when.
    """
    since, until = _time(p.since), _time(p.until)
    never = {"state": "never read", "why": "", "seen_at": None, "records": None, "lost": None}
    with ctl.books.state.reading() as db:
        known = usage.gateways(db)
        states = {row["store"]: row for row in catalogue.states(db)}
        return {
            "schema": "kvctl.usage.show/1", "tenant": p.tenant, "since": since, "until": until,
            "stored": usage.stored(db, p.tenant), "requests": usage.requests(db, p.tenant, since, until),
            "stores": [
                states.get(name, {"store": name, "state": "never read", "why": "", "seen_at": None})
                for name in sorted(ctl.settings.stores)
            ],
            "gateways": [
                _gateway(name, {**never, **known.get(name, {})}, who) for name in sorted(ctl.settings.gateways)
            ],
        }  # fmt: skip


def _gateway(name: str, row: dict[str, Any], who: Principal) -> dict[str, Any]:
    """Its counts are of all tenants together: one of them hears whether the records are whole, and no count."""
    whole = None if row["lost"] is None else not row["lost"]
    counts = {} if who.tenant is None else {"records": None, "lost": None}
    return {**row, **counts, "gateway": name, "whole": whole}


def _time(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return utc(text).replace(tzinfo=None).isoformat()
    except ValueError as error:
        raise UsageError("KV-RET-009", "that is no time", where=text[:40], fix="2026-03-01T00:00:00Z") from error


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


SERVICES: dict[str, Service] = {"usage.show": show}
