"""What lldpad's `lldptool -t|-t -n -i NETDEV [-V TLV]` prints: the TLVs this port sends or its neighbour sent.

Format: openlldp lldp_8021qaz_clif.c (IEEE 802.1Qaz) and lldp_dcbx_clif.c (CIN and CEE DCBX).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import ToolOutputError, agree, given, integer, reject, text_lines

_HEADS = re.compile(r"[A-Z][\w .:'/()-]* TLV:?")
_NICCLI_HEAD = re.compile(r"IEEE 8021QAZ .* TLV:")  # Broadcom's tool prints the same TLVs, but with a colon
_STATE = re.compile(r"(Not )?Enabled, (Not )?Willing, (No )?Error")
_YES_NO = {"yes": True, "no": False}


@dataclass(frozen=True)
class LldpPfc:
    """One PFC TLV; `priorities` is empty for "none" and holds 0 for "PFC enabled: 0"."""

    dcbx: str  # "IEEE" | "CEE" | "CIN"
    priorities: frozenset[int] | None = None
    willing: bool | None = None
    enabled: bool | None = None  # CEE and CIN only
    error: bool | None = None  # CEE and CIN only
    macsec_bypass: bool | None = None
    traffic_classes: int | None = None


@dataclass(frozen=True)
class LldpEts:
    willing: bool | None = None
    max_tcs: int | None = None
    prio_tc: dict[int, int] | None = None
    tc_bw: tuple[int, ...] | None = None  # percent
    tsa: dict[int, str] | None = None  # "strict" | "cbshaper" | "ets" | "vendor"


@dataclass(frozen=True)
class LldpTlvs:
    """`sections`: the lines of every TLV by its name, for what has no field of its own."""

    chassis_id: str | None = None
    port_id: str | None = None
    ttl: int | None = None  # seconds
    system_name: str | None = None
    system_description: str | None = None
    port_description: str | None = None
    dcbx: str | None = None
    pfc: LldpPfc | None = None
    ets: LldpEts | None = None
    ets_recommendation: LldpEts | None = None
    dscp_prio: dict[int, int] = field(default_factory=dict)  # of the APP TLV
    sections: dict[str, tuple[str, ...]] = field(default_factory=dict)


def parse_pfc(text: str) -> LldpPfc:
    """The PFC TLV (IEEE before CEE before CIN). Raises ToolOutputError when the text has none."""
    pfc = parse_tlvs(text).pfc
    if pfc is None:
        reject("lldptool PFC TLV", text)
    return pfc


def parse_tlvs(text: str) -> LldpTlvs:
    """Raises ToolOutputError for a text without any TLV."""
    sections = _sections(text)
    if not sections:
        reject("lldptool", text)
    pfc = _ieee_pfc(sections) or _cee_pfc(sections)
    return LldpTlvs(
        chassis_id=_first(sections, "Chassis ID TLV"),
        port_id=_first(sections, "Port ID TLV"),
        ttl=integer(_first(sections, "Time to Live TLV")),
        system_name=_first(sections, "System Name TLV"),
        system_description=_first(sections, "System Description TLV"),
        port_description=_first(sections, "Port Description TLV"),
        dcbx=pfc.dcbx if pfc else "IEEE" if any(name.startswith("IEEE 8021QAZ") for name in sections) else None,
        pfc=pfc,
        ets=_ets(sections.get("IEEE 8021QAZ ETS Configuration TLV")),
        ets_recommendation=_ets(sections.get("IEEE 8021QAZ ETS Recommendation TLV")),
        dscp_prio=_dscp(sections.get("IEEE 8021QAZ APP TLV")),
        sections={name: tuple(lines) for name, lines in sections.items()},
    )


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] | None = None
    ended = False
    for raw in text_lines(text):
        line = raw.replace("\b", "").strip()
        if _NICCLI_HEAD.fullmatch(line):
            reject("lldptool", text)
        if _HEADS.fullmatch(line) and not line.startswith(("End of", "Unknown")):
            if ended:
                raise ToolOutputError("several LLDPDUs in one text")
            lines = sections.setdefault(line.rstrip(":"), [])
        elif line.startswith(("End of LLDPDU", "Unknown DCBX sub-TLV")):
            lines, ended = None, ended or line.startswith("End of")
        elif line and lines is not None:
            lines.append(line)
    return sections


def _first(sections: dict[str, list[str]], name: str) -> str | None:
    lines = sections.get(name)
    return given(re.sub(r"^(?:MAC|Ifname|IPv4|Local|IfAlias|Interface Alias): ", "", lines[0])) if lines else None


def _value(lines: list[str], key: str) -> str | None:
    """The value of the row; a TLV that stands twice must say the same twice."""
    found: str | None = None
    for line in lines:
        if line.startswith(f"{key}:"):
            found = agree(found, line[len(key) + 1 :].strip(), key)
    return found


def _priorities(text: str | None) -> frozenset[int] | None:
    if text == "none":
        return frozenset()
    words = (text or "").replace(",", " ").split()
    return frozenset(map(int, words)) if words and all(re.fullmatch("[0-7]", word) for word in words) else None


def _ieee_pfc(sections: dict[str, list[str]]) -> LldpPfc | None:
    lines = sections.get("IEEE 8021QAZ PFC TLV")
    if lines is None:
        return None
    return LldpPfc(
        dcbx="IEEE",
        priorities=_priorities(_value(lines, "PFC enabled")),
        willing=_YES_NO.get(_value(lines, "Willing") or ""),
        macsec_bypass=_YES_NO.get(_value(lines, "MACsec Bypass Capable") or ""),
        traffic_classes=integer(_value(lines, "PFC capable traffic classes")),
    )


def _cee_pfc(sections: dict[str, list[str]]) -> LldpPfc | None:
    lines = sections.get("Priority Flow Control TLV")
    if lines is None:
        return None
    state = next(filter(None, map(_STATE.fullmatch, lines)), None)
    classes = integer(_value(lines, "Number of TC's supported"))
    # CIN's PFC TLV has no number of traffic classes; its priority groups are called bandwidth groups.
    groups = sections.get("Priority Groups TLV", [])
    cin = any(line.startswith("BWG") for line in groups)
    return LldpPfc(
        dcbx="CIN" if cin else "CEE",
        priorities=_priorities(_value(lines, "PFC enabled priorities")),
        willing=state.group(2) is None if state else None,
        enabled=state.group(1) is None if state else None,
        error=state.group(3) is None if state else None,
        traffic_classes=classes,
    )


def _ets(lines: list[str] | None) -> LldpEts | None:
    if lines is None:
        return None
    bandwidth = re.findall(r"([0-9]{1,3})%", _value(lines, "TC Bandwidth") or "")
    prio_tc = {int(p): int(tc) for p, tc in re.findall(r"\b([0-7]):([0-9]{1,2})\b", _value(lines, "PRIO_MAP") or "")}
    tsa = {int(tc): name for tc, name in re.findall(r"\b([0-7]):([a-z]+)\b", _value(lines, "TSA_MAP") or "")}
    return LldpEts(
        willing=_YES_NO.get(_value(lines, "Willing") or ""),
        max_tcs=integer(_value(lines, "MAX_TCS")),
        prio_tc=prio_tc if len(prio_tc) == 8 else None,
        tc_bw=tuple(map(int, bandwidth)) if len(bandwidth) == 8 else None,
        tsa=tsa if len(tsa) == 8 else None,
    )


def _dscp(lines: list[str] | None) -> dict[int, int]:
    mapping: dict[int, int] = {}
    for line in lines or []:
        match = re.match(r"Prio:([0-7])\s+dscp:\s*([0-9, ]*)", line)
        for dscp in re.findall("[0-9]{1,2}", match.group(2)) if match else []:
            mapping[int(dscp)] = agree(mapping.get(int(dscp)), int(match.group(1)), f"DSCP {dscp}")  # type: ignore[union-attr]
    return mapping
