"""Sizes, rates, token counts and times as people write them. What could be read in two ways is refused."""

import math
import re

from kvctl.types.errors import UsageError

SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
NUMBER = r"([0-9]+(?:\.[0-9]+)?)\s*"
SIZE = re.compile(NUMBER + r"([kKMGTP]?|[KMGTP]i)B")
RATE = re.compile(NUMBER + r"([kKMGTP]?|[KMGTP]i)(B|bit)/s")
TOKENS = re.compile(NUMBER + r"([kKMG]?)\s*tok(?:en)?s?")
SECONDS = re.compile(NUMBER + r"(us|ms|s)")


def size(text: str) -> int:
    """Bytes: `500GB`, `1TiB`."""
    found = SIZE.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise _wrong(text, "a size above 0")
    return round(float(found[1]) * _scale(found[2]))


def rate(text: str) -> float:
    """Bytes a second: `24GB/s`, `3GiB/s`, `100Gbit/s`."""
    found = RATE.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise _wrong(text, "a rate above 0, in B/s or bit/s")
    return float(found[1]) * _scale(found[2]) / (8 if found[3] == "bit" else 1)


def tokens(text: str) -> int | None:
    """Tokens: `3Mtokens`; None when the text does not count tokens."""
    found = TOKENS.fullmatch(text.strip())
    return round(float(found[1]) * _scale(found[2])) if found else None


def seconds(text: str) -> float:
    """Seconds: `0.2s`, `15ms`, `189us`, or a bare number of seconds."""
    found = SECONDS.fullmatch(text.strip())
    if found:
        return float(found[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[found[2]]
    return number(text, "seconds, 0 or more")


def number(text: str, allowed: str = "a number, 0 or more") -> float:
    """A plain number, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise _wrong(text, allowed)
    return value


def _scale(prefix: str) -> int:
    return BINARY.get(prefix) or SCALE["k" if prefix == "K" else prefix]


def _wrong(text: str, allowed: str) -> UsageError:
    return UsageError(
        "KV-SIZE-006",
        f"{text[:60]!r} cannot be read",
        why=f"what is asked for here: {allowed}",
        fix="give a number with its unit as in: 1TiB, 500GB, 24GB/s, 100Gbit/s, 3Mtokens, 15ms",
    )
