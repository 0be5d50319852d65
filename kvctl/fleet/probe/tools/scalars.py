"""Single values as command line tools print them, in JSON or in text: what is not clearly a value is None."""

from __future__ import annotations

import math
import re

from . import ToolOutputError, json_document

# Thousands separators of the locales the tools honour; Indian grouping (12,34,567) has pairs in front.
_GROUPED = re.compile(
    r"[0-9]{1,3}(?:([,.'\u2019 \u00a0\u202f])[0-9]{3})(?:\1[0-9]{3})*|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,32}")
_DECIMAL = re.compile(r"-?[0-9]{1,40}")
_UNSAID = {"", "-", "n/a", "na", "none", "null", "unknown", "not supported", "not available"}


def plain(text: str) -> str:
    """The text without terminal escapes and carriage returns, as a session on a switch leaves them."""
    return _ESCAPES.sub("", text).replace("\r", "").lstrip("\ufeff").replace("\u00a0", " ")


def load_json(text: str) -> object:
    """The one JSON document in `text`; warnings and prompts around it are passed over."""
    document: object = json_document(text, "the tool's")
    return document


def integer(value: object) -> int | None:
    """A whole number from a JSON value or a word: 7, 7.0, "7", "1,234", "0x1f"."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else None
    if not isinstance(value, str):
        return None
    word = value.strip()
    if _HEX.fullmatch(word):
        return int(word, 16)
    if _DECIMAL.fullmatch(word):
        return int(word)
    if _GROUPED.fullmatch(word):
        return int(re.sub(r"[^0-9]", "", word))
    return None


def count(value: object, most: int | None = None) -> int | None:
    """A number of things: never negative, and not above `most`."""
    number = integer(value)
    if number is None or number < 0 or (most is not None and number > most):
        return None
    return number


def words(value: object) -> str | None:
    """Text without its padding; None for a value that says nothing."""
    if not isinstance(value, str):
        return None
    text = value.replace("\x00", "").strip()
    return None if text.lower() in _UNSAID else text


def boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, str)):
        return {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}.get(
            str(value).strip().lower()
        )
    return None


def priorities(value: object) -> frozenset[int] | None:
    """Priorities 0..7 written as 3, "3", "3,4", "3 4" or "3-5"; None when it is anything else."""
    if isinstance(value, list):
        parts = [str(item) for item in value]
    else:
        parts = re.split(r"[\s,]+", str(value).strip()) if isinstance(value, (int, str)) else []
    found: set[int] = set()
    for part in parts:
        match = re.fullmatch(r"([0-7])(?:-([0-7]))?", part)
        if match is None:
            return None
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if high < low:
            return None
        found.update(range(low, high + 1))
    return frozenset(found) if found else None


def mapping(value: object) -> dict[str, object]:
    """`value` when it is a JSON object, else an empty one."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def items(value: object) -> list[dict[str, object]]:
    """The JSON objects of a JSON array; anything else in it is left out."""
    return [mapping(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Key and value lines as a dict. The same key with two values means two devices' outputs were joined."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise ToolOutputError("{} is given twice with different values".format(key))
    return found
