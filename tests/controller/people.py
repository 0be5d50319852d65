"""A controller over an empty directory, and who asks it."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kvctl.controller.core import Controller, opened
from kvctl.controller.settings import ControllerSettings
from kvctl.types.principals import Kind, Principal, Role

OPERATOR = Principal("unix:op", frozenset({Role.OPERATOR}), fresh=True)
AUDITOR = Principal("unix:olga", frozenset({Role.AUDITOR}), fresh=True)
ADMIN = Principal("unix:root", frozenset({Role.ADMIN}), fresh=True)
ACME_ADMIN = Principal("local:ann", frozenset({Role.TENANT_ADMIN}), tenant="acme", fresh=True)


def service(name: str) -> Principal:
    return Principal(f"service:{name}", frozenset({Role.SERVICE}), kind=Kind.SERVICE)


@contextlib.contextmanager
def controller(directory: Path, **settings: Any) -> Iterator[Controller]:
    with opened(ControllerSettings("paris", "FR", "Acme SAS", directory / "paris", **settings)) as made:
        yield made


@contextlib.contextmanager
def ahead(seconds: float, *stores: Any) -> Iterator[None]:
    """What is put on record in here has times that are still to come: the clock is put back at the end of the block.

    `stores` are told the time by the same clock.
    """

    def later() -> str:
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    with patch("kvctl.controller.books.now", later), patch("kvctl.controller.catalogue.NEAR_MS", 1e9):
        for store in stores:
            store.ahead = seconds
        yield
        for store in stores:
            store.ahead = 0.0


def tables(ctl: Controller) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the tables that are made from the log."""
    names = ("tenants", "entities", "epochs", "api_keys", "capabilities", "accounts")
    with ctl.books.state.reading() as db:
        return {name: db.table(name).order("ALL").fetchall() for name in names}


def kinds(ctl: Controller) -> list[str]:
    return [event.kind for event in ctl.books.recorded(0)]
