"""YAML text to plain data, with the place of every key and value.

PyYAML's own composer recurses, expands aliases without a limit, keeps the last of two equal keys and follows YAML 1.1,
where NO is false and 22:30 is 1350. Here its events are composed with an explicit stack and limits, and plain scalars
follow the YAML 1.2 core schema; whatever that leaves as text stays text exactly as written.
"""

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from kvctl.fleet.inventory.problems import (
    BAD_VALUE,
    DUPLICATE_KEY,
    NOT_YAML,
    TOO_LARGE,
    InventoryError,
    Problem,
    field_name,
    shorten,
)

if TYPE_CHECKING:
    Loader = yaml.SafeLoader
else:
    Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_VALUES = 200_000  # after alias expansion; a thousand nodes need about 20,000

# The characters that YAML forbids (PyYAML refuses them too, but its C and Python readers place them differently).
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
NULL = frozenset({"", "~", "null", "Null", "NULL"})
BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,4})?")

Path = tuple[str | int, ...]
Place = tuple[int, int]  # line, column; both from 1


@dataclass(frozen=True, eq=False)
class Scalar:
    text: str
    plain: bool  # unquoted and untagged: what it is depends on the field
    place: Place


@dataclass(eq=False)
class Sequence:
    place: Place
    items: list["Value"] = field(default_factory=list)


@dataclass(eq=False)
class Mapping:
    place: Place
    pairs: list[tuple["Value", "Value"]] = field(default_factory=list)
    key: "Value | None" = None  # read, still without its value


Value = Scalar | Sequence | Mapping


@dataclass
class Tree:
    """Plain data (dict, list, str, int, float, bool, None) and where each part stands."""

    name: str
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)  # where the key is written
    values: dict[Path, Place] = field(default_factory=dict)
    plain: dict[Path, str] = field(default_factory=dict)  # unquoted scalars as written
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """The value's place, or that of the nearest part of the document around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.values:
                return self.values[path[:length]]
        return (1, 1)

    def key_place(self, path: Path) -> Place:
        return self.keys.get(path) or self.place(path)

    def at(self, path: Path) -> Any:
        """The data under `path`, or None."""
        here = self.data
        for part in path:
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                return None
        return here

    def replace(self, path: Path, value: Any) -> None:
        if path:
            self.at(path[:-1])[path[-1]] = value
        else:
            self.data = value


def read(raw: bytes, name: str) -> Tree:
    """Raises InventoryError when nothing can be said about the fields: not YAML, or too large."""
    tree = Tree(name)
    root = _compose(_decode(raw, name), name)
    _Convert(tree).value(root, ())
    return tree


def _fail(name: str, place: Place, code: str, problem: str, allowed: str = "") -> InventoryError:
    return InventoryError(name, [Problem(*place, "", code, problem, allowed)])


def _decode(raw: bytes, name: str) -> str:
    if len(raw) > MAX_BYTES:
        raise _fail(name, (1, 1), TOO_LARGE, f"the file has {len(raw)} bytes", f"at most {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        place = (before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise _fail(name, place, NOT_YAML, f"byte 0x{raw[error.start]:02x} is not UTF-8", "UTF-8 text") from error
    if found := FORBIDDEN.search(text):
        at = found.start()
        place = (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        raise _fail(name, place, NOT_YAML, f"character U+{ord(text[at]):04X} is not allowed in YAML")
    return text


def _mark(mark: Any) -> Place:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _compose(text: str, name: str) -> Value:
    composer = _Composer(name)
    try:
        for event in yaml.parse(text, Loader=Loader):
            composer.feed(event)
    except yaml.MarkedYAMLError as error:
        place = _mark(error.problem_mark or error.context_mark)
        why = ", ".join(part for part in (error.context, error.problem) if part)
        if "nesting depth" in why:  # libyaml reads ahead of its events and has a limit of its own
            raise _fail(name, place, TOO_LARGE, f"nested deeper than {MAX_DEPTH} levels") from error
        raise _fail(name, place, NOT_YAML, f"not YAML: {shorten(why, 120)}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML: an escape beyond Unicode is a ValueError
        raise _fail(name, composer.last, NOT_YAML, f"not YAML: {shorten(str(error), 120)}") from error
    if composer.root is None:
        raise _fail(name, (1, 1), NOT_YAML, "the file is empty", "a mapping with at least site and nodes")
    return composer.root


class _Composer:
    """Events to values. The stack holds the open collections; its length is the depth."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root: Value | None = None
        self.last: Place = (1, 1)
        self.stack: list[Sequence | Mapping] = []
        self.anchors: dict[str, Value] = {}
        self.count = 0

    def feed(self, event: yaml.Event) -> None:
        self.last = place = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self.add(self.resolve(str(event.anchor), place))
        elif isinstance(event, yaml.ScalarEvent):
            self.check_tag(event.tag, place, ("tag:yaml.org,2002:str", "!"))
            value = Scalar(event.value, not event.style and event.tag is None, place)
            self.start(event.anchor, value)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.check_tag(event.tag, place, ("tag:yaml.org,2002:seq", "!"))
            self.open(event.anchor, Sequence(place))
        elif isinstance(event, yaml.MappingStartEvent):
            self.check_tag(event.tag, place, ("tag:yaml.org,2002:map", "!"))
            self.open(event.anchor, Mapping(place))
        elif isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise _fail(self.name, place, NOT_YAML, "a second document begins here", "one document a file")

    def check_tag(self, tag: str | None, place: Place, allowed: tuple[str, ...]) -> None:
        if tag is not None and tag not in allowed:
            raise _fail(self.name, place, NOT_YAML, f"tag {shorten(tag)!r} is not supported", "no tags, or !!str")

    def resolve(self, anchor: str, place: Place) -> Value:
        if anchor not in self.anchors:
            raise _fail(self.name, place, NOT_YAML, f"alias *{shorten(anchor)} has no anchor before it")
        value = self.anchors[anchor]
        if any(value is outer for outer in self.stack):
            raise _fail(self.name, place, TOO_LARGE, f"alias *{shorten(anchor)} contains itself")
        return value

    def start(self, anchor: str | None, value: Value) -> None:
        if anchor is not None:
            self.anchors[anchor] = value
        self.add(value)

    def open(self, anchor: str | None, value: Sequence | Mapping) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise _fail(self.name, value.place, TOO_LARGE, f"nested deeper than {MAX_DEPTH} levels")
        self.start(anchor, value)
        self.stack.append(value)

    def add(self, value: Value) -> None:
        self.count += 1
        if self.count > MAX_VALUES:
            raise _fail(self.name, value.place, TOO_LARGE, f"more than {MAX_VALUES} values")
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top, Sequence):
            top.items.append(value)
        elif top.key is None:
            top.key = value
        else:
            top.pairs.append((top.key, value))
            top.key = None


class _Convert:
    """Values to plain data, aliases expanded. Recursion ends at MAX_DEPTH, work at MAX_VALUES."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.count = 0

    def value(self, value: Value, path: Path, key: Place | None = None) -> Any:
        self.count += 1
        if self.count > MAX_VALUES:
            raise _fail(self.tree.name, value.place, TOO_LARGE, f"aliases expand to more than {MAX_VALUES} values")
        if len(path) > MAX_DEPTH:
            raise _fail(self.tree.name, value.place, TOO_LARGE, f"aliases nest deeper than {MAX_DEPTH} levels")
        if key:
            self.tree.keys[path] = key
        self.tree.values[path] = value.place
        data: Any
        if isinstance(value, Scalar):
            data = self.scalar(value, path)
        elif isinstance(value, Sequence):
            data = [self.value(item, (*path, i)) for i, item in enumerate(value.items)]
        else:
            data = self.mapping(value, path)
        if not path:
            self.tree.data = data
        return data

    def scalar(self, scalar: Scalar, path: Path) -> Any:
        if CONTROL.search(scalar.text):
            self.problem(scalar.place, path, BAD_VALUE, "has a line break or a control character", "one line of text")
        if not scalar.plain:
            return scalar.text
        self.tree.plain[path] = scalar.text
        return typed(scalar.text)

    def mapping(self, mapping: Mapping, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in self.merged(mapping, path):
            if not isinstance(key, Scalar):
                self.problem(key.place, path, BAD_VALUE, "a key is a list or a mapping", "text")
            elif CONTROL.search(key.text):
                self.problem(key.place, path, BAD_VALUE, "a key has a line break or a control character", "text")
            elif key.text in data:
                first = self.tree.keys[(*path, key.text)][0]
                self.problem(
                    key.place, (*path, key.text), DUPLICATE_KEY, f"the key is already on line {first}", "each key once"
                )
            else:
                data[key.text] = self.value(value, (*path, key.text), key.place)
        return data

    def merged(self, mapping: Mapping, path: Path, depth: int = 0) -> list[tuple[Value, Value]]:
        """The pairs with `<<: *other` put in; keys written here win, and of two sources the earlier."""
        pairs = [(k, v) for k, v in mapping.pairs if not _is_merge(k)]
        taken = {k.text for k, _ in pairs if isinstance(k, Scalar)}
        for key, value in mapping.pairs:
            if not _is_merge(key):
                continue
            for source in value.items if isinstance(value, Sequence) else [value]:
                if not isinstance(source, Mapping):
                    self.problem(key.place, path, BAD_VALUE, "<< merges something else than a mapping", "<<: *anchor")
                    continue
                self.count += 1 + len(source.pairs)
                if depth >= MAX_DEPTH or self.count > MAX_VALUES:
                    raise _fail(self.tree.name, key.place, TOO_LARGE, "<< merges expand to too much")
                inner = self.merged(source, path, depth + 1)
                new = [(k, v) for k, v in inner if not (isinstance(k, Scalar) and k.text in taken)]
                pairs += new
                taken |= {k.text for k, _ in new if isinstance(k, Scalar)}
        return pairs

    def problem(self, place: Place, path: Path, code: str, problem: str, allowed: str) -> None:
        self.tree.problems.append(Problem(*place, field_name(path), code, problem, allowed))


def _is_merge(key: Value) -> bool:
    return isinstance(key, Scalar) and key.plain and key.text == "<<"


def typed(text: str) -> str | int | float | bool | None:
    """A plain scalar by the YAML 1.2 core schema, minus what people misread: 0x1F, 010, 1_000, .inf stay text."""
    if text in NULL:
        return None
    if text in BOOL:
        return BOOL[text]
    if INT.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text
