"""Frozen dataclasses to plain JSON values and back."""

from typing import Any, TypeVar

import msgspec

from kvctl.types.errors import KvctlError

T = TypeVar("T")


def to_builtins(value: object) -> Any:
    """Dict, list, str, int, float, bool and None. Sets come out sorted and keys are texts, so equal values give
    equal JSON."""
    return msgspec.to_builtins(value, str_keys=True, order="deterministic")


def from_builtins(data: Any, kind: type[T], *, where: str = "") -> T:
    """The dataclass `kind` from what `to_builtins` gave. Unknown keys are passed over; KV-DATA-001 for a wrong type."""
    try:
        return msgspec.convert(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise _unreadable(kind, where, str(error)) from error


def to_json(value: object) -> bytes:
    """One line of JSON without a newline."""
    return msgspec.json.encode(to_builtins(value))


def from_json(data: bytes | str, kind: type[T], *, where: str = "") -> T:
    """The dataclass `kind` from JSON text. KV-DATA-001 for text that is not JSON or not `kind`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(kind, where, str(error)) from error


def _unreadable(kind: type[Any], where: str, why: str) -> KvctlError:
    return KvctlError(
        "KV-DATA-001",
        f"not a {kind.__name__}",
        where=where,
        why=why,
        fix="it was written by another version of kvctl, or was edited",
    )
