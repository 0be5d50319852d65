"""What a page of the console is made of. Who may use an operation is the table of operations' to say."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal

Row = Mapping[str, Any]
Document = Mapping[str, Any]
SESSIONS = "session.ls"  # of the console itself: whose browsers are signed in


def always(_: Row) -> bool:
    return True


def never(_: Row) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Action:
    """A button in a row. `fills`: a field of the request, and the row's column that fills it, or `=` and a text."""

    operation: str
    label: str
    fills: tuple[tuple[str, str], ...]
    fits: Callable[[Row], bool] = always
    style: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """`kind`: text, number, time, long, roles or flag. `suggest`: names that are known, of tenants, stores or packs."""

    name: str
    label: str
    required: bool = False
    choices: tuple[str, ...] = ()
    kind: str = "text"
    hint: str = ""
    suggest: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """`fills`: fields that the address gives. Those of the style `danger` show first what would be done."""

    operation: str
    label: str
    button: str
    fields: tuple[Field, ...]
    dry: bool = True
    style: str = ""
    about: str = ""
    fills: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the head of a page."""

    value: str
    note: str = ""
    tone: str = "good"


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a page: what an operation answers, as a table of one of its lists or as `view` draws it.

    `takes`: fields of the request that the address may give; `needs`: those without which nothing is asked for.
    """

    title: str
    operation: str
    rows: str = ""
    columns: tuple[str, ...] = ()
    empty: str = ""
    actions: tuple[Action, ...] = ()
    fits: Callable[[Row], bool] = always  # which rows of the answer
    view: str = "table"  # web/templates/parts/<view>.html
    about: str = ""
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    given: tuple[tuple[str, Any], ...] = ()
    filters: tuple[Field, ...] = ()
    live: str = ""  # beginnings of kinds of events after which it is read again
    busy: Callable[[Row], bool] = never  # a row that changes without an event: read again every few seconds
    calm: int = 0  # seconds at least between two readings that events cause: it is work
    per: int = 50
    absent: str = ""  # the code of the error that means: there is none
    tile: Callable[[Document], Tile] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """All that the address may give."""
        return tuple(dict.fromkeys((*self.takes, *self.needs)))

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Page:
    """`path` may have names in braces, which parts take; such a page is not in the menu, but below `parent`."""

    path: str
    title: str
    about: str
    parts: tuple[Part, ...] = ()
    forms: tuple[Form, ...] = field(default=())
    group: str = ""
    icon: str = ""
    everyone: bool = False

    @property
    def in_menu(self) -> bool:
        return "{" not in self.path

    @property
    def parent(self) -> str:
        return "/" + self.path.split("/")[1]

    def open_to(self, who: Principal) -> bool:
        names = [part.operation for part in self.parts] + [form.operation for form in self.forms]
        return self.everyone or any(may(who, name) for name in names)


def may(who: Principal, name: str) -> bool:
    """Whether this principal could use an operation at all; `authorize` decides each time."""
    if name == SESSIONS:
        return True  # one's own at least
    operation = OPERATIONS[name]
    bound = who.tenant is not None and (operation.site or not operation.names_tenant)
    return who.has(*operation.roles) and not bound
