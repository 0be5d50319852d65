"""Parsers of what the tools on a node print: pure text in, frozen dataclasses out, standard library only.

They run on the controller over raw tool output and, through Ansible's module_utils, on nodes with Python 3.9.
A field that the output does not give is None, never zero. A text that is not the tool's output raises ToolOutputError.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Za-z0-9]|\x1b[=>]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_PROMPT = re.compile(r"\s*(?:\[?[\w.-]+@[\w.-]+(?:[: ][^#$>]{0,80})?\]?\s?)?[#$](?:\s|$)|\+ \S|\[sudo\] password for ")
# A line that opens a document; "[root@node ~]#", "[sudo] password" and the kernel's "[   1.5]" do not.
_JSON_START = re.compile(r'^[ \t\ufeff]*(?=\{|\[[ \t\r]*(?:[\[{"\]]|-?[0-9][0-9., ]*\][ \t\r]*$|$))', re.MULTILINE)
_ABSENT = frozenset(("", "N/A", "NA", "n/a", "--", "-"))


class ToolOutputError(ValueError):
    """The text is not what the tool prints; the message says what was missing or wrong."""


def text_lines(text: str) -> list[str]:
    """The lines without terminal escapes, a byte order mark, carriage returns, NULs and trailing blanks.

    The no-break blanks of copies from web pages become plain ones.
    """
    bare = _ESCAPES.sub("", text).lstrip("\ufeff").replace("\u00a0", " ")
    return [line.replace("\r", "").replace("\x00", "").rstrip() for line in bare.split("\n")]


def is_prompt(line: str) -> bool:
    """A shell's prompt, with or without the command behind it, or a command as `set -x` echoes it."""
    return bool(_PROMPT.match(line))


def reject(tool: str, text: str) -> NoReturn:
    """Raises ToolOutputError, quoting the first line that says something (an error message, most often)."""
    said = next((line.strip() for line in text_lines(text) if line.strip()), "")
    raise ToolOutputError(f"not {tool} output: {said[:120]!r}" if said else f"{tool} printed nothing")


def integer(text: str | None) -> int | None:
    """A plain decimal integer, or None; unlike int() it takes no underscores, blanks or foreign digits."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def decimal(text: str | None) -> float | None:
    return float(text) if text is not None and _DECIMAL.fullmatch(text) else None


def given(text: str | None) -> str | None:
    """The text stripped; None for the spellings of "no value" that these tools use."""
    stripped = "" if text is None else text.strip()
    return None if stripped in _ABSENT else stripped


def agree(old: Any, new: Any, what: str) -> Any:
    """`new`, unless `old` already says otherwise: two values for one field mean two outputs in one text."""
    if old is not None and new is not None and old != new:
        raise ToolOutputError(f"contradicts itself: {what} is both {old!r} and {new!r}")
    return old if new is None else new


def json_document(text: str, tool: str) -> Any:
    """The one JSON document in the text; lines around it (warnings, prompts) are passed over."""
    body = "\n".join(text_lines(text))
    start = _JSON_START.search(body)
    if start is None:
        reject(tool, text)
    try:
        document, end = json.JSONDecoder(parse_constant=lambda _name: None).raw_decode(body, start.end())
    except RecursionError:
        raise ToolOutputError(f"not {tool} JSON: nested too deeply") from None
    except ValueError as error:
        raise ToolOutputError(f"not {tool} JSON: {error}") from error
    if _JSON_START.search(body, end) or re.match(r'\s*(?:\{|\[\s*[\[{"\]])', body[end:]):
        raise ToolOutputError(f"several {tool} JSON documents in one text")
    return document


def looks_like_json(text: str) -> bool:
    return _JSON_START.search(_ESCAPES.sub("", text)) is not None


def json_object(text: str, tool: str) -> dict[str, Any]:
    """The JSON document, which must be an object, alone or as the one item of a list."""
    document = json_document(text, tool)
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        raise ToolOutputError(f"not {tool} JSON: no object")
    return document


def members(value: Any) -> dict[str, Any]:
    """The JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def json_integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def json_flag(value: Any) -> bool | None:
    """A JSON boolean, or iproute2's and ethtool's "on"/"off" in its place."""
    return value if isinstance(value, bool) else {"on": True, "off": False}.get(value if isinstance(value, str) else "")


def json_text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) else None
