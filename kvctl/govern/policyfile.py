"""A policy file: a closed vocabulary in plain YAML (docs/policies.md).

Every scalar is a text, whatever YAML 1.1 would take it for: the country NO is Norway.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from kvctl.govern.countries import COUNTRIES
from kvctl.govern.policy import (
    SECTIONS,
    TIERS,
    Class,
    Entity,
    Name,
    Place,
    Policy,
    Residency,
    Retention,
    Site,
    Subprocessor,
    seconds,
)  # fmt: skip
from kvctl.types.errors import UsageError

MOST = 1 << 20  # bytes of a file
AT = re.compile(r"^(.*) - at `\$(.*)`$", re.DOTALL)
Path = tuple[str | int, ...]


class RetentionLine(Struct, frozen=True, forbid_unknown_fields=True, rename={"kind": "class"}):
    """Retention as it is written: 30d, 12h, 0s, never."""

    tenant: Name
    kind: Class
    minimum: str = "0s"
    maximum: str = "never"
    idle: str = "never"


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """A section that is left out stays as it is in force; one that is there is whole."""

    schema: Literal["kvctl.policy/1"]
    entities: list[Entity] | None = None
    sites: list[Site] | None = None
    places: list[Place] | None = None
    residency: list[Residency] | None = None
    retention: list[RetentionLine] | None = None
    subprocessors: list[Subprocessor] | None = None


def merged(now: Policy, text: str) -> Policy:
    """What is in force when this file is. Entities and sites that it leaves out stay known.

    UsageError KV-POL-001 (no YAML), 002 (a word that is not in the vocabulary), 003 (what it says cannot be), with
    every problem and its line.
    """
    document, lines = read(text)
    try:
        file = msgspec.convert(document, File)
    except msgspec.ValidationError as bad:
        what, path = _place_of(str(bad))
        raise UsageError(
            "KV-POL-002", "the policy file has what no policy has", where=_where(path, lines), why=what,
            fix="docs/policies.md has every word of it",
        ) from bad  # fmt: skip
    problems: list[tuple[Path, str]] = []
    made: dict[str, dict[str, Any]] = {}
    for section in SECTIONS:
        given = getattr(file, section)
        kept = dict(getattr(now, section))
        if given is not None:
            rows = _keyed(section, given, problems)
            kept = kept | rows if section in ("entities", "sites") else rows
        made[section] = kept
    policy = Policy(**made)
    problems += _unfounded(file, policy)
    if problems:
        found = "\n         ".join(f"{_where(path, lines)}: {what}" for path, what in problems)
        raise UsageError("KV-POL-003", "the policy file cannot be put in force", why=found)
    return policy


def read(text: str) -> tuple[Any, dict[Path, int]]:
    """The file's plain values, and the line of each."""
    lines: dict[Path, int] = {}
    try:
        if len(text) > MOST:
            raise ValueError(f"it is larger than {MOST >> 10} KiB")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.BaseLoader)):
            raise ValueError("anchors and aliases are not part of the vocabulary")
        node = yaml.compose(text, yaml.BaseLoader)
        return (None if node is None else _plain(node, (), lines)), lines
    except (yaml.YAMLError, ValueError, RecursionError) as bad:
        raise UsageError("KV-POL-001", "this is not a policy file", why=str(bad) or "it is nested too deep") from bad


def _plain(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_plain(part, (*path, i), lines) for i, part in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    made: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in made:
            raise ValueError(f"line {key.start_mark.line + 1}: {getattr(key, 'value', key)!r} is there twice")
        made[key.value] = _plain(value, (*path, key.value), lines)
    return made


def _keyed(section: str, given: list[Any], problems: list[tuple[Path, str]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for i, line in enumerate(given):
        try:
            row = NORMAL[section](line)
        except ValueError as bad:
            problems.append(((section, i), str(bad)))
            continue
        if row.key in rows:
            problems.append(((section, i), f"{row.key} is there twice"))
        rows[row.key] = row
    return rows


def _country(code: str) -> str:
    if code not in COUNTRIES:
        raise ValueError(f"{code!r} is no country: ISO 3166-1 alpha-2, in capitals, such as DE")
    return code


def _countries(codes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({_country(code) for code in codes}))


def _entity(row: Entity) -> Entity:
    return msgspec.structs.replace(
        row, country=_country(row.country), controlled_by=_country(row.controlled_by or row.country)
    )


def _site(row: Site) -> Site:
    _country(row.country)
    return row


def _place(row: Place) -> Place:
    if row.tier not in TIERS:
        raise ValueError(f"{row.tier!r} is no tier: {', '.join(TIERS)}")
    return row


def _residency(row: Residency) -> Residency:
    storage = _countries(row.storage_countries)
    processing, support = row.processing_countries, row.support_countries
    return msgspec.structs.replace(
        row, storage_countries=storage, processing_countries=storage if processing is None else _countries(processing),
        support_countries=storage if support is None else _countries(support),
    )  # fmt: skip


def _retention(row: RetentionLine) -> Retention:
    least, most, idle = seconds(row.minimum), seconds(row.maximum), seconds(row.idle)
    if least is None:
        raise ValueError("minimum is a duration such as 0s or 12h; a chunk is never kept without end")
    if most is not None and most < least:
        raise ValueError(f"maximum {row.maximum} is shorter than minimum {row.minimum}")
    return Retention(row.tenant, row.kind, least, most, idle)


def _subprocessor(row: Subprocessor) -> Subprocessor:
    _country(row.country)
    for day in (row.notified, row.effective):
        if day is not None:
            date.fromisoformat(day)
    return row


NORMAL: dict[str, Callable[[Any], Any]] = {
    "entities": _entity, "sites": _site, "places": _place, "residency": _residency, "retention": _retention,
    "subprocessors": _subprocessor,
}  # fmt: skip


def _unfounded(file: File, policy: Policy) -> Iterator[tuple[Path, str]]:
    """What the file points to and nobody has declared."""
    for i, site in enumerate(file.sites or ()):
        if site.entity not in policy.entities:
            yield ("sites", i, "entity"), f"there is no entity {site.entity!r}"
    for i, place in enumerate(file.places or ()):
        if place.site not in policy.sites:
            yield ("places", i, "site"), f"there is no site {place.site!r}"


def _place_of(message: str) -> tuple[str, Path]:
    found = AT.match(message)
    if found is None:
        return message, ()
    parts = re.findall(r"\.([^.\[]+)|\[(\d+)\]", found[2])
    return found[1], tuple(int(number) if number else name for name, number in parts)


def _where(path: Path, lines: Mapping[Path, int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    while path not in lines and path:
        path = path[:-1]
    return f"line {lines.get(path, 1)}" + (f" ({text})" if text else "")
