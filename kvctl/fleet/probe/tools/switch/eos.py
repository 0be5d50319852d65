"""Arista EOS: `show priority-flow-control` (`show priority-flow-control status` in later releases)."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from .. import ToolOutputError
from ..scalars import plain, priorities


@dataclass(frozen=True)
class EosPfcPort:
    """`enabled` is the port's setting, `active` whether PFC works on the link now; None where it is not printed."""

    enabled: bool
    active: bool | None
    watchdog: bool | None
    priorities: frozenset[int] | None
    note: str = ""


@dataclass(frozen=True)
class EosPfc:
    """`global_enabled` does not mean that a port is: look at `ports`. A watchdog timeout of 0 is off."""

    global_enabled: bool | None
    hardware_priorities: frozenset[int] | None
    receive_priorities: frozenset[int] | None
    watchdog_timeout_s: float | None
    watchdog_recovery_s: float | None
    watchdog_polling_s: float | None
    watchdog_action: str | None
    ports: dict[str, EosPfcPort]


_PORT = r"\s*((?:Et|Ethernet|Po|Port-Channel)[0-9][0-9/.]*)"
_FLAGS = re.compile(_PORT + r"\s+([ED])\s+([A-])\s+([W-])(?:\s.*|)")
_WORDS = re.compile(_PORT + r"\s+(Yes|No)\b(.*)", re.IGNORECASE)


def parse_pfc(text: str) -> EosPfc:
    """Ports of the table, with the switch's own settings above it."""
    text = textwrap.dedent(plain(text))
    state = re.search(r"^Global PFC\s*:\s*(Enabled|Disabled)\s*$", text, re.MULTILINE)
    header = ""
    found: dict[str, EosPfcPort] = {}
    for line in text.splitlines():
        if re.match(r"\s*Port\s+(?:Status|Enabled)\s+Priorities\b", line):
            header = line
        elif header and re.match(_PORT + r"\s", line):
            port, row = _row(line, header)
            if found.setdefault(port, row) != row:
                raise ToolOutputError("{} is given twice with different values".format(port))
    if not header:
        raise ToolOutputError("no table of priority flow control")
    return EosPfc(
        global_enabled=state.group(1) == "Enabled" if state else None,
        hardware_priorities=_listed(text, r"The hardware supports PFC on priorities"),
        receive_priorities=_listed(text, r"PFC receive processing is enabled on priorities"),
        watchdog_timeout_s=_seconds(text, "timeout"),
        watchdog_recovery_s=_seconds(text, "recovery-time"),
        watchdog_polling_s=_seconds(text, "polling-interval"),
        watchdog_action=_action(text),
        ports=found,
    )


def _row(line: str, header: str) -> tuple[str, EosPfcPort]:
    start = header.index("Priorities")
    cell = re.match(r"\S.*?(?=\s{2,}|$)", _column(line, header, start))
    flags = _FLAGS.fullmatch(line)
    if flags:
        port, enabled, active, watchdog = flags.groups()
        return port, EosPfcPort(
            enabled == "E", active == "A", watchdog == "W", _priorities(cell, enabled == "E"), _note(line, header)
        )
    plain = _WORDS.fullmatch(line)
    if plain is None or "Active" not in header:
        raise ToolOutputError("not a row of the table: " + line.strip()[:60])
    active_word = _column(line, header, header.index("Active")).split()
    active_now = {"yes": True, "no": False}.get(active_word[0].lower()) if active_word else None
    enabled_now = plain.group(2).lower() == "yes"
    return plain.group(1), EosPfcPort(
        enabled_now, active_now, None, _priorities(cell, enabled_now), _note(line, header)
    )


def _column(line: str, header: str, start: int) -> str:
    """The cell under the header word at `start`, up to the next header word."""
    following = re.search(r"\S", header[start:].partition(" ")[2])
    word = len(header[start:].partition(" ")[0])
    end = start + word + 1 + following.start() if following else len(line)
    return line[start:end].strip()


def _priorities(cell: re.Match[str] | None, enabled: bool) -> frozenset[int] | None:
    """Printed as "3", "3,4", "3 4" or run together, "34"."""
    text = cell.group().strip() if cell else ""
    if text in ("", "-"):
        return None if enabled else frozenset()
    return priorities(" ".join(text)) if re.fullmatch(r"[0-7]{2,8}", text) else priorities(text)


def _note(line: str, header: str) -> str:
    start = header.find("Note")
    return line[start:].strip() if start >= 0 else ""


def _listed(text: str, phrase: str) -> frozenset[int] | None:
    match = re.search("^" + phrase + r"[ \t]+([0-7](?:[ \t][0-7])*)\s*$", text, re.MULTILINE)
    return priorities(match.group(1)) if match else None


def _seconds(text: str, what: str) -> float | None:
    match = re.search(r"^The PFC watchdog " + what + r" is ([0-9]{1,6}(?:\.[0-9]{1,3})?) second\(s\)", text, re.M)
    return float(match.group(1)) if match else None


def _action(text: str) -> str | None:
    match = re.search(r"^The PFC watchdog action is (\S+)\s*$", text, re.MULTILINE)
    return match.group(1) if match else None
