"""SONiC: `show pfc ...`, `show pfcwd ...` and `ecnconfig -l`.

Format: sonic-utilities pfc/main.py, scripts/pfcstat, pfcwd/main.py, scripts/ecnconfig. Multi-asic switches print one
table a namespace; ports do not repeat across them. N/A is a counter or setting that the switch does not have.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TypeVar

from .. import ToolOutputError
from ..ruled import Table, tables
from ..scalars import count, plain, priorities, words

_Value = TypeVar("_Value")
_PORT = re.compile(r"(?:Ethernet|PortChannel|Eth)[A-Za-z0-9/.-]*")


@dataclass(frozen=True)
class PfcPriority:
    """Lossless priorities by port; an empty set is a port with none configured."""

    ports: dict[str, frozenset[int]]


@dataclass(frozen=True)
class PfcCounters:
    """PFC frames by port, eight numbers by priority; None where the switch has no counter."""

    rx: dict[str, tuple[int | None, ...]]
    tx: dict[str, tuple[int | None, ...]]


@dataclass(frozen=True)
class PfcwdPort:
    """Times in milliseconds. Without a restoration time the queue stays blocked until someone acts."""

    action: str | None
    detection_ms: int | None
    restoration_ms: int | None
    restoration_infinite: bool | None
    history: bool | None  # None where the release has no such column


@dataclass(frozen=True)
class PfcwdConfig:
    polling_ms: int | None
    big_red_switch: bool | None
    ports: dict[str, PfcwdPort]


@dataclass(frozen=True)
class PfcwdQueue:
    """`stormed` is the state now; `storm_detected` and `storm_restored` count since the counters were cleared."""

    port: str
    queue: int
    status: str | None
    stormed: bool | None
    storm_detected: int | None
    storm_restored: int | None
    tx_ok: int | None
    tx_dropped: int | None
    rx_ok: int | None
    rx_dropped: int | None
    tx_last_ok: int | None
    tx_last_dropped: int | None
    rx_last_ok: int | None
    rx_last_dropped: int | None


@dataclass(frozen=True)
class PfcwdStats:
    queues: tuple[PfcwdQueue, ...]


@dataclass(frozen=True)
class EcnProfile:
    """A WRED profile; thresholds in bytes, probabilities in percent. `ecn` is ecn_none, ecn_all, ecn_green ..."""

    ecn: str | None
    thresholds: dict[str, int]
    probabilities: dict[str, int]
    wred: dict[str, bool]  # by color

    @property
    def marks(self) -> bool | None:
        return None if self.ecn is None else self.ecn != "ecn_none"


@dataclass(frozen=True)
class EcnConfig:
    profiles: dict[str, EcnProfile]


@dataclass(frozen=True)
class PfcAsymmetric:
    """True where a port treats received and sent pauses differently, None where it is not set."""

    ports: dict[str, bool | None]


def parse_pfc_priority(text: str) -> PfcPriority:
    """`show pfc priority`."""
    found: dict[str, frozenset[int]] = {}
    for row in _rows(text, ("Interface", "Lossless priorities")):
        given = row["Lossless priorities"]
        lossless = frozenset() if words(given) is None else priorities(given)
        if lossless is None:
            raise ToolOutputError("not a list of priorities: " + given[:40])
        _add(found, row["Interface"], lossless)
    return PfcPriority(found)


def parse_pfc_counters(text: str) -> PfcCounters:
    """`show pfc counters`: the tables Port Rx and Port Tx."""
    names = tuple("PFC{}".format(priority) for priority in range(8))
    found: list[dict[str, tuple[int | None, ...]]] = []
    for port in ("Port Rx", "Port Tx"):
        table: dict[str, tuple[int | None, ...]] = {}
        for row in _rows(text, (port, *names)):
            _add(table, row[port], tuple(count(row[name]) for name in names))
        found.append(table)
    return PfcCounters(*found)


def parse_pfc_asymmetric(text: str) -> PfcAsymmetric:
    """`show pfc asymmetric`."""
    found: dict[str, bool | None] = {}
    for row in _rows(text, ("Interface", "Asymmetric")):
        _add(found, row["Interface"], {"on": True, "off": False}.get(row["Asymmetric"]))
    return PfcAsymmetric(found)


def parse_pfcwd_config(text: str) -> PfcwdConfig:
    """`show pfcwd config`; releases before 202111 have no HISTORY column."""
    text = textwrap.dedent(plain(text))
    polling = {int(value) for value in re.findall(r"^Changed polling interval to (\d{1,9})ms", text, re.M)}
    red = set(re.findall(r"^BIG_RED_SWITCH status is (\w+)", text, re.M))
    found: dict[str, PfcwdPort] = {}
    for row in _rows(text, ("PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME")):
        restoration = row["RESTORATION TIME"]
        _add(
            found,
            row["PORT"],
            PfcwdPort(
                action=words(row["ACTION"]),
                detection_ms=count(row["DETECTION TIME"]),
                restoration_ms=count(restoration),
                restoration_infinite=restoration == "infinite" if words(restoration) else None,
                history={"enable": True, "disable": False}.get(row.get("HISTORY", "")),
            ),
        )
    return PfcwdConfig(
        polling_ms=polling.pop() if len(polling) == 1 else None,
        big_red_switch={"enable": True, "disable": False}.get(red.pop()) if len(red) == 1 else None,
        ports=found,
    )


_STATS = ("STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP", "TX LAST OK/DROP", "RX LAST OK/DROP")


def parse_pfcwd_stats(text: str) -> PfcwdStats:
    """`show pfcwd stats`. A status of N/A leaves it open whether a storm is going on."""
    found: dict[str, PfcwdQueue] = {}
    for row in _rows(text, ("QUEUE", "STATUS", *_STATS)):
        match = re.fullmatch(r"(\S+):(\d{1,3})", row["QUEUE"])
        if match is None:
            raise ToolOutputError("not a queue: " + row["QUEUE"][:40])
        status = words(row["STATUS"])
        numbers = [number for name in _STATS for number in _pair(row[name])]
        stormed = {"stormed": True, "operational": False}.get(status or "")
        queue = PfcwdQueue(match.group(1), int(match.group(2)), status, stormed, *numbers)
        if found.setdefault(row["QUEUE"], queue) != queue:
            raise ToolOutputError("{} is given twice with different values".format(row["QUEUE"]))
    return PfcwdStats(tuple(found.values()))


def parse_ecnconfig(text: str) -> EcnConfig:
    """`ecnconfig -l` or `show ecn`: profiles of WRED with their marking."""
    parts = re.split(r"^[ \t]*Profile: (\S+)[ \t]*$", plain(text), flags=re.MULTILINE)
    found: dict[str, EcnProfile] = {}
    for name, body in zip(parts[1::2], parts[2::2]):
        _add(found, name, _profile(body), port=False)
    if not found:
        raise ToolOutputError("no line that names a profile")
    return EcnConfig(found)


_PARAMETER = re.compile(r"\s*(?:ecn|wred|green|yellow|red)(?:_\w+)?\b")


def _profile(body: str) -> EcnProfile:
    rows: dict[str, str] = {}
    for line in body.splitlines():
        match = re.fullmatch(r"\s*([a-z_]+)\s+(\S+)\s*", line)
        if match and rows.setdefault(match.group(1), match.group(2)) != match.group(2):
            raise ToolOutputError("{} is given twice with different values".format(match.group(1)))
        if not match and rows and _PARAMETER.match(line):
            raise ToolOutputError("not a row of a profile: " + line.strip()[:40])
    numbers = {key: count(value) for key, value in rows.items()}
    ecn = rows.get("ecn")
    return EcnProfile(
        ecn=ecn if ecn and re.fullmatch(r"ecn_[a-z_]+", ecn) else None,
        thresholds={key: n for key, n in numbers.items() if key.endswith("_threshold") and n is not None},
        probabilities={key: n for key, n in numbers.items() if key.endswith("_probability") and n is not None},
        wred={
            key.split("_")[1]: value == "true"
            for key, value in rows.items()
            if re.fullmatch(r"wred_[a-z]+_enable", key) and value in ("true", "false")
        },
    )


def _rows(text: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows of all tables that have the columns, of every namespace."""
    fitting: list[Table] = [table for table in tables(text) if set(columns) <= set(table.header)]
    if not fitting:
        message = re.search(r"^(?:Cannot find|Failed to|Error|Usage).*$", text, re.MULTILINE)
        raise ToolOutputError(message.group() if message else "no table with the columns " + ", ".join(columns))
    unread = [line for table in fitting for line in table.unread if _PORT.match(line.strip())]
    if unread:
        raise ToolOutputError("a row does not fit the columns: " + unread[0].strip()[:60])
    return [row for table in fitting for row in table.rows if _PORT.match(row[columns[0]])]


def _add(found: dict[str, _Value], key: str, value: _Value, port: bool = True) -> None:
    if port and not _PORT.fullmatch(key):
        raise ToolOutputError("not a port: " + key[:40])
    if found.setdefault(key, value) != value:
        raise ToolOutputError("{} is given twice with different values".format(key))


def _pair(value: str) -> tuple[int | None, int | None]:
    first, slash, second = value.partition("/")
    return (count(first), count(second)) if slash else (None, None)
