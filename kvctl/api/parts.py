"""Sections of a page, read: each through the controller as who is signed in, and never more than it may see."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio.to_thread

from kvctl.api.forms import read
from kvctl.api.identity import Caller
from kvctl.api.menu import SESSIONS, Page, Part, Tile, may
from kvctl.api.sessions import FRESH, IDLE, Sessions
from kvctl.controller.core import Controller
from kvctl.types.errors import KvctlError
from kvctl.types.principals import Role

Address = dict[str, str]


@dataclass(slots=True)
class Shown:
    """A part as it is now. `asked`: the address gives all that it needs."""

    part: Part
    asked: bool = True
    found: dict[str, Any] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    problem: dict[str, Any] | None = None
    page: int = 1
    tile: Tile | None = None
    values: Address = field(default_factory=dict)  # of its filters

    @property
    def busy(self) -> bool:
        return any(map(self.part.busy, self.rows if self.part.rows else [self.found] if self.found else []))

    @property
    def bare(self) -> bool:
        """Whether there is nothing to show and nothing to ask."""
        return self.part.view == "table" and not (self.rows or self.problem or self.part.filters)

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.rows) // self.part.per))

    @property
    def here(self) -> list[Any]:
        """The rows of the page that is asked for."""
        first = (min(self.page, self.pages) - 1) * self.part.per
        return self.rows[first : first + self.part.per]


class Parts:
    """Reads the parts of one page for one request; what two of them show is asked for once."""

    def __init__(self, controller: Controller, sessions: Sessions, caller: Caller, address: Address) -> None:
        self._controller = controller
        self._sessions = sessions
        self._caller = caller
        self._address = address
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}

    async def of(self, page: Page, only: str | None = None) -> list[Shown]:
        mine = [part for part in page.parts if may(self._caller.principal, part.operation)]
        return [await self.shown(part) for part in mine if only in (None, part.id)]

    async def shown(self, part: Part) -> Shown:
        values = {name: self._address.get(name, "") for name in part.fields}
        made = Shown(part, asked=all(values.get(name) for name in part.needs), page=self._page(part), values=values)
        if not made.asked:
            return made
        try:
            made.found = await self._ask(part, values)
        except KvctlError as error:
            if error.code != part.absent:
                made.problem = error.as_dict()
            return made
        made.rows = [row for row in made.found.get(part.rows) or [] if part.fits(row)] if part.rows else []
        made.tile = part.tile(made.found) if part.tile else None
        return made

    def _page(self, part: Part) -> int:
        text = self._address.get(f"page-{part.id}", "1")
        return max(1, int(text[:9])) if text.isascii() and text.isdigit() else 1

    async def _ask(self, part: Part, values: Address) -> dict[str, Any]:
        fields = {**{name: str(value) for name, value in part.given}, **values}
        key = (part.operation, *sorted(fields.items()))
        if key not in self._known:
            self._known[key] = await self.call(part.operation, fields)
        return self._known[key]

    async def call(self, operation: str, fields: Address) -> dict[str, Any]:
        if operation == SESSIONS:
            return open_sessions(self._sessions, self._caller)
        work = partial(self._controller.call, operation, self._caller.principal, read(operation, fields))
        return dict(await anyio.to_thread.run_sync(work))


def open_sessions(sessions: Sessions, caller: Caller) -> dict[str, Any]:
    """One's own, or all for an administrator of accounts. Ages are seconds."""
    own = caller.session
    rows = [
        {
            "id": one.id, "account": one.account, "address": one.address, "opened_age": opened, "used_age": used,
            "fresh": sessions.is_fresh(one), "own": own is not None and one.id == own.id,
        }
        for one, opened, used in sessions.ages()
        if caller.principal.has(Role.ADMIN) or (own is not None and one.account == own.account)
    ]  # fmt: skip
    return {
        "name": caller.principal.name, "roles": sorted(caller.principal.roles), "tenant": caller.principal.tenant,
        "fresh": caller.principal.fresh, "fresh_seconds": FRESH, "idle_seconds": IDLE, "sessions": rows,
    }  # fmt: skip


def as_csv(shown: Shown) -> bytes:
    """The table as it is shown, every row of it."""
    from kvctl.controller.export import table_csv  # with Arrow, which a start need not wait for

    return table_csv(shown.rows, shown.part.columns)
