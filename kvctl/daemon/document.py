"""YAML text to plain data with the line of every field, for the daemon's configuration.

Scalars stay text, as written: the type of the field they stand in decides what they are, so that a key of 64 digits is
never a number. Two equal keys, anchors and tags are refused: what the file says is what one reads in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from kvctl.types.errors import UsageError

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
NULL = frozenset({"", "~", "null", "Null", "NULL"})
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path = tuple[str | int, ...]
Event = Any  # PyYAML's events have no types that say which fields each has


@dataclass
class Document:
    """dict, list, str and None, and where each part stands."""

    name: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of a field, or of the nearest part around it that is written in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1

    def where(self, path: Path) -> str:
        return f"{self.name}:{self.line(path)}"


def read(raw: bytes, name: str) -> Document:
    """Raises UsageError KV-STORE-003 or KV-STORE-004 with the line."""
    if len(raw) > MAX_BYTES:
        raise UsageError("KV-STORE-003", "the configuration is too large", where=name, why=f"over {MAX_BYTES} bytes")
    try:
        events = list(yaml.parse(raw.decode(), Loader=Loader))
    except UnicodeDecodeError as bad:
        raise UsageError(
            "KV-STORE-003", "the configuration is not UTF-8", where=name, why=str(bad), fix="see docs/kvstored.md"
        ) from bad
    except yaml.YAMLError as bad:
        mark = getattr(bad, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        why = getattr(bad, "problem", None) or str(bad)
        raise UsageError(
            "KV-STORE-003", "the configuration is not YAML", where=where, why=why, fix="see docs/kvstored.md"
        ) from bad
    document = Document(name)
    rest: Iterator[Event] = iter(
        event for event in events if not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent)
    )
    if next(rest, None) is None:
        raise UsageError("KV-STORE-003", "the configuration is empty", where=name, fix="see docs/kvstored.md")
    document.data = _value(document, next(rest), rest, ())
    next(rest)  # the document's end
    second = next(rest, None)
    if second is not None:
        raise _refuse(document, second, "a second document begins here")
    return document


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _refuse(document: Document, event: Event, why: str) -> UsageError:
    where = f"{document.name}:{_line(event)}"
    return UsageError(
        "KV-STORE-003",
        "the configuration is not one plain YAML document",
        where=where,
        why=why,
        fix="see docs/kvstored.md",
    )


def _value(document: Document, event: Event, rest: Iterator[Event], path: Path) -> Any:
    document.lines.setdefault(path, _line(event))
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise _refuse(document, event, "anchors and aliases are not read")
    if len(path) > MAX_DEPTH:
        raise _refuse(document, event, f"more than {MAX_DEPTH} levels")
    if getattr(event, "tag", None) not in (None, "!"):
        raise _refuse(document, event, f"the tag {event.tag} is not read")
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(document, rest, path)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(event := next(rest), yaml.SequenceEndEvent):
            items.append(_value(document, event, rest, (*path, len(items))))
        return items
    plain = event.implicit[0]  # not quoted
    return None if plain and event.value in NULL else event.value


def _mapping(document: Document, rest: Iterator[Event], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        event = next(rest)
        if isinstance(event, yaml.MappingEndEvent):
            return found
        if not isinstance(event, yaml.ScalarEvent):
            raise _refuse(document, event, "a key is not a word")
        key, line = event.value, _line(event)
        if key in found:
            where = f"{document.name}:{line}"
            first = f"first in line {document.line((*path, key))}"
            raise UsageError("KV-STORE-004", f"the key {key!r} stands twice", where=where, why=first, fix="keep one")
        document.lines[*path, key] = line
        found[key] = _value(document, next(rest), rest, (*path, key))
