"""What a policy says, as rows: who runs which site, which tier is where, which tenant's bytes may be where how long."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from kvctl.types.chunks import TierName

ANY_TIER = "*"
TIERS = (*map(str, TierName), ANY_TIER)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
DURATION = re.compile(r"([0-9]{1,9})([smhdwy])")
LONGEST = 100 * UNITS["y"]

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Title = Annotated[str, Meta(min_length=1, max_length=120)]
Class = Literal["common", "conversation", "agent", "weights"]


class Entity(Struct, frozen=True, forbid_unknown_fields=True):
    """A legal entity: the country it sits in, and the country of whoever controls it."""

    name: Title
    country: str
    controlled_by: str = ""  # "": its own country
    role: Literal["controller", "processor", "subprocessor"] = "processor"

    @property
    def key(self) -> str:
        return self.name


class Site(Struct, frozen=True, forbid_unknown_fields=True):
    """Where hardware stands, and which entity runs it."""

    name: Name
    country: str
    entity: Title

    @property
    def key(self) -> str:
        return self.name


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """Which site a store's tier is at. The tier `*` stands for each that is not named."""

    store: Name
    site: Name
    tier: str = ANY_TIER

    @property
    def key(self) -> str:
        return f"{self.store}/{self.tier}"


class Residency(Struct, frozen=True, forbid_unknown_fields=True):
    """The countries in which a tenant's chunks may lie, be computed with, and be supported from; none: nowhere."""

    tenant: Name
    storage_countries: tuple[str, ...]
    processing_countries: tuple[str, ...] | None = None  # None: as storage
    support_countries: tuple[str, ...] | None = None
    controlled_by: Literal["any", "same"] = "any"  # same: the site's entity and who controls it are bound as well

    @property
    def key(self) -> str:
        return self.tenant


class Retention(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds. `maximum` and `idle` of None: no end."""

    tenant: Name
    kind: Class
    minimum: int = 0
    maximum: int | None = None
    idle: int | None = None

    @property
    def key(self) -> str:
        return f"{self.tenant}/{self.kind}"


class Subprocessor(Struct, frozen=True, forbid_unknown_fields=True):
    tenant: Name
    entity: Title
    country: str
    notified: str | None = None  # a date
    effective: str | None = None

    @property
    def key(self) -> str:
        return f"{self.tenant}/{self.entity}"


Row = Entity | Site | Place | Residency | Retention | Subprocessor
SECTIONS: dict[str, type[Any]] = {
    "entities": Entity, "sites": Site, "places": Place, "residency": Residency, "retention": Retention,
    "subprocessors": Subprocessor,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Jurisdiction:
    """Whose laws reach a place: where it stands, where its entity sits, where whoever controls that entity sits."""

    site: str
    country: str
    entity_country: str
    controlled_by: str

    @property
    def countries(self) -> frozenset[str]:
        return frozenset({self.country, self.entity_country, self.controlled_by})


@dataclass(frozen=True, slots=True)
class Policy:
    """All that is in force, by each row's key."""

    entities: Mapping[str, Entity]
    sites: Mapping[str, Site]
    places: Mapping[str, Place]
    residency: Mapping[str, Residency]
    retention: Mapping[str, Retention]
    subprocessors: Mapping[str, Subprocessor]

    def where(self, store: str, tier: str) -> Jurisdiction | None:
        """None: no place is declared for it."""
        place = self.places.get(f"{store}/{tier}") or self.places.get(f"{store}/{ANY_TIER}")
        return self.at(place.site) if place else None

    def at(self, site: str) -> Jurisdiction | None:
        found = self.sites.get(site)
        entity = self.entities.get(found.entity) if found else None
        if found is None or entity is None:
            return None
        return Jurisdiction(site, found.country, entity.country, entity.controlled_by)


EMPTY = Policy({}, {}, {}, {}, {}, {})


def of_rows(rows: Mapping[str, list[dict[str, Any]]]) -> Policy:
    """A policy from rows as plain mappings, by section."""
    made: dict[str, dict[str, Any]] = {}
    for section, kind in SECTIONS.items():
        found = [msgspec.convert(row, kind) for row in rows.get(section, ())]
        made[section] = {row.key: row for row in found}
    return Policy(**made)


def seconds(text: str) -> int | None:
    """30d, 12h, 0s; None for `never`. A year is 365 days. ValueError for anything else."""
    if text == "never":
        return None
    found = DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: 90s, 15m, 12h, 30d, 2w, 1y or never")
    count = int(found[1]) * UNITS[found[2]]
    if count > LONGEST:
        raise ValueError(f"{text} is longer than 100y; write never")
    return count
