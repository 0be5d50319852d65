"""What a page of the console is made of. Who may use an operation is the table of operations' to say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal

Row = Mapping[str, Any]


def always(_: Row) -> bool:
    return True


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
    name: str
    label: str
    required: bool = False
    choices: tuple[str, ...] = ()
    long: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    operation: str
    label: str
    button: str
    fields: tuple[Field, ...]
    dry: bool = True
    style: str = ""  # danger: what would be done is shown first, and done from there


@dataclass(frozen=True, slots=True)
class Part:
    """One table of a page: an operation that takes nothing but a tenant, and which list of its answer is shown."""

    title: str
    operation: str
    rows: str
    columns: tuple[str, ...]
    empty: str
    actions: tuple[Action, ...] = ()
    fits: Callable[[Row], bool] = always  # which rows of the answer


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    title: str
    about: str
    parts: tuple[Part, ...] = ()
    forms: tuple[Form, ...] = field(default=())

    def open_to(self, who: Principal) -> bool:
        names = [part.operation for part in self.parts] + [form.operation for form in self.forms]
        return any(may(who, name) for name in names)


def may(who: Principal, name: str) -> bool:
    """Whether this principal could use an operation at all; `authorize` decides each time."""
    operation = OPERATIONS[name]
    bound = who.tenant is not None and (operation.site or not operation.names_tenant)
    return who.has(*operation.roles) and not bound
