"""What `mlnx_qos -i NETDEV` prints: trust, DSCP map, receive buffers, PFC and traffic classes of an mlx5 port.

Format: mlnx-tools python/mlnx_qos (pretty_print) and dcbnetlink.py, and their MLNX_OFED 2.x to 24.x relatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import ToolOutputError, agree, integer, reject, text_lines

_DCBX = re.compile(r"DCBX mode:\s*(OS|Firmware) controlled")
_TRUST = re.compile(r"Priority trust state:\s*(\w+)")
_DSCP_ROW = re.compile(r"prio:\s*([0-7])\s+dscp:\s*([0-9]{1,2}(?:\s*,\s*[0-9]{1,2})*)\s*,?")
_BUFFERS = re.compile(r"Receive buffer size \(bytes\):\s*((?:[0-9]{1,10},\s*){8})(?:max_buffer_size=\s*([0-9]{1,12}))?")
_PFC = re.compile(r"PFC configuration:$")
_AFTER_MAP = re.compile(r"default priority:|Receive buffer|Buffers commands|Cable len:|PFC configuration:")
_CABLE = re.compile(r"Cable len:\s*([0-9]{1,6})")
_DEFAULT_PRIORITY = re.compile(r"default priority:\s*([0-7])?")
_TABLE_ROW = re.compile(r"(priority|enabled|buffer)((?:\s+[0-9]){8})")
_TC = re.compile(
    r"tc:\s*([0-9]{1,2})\s+ratelimit:\s*(?:(unlimited)|([0-9.]{1,12})\s*Gbps),\s*tsa:\s*(\w+)(?:,\s*bw:\s*([0-9]{1,3})\s*%)?"
)
_HEADLESS_TC = re.compile(r"(?:strict|vendor|unknown|ets,\s*bw:.*)")
_TC_PRIORITY = re.compile(r"(?:priority|up):\s*([0-7])")
# Tutorials and simulators print these; the tool never did.
_INVENTED = re.compile(r"Enabled TC:|(?:PCP|DSCP) to priority mapping|priority:\s+0\s+1\s+2|enabled:\s+[01]\s+[01]")


@dataclass(frozen=True)
class MlnxQos:
    """QoS of one port; every map holds only what the output lists."""

    dcbx: str | None = None  # "os" | "firmware"
    trust: str | None = None  # "pcp" | "dscp"
    default_priority: int | None = None
    dscp_prio: dict[int, int] | None = None  # None: no complete map, as in trust pcp
    buffer_sizes: tuple[int, ...] | None = None  # bytes by receive buffer 0..7
    max_buffer_size: int | None = None  # bytes
    cable_len: int | None = None  # metres
    pfc: frozenset[int] | None = None
    prio_buffer: dict[int, int] | None = None
    prio_tc: dict[int, int] | None = None
    tsa: dict[int, str] = field(default_factory=dict)  # by traffic class: "ets" | "strict" | "vendor"
    tc_bw: dict[int, int] = field(default_factory=dict)  # percent, of ETS classes only
    ratelimit: dict[int, float | None] = field(default_factory=dict)  # Gbit/s by traffic class; None = unlimited
    lldpad_running: bool = False  # the tool warned that lldpad may overwrite the settings

    @property
    def total_buffer(self) -> int | None:
        """Bytes in all receive buffers together."""
        return None if self.buffer_sizes is None else sum(self.buffer_sizes)

    def buffer_of(self, priority: int) -> int | None:
        """Bytes of the receive buffer that the priority is mapped to."""
        if self.prio_buffer is None or self.buffer_sizes is None:
            return None
        index = self.prio_buffer.get(priority)
        return None if index is None or index >= len(self.buffer_sizes) else self.buffer_sizes[index]


def parse(text: str) -> MlnxQos:
    """One interface's settings.

    Raises ToolOutputError for an error message, for layouts that the tool never prints, and for a text with the
    output of several interfaces that differ.
    """
    lines = [line.strip() for line in text_lines(text)]
    invented = next((line for line in lines if _INVENTED.match(line)), None)
    if invented is not None:
        raise ToolOutputError(f"not mlnx_qos output: the tool never prints {invented[:60]!r}")
    if not any(pattern.match(line) for line in lines for pattern in (_DCBX, _TRUST, _PFC, _TC)):
        reject("mlnx_qos", text)
    dcbx = _only(lines, _DCBX)
    trust = _only(lines, _TRUST)
    buffers = _once(lines, _BUFFERS)
    table = _table(lines)
    enabled, prio_buffer = table.get("enabled"), table.get("buffer")
    if enabled is not None and any(bit > 1 for bit in enabled):
        raise ToolOutputError("not mlnx_qos output: a PFC bit is neither 0 nor 1")
    tsa, tc_bw, ratelimit = _classes(lines)
    return MlnxQos(
        dcbx={"OS": "os", "Firmware": "firmware"}.get(dcbx or ""),
        trust=trust if trust in ("pcp", "dscp") else None,
        default_priority=integer(_only(lines, _DEFAULT_PRIORITY)),
        dscp_prio=_dscp_map(lines),
        buffer_sizes=tuple(int(size) for size in re.findall("[0-9]+", buffers.group(1))) if buffers else None,
        max_buffer_size=integer(buffers.group(2)) if buffers else None,
        cable_len=integer(_only(lines, _CABLE)),
        pfc=None if enabled is None else frozenset(priority for priority, bit in enumerate(enabled) if bit),
        prio_buffer=None if prio_buffer is None else dict(enumerate(prio_buffer)),
        prio_tc=_prio_tc(lines),
        tsa=tsa,
        tc_bw=tc_bw,
        ratelimit=ratelimit,
        lldpad_running=any("lldpad service is running" in line for line in lines),
    )


def _once(lines: list[str], pattern: re.Pattern[str]) -> re.Match[str] | None:
    found: re.Match[str] | None = None
    for line in lines:
        match = pattern.fullmatch(line)
        if match:
            agree(None if found is None else found.groups(), match.groups(), line.split(":")[0])
            found = match
    return found


def _only(lines: list[str], pattern: re.Pattern[str]) -> str | None:
    match = _once(lines, pattern)
    return match.group(1) if match else None


def _dscp_map(lines: list[str]) -> dict[int, int] | None:
    """DSCP -> priority. A priority with more than eight DSCPs goes on in a second row.

    None when nothing follows the rows: a cut map would read as "unmapped".
    """
    mapping: dict[int, int] = {}
    inside = closed = False
    for line in lines:
        if line == "dscp2prio mapping:":
            inside = True
        elif inside and line.startswith("prio:"):
            row = _DSCP_ROW.fullmatch(line)
            if row is None:
                return None
            for dscp in (int(number) for number in row.group(2).split(",")):
                if dscp > 63:
                    return None
                mapping[dscp] = agree(mapping.get(dscp), int(row.group(1)), f"priority of DSCP {dscp}")
        elif inside and _AFTER_MAP.match(line):
            inside, closed = False, True
    return mapping if closed and mapping else None


def _table(lines: list[str]) -> dict[str, tuple[int, ...]]:
    """Rows "enabled" and "buffer" of the PFC table, by priority; only under the column numbers 0..7."""
    rows: dict[str, tuple[int, ...]] = {}
    for line in lines:
        match = _TABLE_ROW.fullmatch(line)
        if match:
            cells = tuple(int(cell) for cell in match.group(2).split())
            rows[match.group(1)] = agree(rows.get(match.group(1)), cells, f"PFC row {match.group(1)}")
    return rows if rows.get("priority") == tuple(range(8)) else {}


def _classes(lines: list[str]) -> tuple[dict[int, str], dict[int, int], dict[int, float | None]]:
    tsa: dict[int, str] = {}
    tc_bw: dict[int, int] = {}
    ratelimit: dict[int, float | None] = {}
    for match in filter(None, map(_TC.fullmatch, lines)):
        tc, percent = int(match.group(1)), integer(match.group(5))
        if match.group(4) in ("ets", "strict", "vendor"):
            tsa[tc] = agree(tsa.get(tc), match.group(4), f"tsa of tc {tc}")
        if percent is not None and percent <= 100:
            tc_bw[tc] = agree(tc_bw.get(tc), percent, f"bandwidth of tc {tc}")
        if match.group(2):
            ratelimit[tc] = None
        elif re.fullmatch(r"[0-9]+(\.[0-9]+)?", match.group(3)):
            ratelimit[tc] = float(match.group(3))
    return tsa, tc_bw, ratelimit


def _prio_tc(lines: list[str]) -> dict[int, int] | None:
    mapping: dict[int, int] = {}
    tc: int | None = None
    for line in lines:
        head, entry = _TC.match(line), _TC_PRIORITY.fullmatch(line)
        if head:
            tc = int(head.group(1))
        elif line.startswith("tc:") or _HEADLESS_TC.fullmatch(line):
            tc = None
        elif entry and tc is not None:
            priority = int(entry.group(1))
            mapping[priority] = agree(mapping.get(priority), tc, f"traffic class of priority {priority}")
    return mapping or None
