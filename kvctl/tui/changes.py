"""What a reader may change, as data: to which rows, with which inputs, and what is shown before a yes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvctl.types.errors import KvctlError

Doc = Mapping[str, Any]
Ask = Callable[[str, Any], dict[str, Any]]  # an operation and its request
Given = Mapping[str, str]  # what was typed into fields


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a form. `choices`: the only texts that are taken; `secret`: nothing is shown."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Proposed:
    """A change as it would be made. `text` is what the reader agrees to; `do` makes it and says what came of it."""

    text: str
    do: Callable[[Ask], str]


@dataclass(frozen=True, slots=True)
class Change:
    """`propose` asks the controller, in a thread, and changes nothing. `many`: marked rows are taken together."""

    key: str
    name: str
    propose: Callable[[Ask, Sequence[Doc], Given], Proposed]
    fields: Callable[[Doc], tuple[Field, ...]] | None = None
    many: bool = False


def each(names: Iterable[str], do: Callable[[str], str]) -> str:
    """One after the other: one that is refused stops none of the rest, and says why."""
    said = []
    for name in names:
        try:
            said.append(f"{name}: {do(name)}")
        except KvctlError as error:
            said.append(f"!! {name}: {told(error)}")
    return "\n".join(said)


def told(error: KvctlError) -> str:
    return ": ".join(part for part in (error.code, error.what, error.why) if part)
