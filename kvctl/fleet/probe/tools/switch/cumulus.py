"""NVIDIA Cumulus Linux: `nv show qos roce` and `nv show interface PORT qos roce [status]`, text and -o json (NVUE)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import ToolOutputError, looks_like_json
from ..ruled import cells, is_ruler, spans, tables
from ..scalars import count, items, load_json, mapping, plain, priorities, words


@dataclass(frozen=True)
class RoceQos:
    """The switch's RoCE class. Thresholds in bytes, rounded as printed; `lossless` follows the mode's name."""

    enabled: bool | None = None
    mode: str | None = None
    lossless: bool | None = None
    pfc_priorities: frozenset[int] | None = None
    pfc_rx: bool | None = None
    pfc_tx: bool | None = None
    cable_length: int | None = None
    congestion_mode: str | None = None
    ecn: bool | None = None
    ecn_traffic_classes: frozenset[int] | None = None
    ecn_min_bytes: int | None = None
    ecn_max_bytes: int | None = None
    ecn_probability: int | None = None
    trust: frozenset[str] | None = None
    dscp_prio: dict[int, int] | None = None
    pcp_prio: dict[int, int] | None = None
    prio_tc: dict[int, int] | None = None
    scheduler: dict[int, str] | None = None  # by traffic class: "dwrr-50%", "strict-priority"


def parse_qos_roce(text: str) -> RoceQos:
    """The class as it works now (operational); what NVUE shows only as applied is taken from there."""
    text = plain(text)
    if looks_like_json(text):
        document = mapping(load_json(text))
        values = _flat(document)
        prio_rows, tc_rows = _listed(document.get("prio-map")), _listed(document.get("tc-map"))
    else:
        values = _text_values(text)
        prio_rows, tc_rows = _text_rows(text, "dscp"), _text_rows(text, "traffic-class")
    known = {"mode", "pfc/pfc-priority", "trust/trust-mode", "congestion-control/congestion-mode", "enable", "state"}
    if not known & set(values):
        raise ToolOutputError("nothing of a RoCE class: none of " + ", ".join(sorted(known)))
    mode = values.get("mode", "").lower() or None
    congestion = values.get("congestion-control/congestion-mode", "").lower() or None
    return RoceQos(
        enabled=_switch(values.get("enable", values.get("state"))),
        mode=mode,
        lossless=None if mode is None else {"lossless": True, "lossy": False}.get(mode.partition("-")[0]),
        pfc_priorities=_priorities(values.get("pfc/pfc-priority")),
        pfc_rx=_switch(values.get("pfc/rx-enabled")),
        pfc_tx=_switch(values.get("pfc/tx-enabled")),
        cable_length=count(values.get("pfc/cable-length", values.get("cable-length"))),
        congestion_mode=congestion,
        ecn=None if congestion is None else "ecn" in congestion,
        ecn_traffic_classes=_priorities(values.get("congestion-control/enabled-tc")),
        ecn_min_bytes=_bytes(values.get("congestion-control/min-threshold")),
        ecn_max_bytes=_bytes(values.get("congestion-control/max-threshold")),
        ecn_probability=count(values.get("congestion-control/probability"), 100),
        trust=_trust(values.get("trust/trust-mode")),
        dscp_prio=_many(prio_rows, "dscp", "switch-prio", 63, 7),
        pcp_prio=_many(prio_rows, "pcp", "switch-prio", 7, 7),
        prio_tc=_many(tc_rows, "switch-prio", "traffic-class", 7, 7),
        scheduler=_scheduler(tc_rows),
    )


def _flat(document: dict[str, object]) -> dict[str, str]:
    """Leaves of JSON by path. NVUE writes some words as {"word": {}} and numbers either way."""
    found: dict[str, str] = {}
    for key, value in document.items():
        if key in ("prio-map", "tc-map", "pool-map", "pool", "exception-list"):
            continue
        leaves = mapping(value) if isinstance(value, dict) else {}
        if leaves and all(item == {} for item in leaves.values()):
            found[key] = ",".join(leaves)
            continue
        for name, leaf in leaves.items():
            word = _word(leaf)
            if word is not None:
                found[key + "/" + name] = word
        own = None if isinstance(value, dict) else _word(value)
        if own is not None:
            found[key] = own
    return found


def _word(value: object) -> str | None:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return ",".join(str(key) for key in value) if value and all(item == {} for item in value.values()) else None
    if isinstance(value, list):
        return ",".join(str(item) for item in value) if value else None
    return str(value) if isinstance(value, (int, float)) else words(value)


def _listed(value: object) -> list[dict[str, object]]:
    """Rows of a map that NVUE keys by their number, or gives as a list."""
    return items(list(value.values())) if isinstance(value, dict) else items(value)


def _text_values(text: str) -> dict[str, str]:
    """Rows of the first table by path: two blanks of indent belong to the word above."""
    lines = [line.expandtabs().rstrip() for line in text.splitlines()]
    rulers = [at for at, line in enumerate(lines) if is_ruler(line) and at and "operational" in lines[at - 1]]
    if len(rulers) != 1:
        raise ToolOutputError("{} tables with an operational column; one was expected".format(len(rulers)))
    number = rulers[0]
    columns = spans(lines[number])
    header = cells(lines[number - 1], columns) or []
    found: dict[str, str] = {}
    section = ""
    for line in lines[number + 1 :]:
        if not line.strip():
            continue
        if set(line.strip()) == {"="} or re.match(r"\S.*\b(?:mapping|config|List|Status)\b", line):
            break
        name = line[: columns[0][1]].strip() if columns else ""
        row = dict(zip(header[1:], (line[start:end].strip() for start, end in _widths(columns)[1:])))
        value = row.get("operational") or row.get("applied") or ""
        if not line.startswith(" "):
            section = name if not value else ""
        if words(value) is not None:
            path = section + "/" + name if line.startswith(" ") and section else name
            if found.setdefault(path, value) != value:
                raise ToolOutputError("{} is given twice with different values".format(path))
    return found


def _widths(columns: list[tuple[int, int]]) -> list[tuple[int, int]]:
    starts = [start for start, _ in columns]
    return list(zip(starts, starts[1:] + [100_000]))


def _text_rows(text: str, column: str) -> list[dict[str, object]]:
    """Rows of the mapping table with `column` and switch-prio; the first column is NVUE's row number or label."""
    for table in tables(text):
        if column in table.header and "switch-prio" in table.header:
            return [dict(row.items()) for row in table.rows]
    return []


def _switch(value: str | None) -> bool | None:
    on, off = ("on", "yes", "enabled", "true"), ("off", "no", "disabled", "false")
    text = (value or "").lower()
    return True if text in on else False if text in off else None


def _priorities(value: str | None) -> frozenset[int] | None:
    return priorities(value) if value else None


def _trust(value: str | None) -> frozenset[str] | None:
    found = frozenset(part for part in re.split(r"[\s,]+", (value or "").lower()) if part)
    return found if found and found <= {"pcp", "dscp", "port", "l2", "l3", "both"} else None


_BYTES = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)(?: ?(Bytes|B|KB|MB|GB))?")


def _bytes(value: str | None) -> int | None:
    """NVUE's units are binary: 146.48 KB are the 150,000 bytes that were set."""
    match = _BYTES.fullmatch(value or "")
    if match is None:
        return None
    unit = {"KB": 2**10, "MB": 2**20, "GB": 2**30}.get(match.group(2) or "", 1)
    return round(float(match.group(1)) * unit)


def _many(rows: list[dict[str, object]], key: str, value: str, most: int, top: int) -> dict[int, int] | None:
    """One number for each of a row's listed keys; None without such rows."""
    found: dict[int, int] = {}
    for row in rows:
        number = count(row.get(value), top)
        keys = [
            count(part, most) for part in re.split(r"[\s,]+", str(row.get(key, "")).strip()) if part not in ("", "-")
        ]
        if number is None or None in keys:
            return None
        for item in keys:
            if item is not None and found.setdefault(item, number) != number:
                raise ToolOutputError("{} {} is mapped twice".format(key, item))
    return found or None


def _scheduler(rows: list[dict[str, object]]) -> dict[int, str] | None:
    found: dict[int, str] = {}
    for row in rows:
        number, weight = count(row.get("traffic-class"), 7), words(row.get("scheduler-weight"))
        if number is None or weight is None:
            return None
        found[number] = weight.lower().replace(" ", "-")
    return found or None
