"""A tier as far as sizing needs it, from `NAME:key=value,...`, and what the drives in it endure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvctl.sizing import units
from kvctl.types.errors import UsageError

DAYS_A_YEAR = 365.0


@dataclass(frozen=True, slots=True)
class Tier:
    """None: was not given. Nothing that needs it is computed then."""

    name: str
    bandwidth: float | None = None  # bytes a second that one restore gets
    latency: float | None = None  # seconds until the first byte
    drives: int | None = None
    drive: int | None = None  # bytes of one drive
    dwpd: float | None = None  # rated drive writes a day
    tbw: int | None = None  # rated bytes of one drive's life; takes the place of dwpd x drive x warranty
    warranty: float | None = None  # years that dwpd is rated for
    rewrite: float | None = None  # bytes the store writes for each byte it takes in: compaction, records' headers
    model: str = ""  # of the drive, for the reader

    @property
    def capacity(self) -> int | None:
        return self.drives * self.drive if self.drives and self.drive else None

    @property
    def rated_bytes(self) -> float | None:
        """What all drives together may be written in their rated life (JESD218: host writes)."""
        if not self.drives:
            return None
        if self.tbw:
            return float(self.drives * self.tbw)
        if self.dwpd and self.drive and self.warranty:
            return self.drives * self.drive * self.dwpd * self.warranty * DAYS_A_YEAR
        return None

    def years(self, bytes_a_day: float) -> float | None:
        """Until the rating is used up at so many stored bytes a day; None: not known, or nothing is written."""
        rated = self.rated_bytes
        if rated is None or bytes_a_day <= 0:
            return None
        return rated / (bytes_a_day * (self.rewrite or 1.0) * DAYS_A_YEAR)


def _count(text: str) -> int:
    value = units.number(text, "a whole number above 0")
    if value != int(value) or value < 1:
        raise _wrong(text, f"{text!r} is no number of drives")
    return int(value)


def _above_zero(text: str) -> float:
    value = units.number(text, "a number above 0")
    if not value:
        raise _wrong(text, f"{text!r} is not above 0")
    return value


KEYS: Mapping[str, Callable[[str], Any]] = {
    "bandwidth": units.rate,
    "latency": units.seconds,
    "drives": _count,
    "drive": units.size,
    "dwpd": _above_zero,
    "tbw": units.size,
    "warranty": _above_zero,
    "rewrite": _above_zero,
    "model": str,
}


def parse_tier(text: str) -> Tier:
    """UsageError KV-SIZE-006 and KV-SIZE-008."""
    name, _, rest = text.partition(":")
    if not name or not rest:
        raise _wrong(text, "a tier is a name, a colon and what is known about it")
    values: dict[str, Any] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in KEYS or not equals:
            raise _wrong(text, f"{part.strip()!r} is not one of {', '.join(KEYS)} with a value")
        if key in values:
            raise _wrong(text, f"{key} is given twice")
        values[key] = KEYS[key](value)
    return Tier(name.strip(), **values)


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(
        "KV-SIZE-008",
        "a tier cannot be read",
        where=f"--tier {text[:80]}",
        why=why,
        fix="for instance: flash:bandwidth=24GB/s,latency=1ms,drives=4,drive=3.84TB,dwpd=1,warranty=5",
    )
