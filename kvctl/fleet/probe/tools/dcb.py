"""What iproute2's `dcb {pfc,app,ets,buffer,apptrust,dcbx} show dev NETDEV` prints, as text, with -N or with -j.

Format: iproute2 dcb/dcb_*.c; DSCP names from its etc/iproute2/rt_dsfield, today's and older ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from . import (
    agree,
    integer,
    is_prompt,
    json_flag,
    json_integer,
    json_object,
    json_text,
    looks_like_json,
    reject,
    text_lines,
)

_DSCP_NAMES = {
    "default": 0, "reliability": 1, "throughput": 2, "lowdelay": 4,
    "cs1": 8, "af11": 10, "af12": 12, "af13": 14, "cs2": 16, "af21": 18, "af22": 20, "af23": 22,
    "cs3": 24, "af31": 26, "af32": 28, "af33": 30, "cs4": 32, "af41": 34, "af42": 36, "af43": 38,
    "cs5": 40, "ef": 46, "cs6": 48, "cs7": 56,
}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(b|Kb|Mb|Gb)?")
_UNIT = {None: 1, "b": 1, "Kb": 1024, "Mb": 1024**2, "Gb": 1024**3}
_SELECTORS = ("ethtype", "stream-port", "dgram-port", "port", "dscp", "pcp")
_FLAGS = ("host", "lld-managed", "cee", "ieee", "static")


@dataclass(frozen=True)
class DcbPfc:
    pfc: frozenset[int] | None = None
    pfc_cap: int | None = None  # traffic classes that may have PFC at once
    macsec_bypass: bool | None = None
    delay: int | None = None  # on mlx5: cable length in metres
    requests: tuple[int, ...] | None = None  # with -s: frames sent, by priority
    indications: tuple[int, ...] | None = None  # with -s: frames received, by priority


@dataclass(frozen=True)
class DcbApp:
    """The APP table. `unresolved` holds entries that could not be read: foreign DSCP names, one key twice."""

    dscp_prio: dict[int, int] = field(default_factory=dict)
    default_prio: tuple[int, ...] = ()
    ethtype_prio: dict[int, int] = field(default_factory=dict)
    stream_port_prio: dict[int, int] = field(default_factory=dict)
    dgram_port_prio: dict[int, int] = field(default_factory=dict)
    port_prio: dict[int, int] = field(default_factory=dict)
    pcp_prio: dict[str, int] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()

    @property
    def trust(self) -> str:
        """mlx5 trusts DSCP as soon as one DSCP entry exists: "dscp" or "pcp"."""
        return "dscp" if self.dscp_prio or any(entry.startswith("dscp-prio ") for entry in self.unresolved) else "pcp"


@dataclass(frozen=True)
class DcbEts:
    willing: bool | None = None
    ets_cap: int | None = None
    cbs: bool | None = None
    tc_bw: dict[int, int] | None = None  # percent by traffic class, as are all of *_bw
    pg_bw: dict[int, int] | None = None
    tc_tsa: dict[int, str] | None = None  # "strict" | "cb-shaper" | "ets" | "vendor"
    prio_tc: dict[int, int] | None = None
    reco_tc_bw: dict[int, int] | None = None
    reco_tc_tsa: dict[int, str] | None = None
    reco_prio_tc: dict[int, int] | None = None


@dataclass(frozen=True)
class DcbBuffer:
    """Receive buffers; text sizes of 1 KiB and more may be rounded by up to 16 bytes, JSON ones are exact."""

    prio_buffer: dict[int, int] | None = None
    buffer_sizes: tuple[int, ...] | None = None  # bytes
    total_size: int | None = None  # bytes


@dataclass(frozen=True)
class DcbAppTrust:
    order: tuple[str, ...] = ()  # of "ethtype", "stream-port", "dgram-port", "port", "dscp", "pcp"


@dataclass(frozen=True)
class DcbDcbx:
    host: bool = False
    lld_managed: bool = False
    cee: bool = False
    ieee: bool = False
    static: bool = False

    @property
    def mode(self) -> str:
        """mlnx_qos's word for it: "os" when the host owns DCBX, else "firmware"."""
        return "os" if self.host else "firmware"


def parse_pfc(text: str) -> DcbPfc:
    """Raises ToolOutputError when neither the capabilities nor the priorities are there."""
    table = _table(text, "dcb pfc")
    if not table.keys() & {"prio-pfc", "pfc-cap"}:
        reject("dcb pfc", text)
    bits = _indexed(table.get("prio-pfc"), {"on": 1, "off": 0}.get)
    return DcbPfc(
        pfc=None if bits is None else frozenset(priority for priority, bit in bits.items() if bit),
        pfc_cap=_number(table, "pfc-cap"),
        macsec_bypass=_flag(table, "macsec-bypass"),
        delay=_number(table, "delay"),
        requests=_sequence(_indexed(table.get("requests"), integer)),
        indications=_sequence(_indexed(table.get("indications"), integer)),
    )


def parse_app(text: str) -> DcbApp:
    """The APP table; an empty text is an empty table, which is what the tool prints for it."""
    if looks_like_json(text):
        return _json_app(json_object(text, "dcb app"), text)
    table = _table(text, "dcb app")
    kinds = {kind: cells for kind, cells in table.items() if kind.endswith("-prio")}
    if not kinds and any(line.strip() and not is_prompt(line) for line in text_lines(text)):
        reject("dcb app", text)
    entries: list[tuple[str, str, str]] = []
    for kind, cells in kinds.items():
        if kind == "default-prio":
            continue
        entries += [(kind, *cell.rpartition(":")[::2]) for cell in cells]
    default = tuple(value for value in map(_priority, kinds.get("default-prio", [])) if value is not None)
    return _app(entries, default)


def parse_ets(text: str) -> DcbEts:
    table = _table(text, "dcb ets")
    if not table.keys() & {"willing", "tc-bw", "tc-tsa", "prio-tc"}:
        reject("dcb ets", text)
    return DcbEts(
        willing=_flag(table, "willing"),
        ets_cap=_number(table, "ets-cap"),
        cbs=_flag(table, "cbs"),
        tc_bw=_indexed(table.get("tc-bw"), integer),
        pg_bw=_indexed(table.get("pg-bw"), integer),
        tc_tsa=_indexed(table.get("tc-tsa"), _tsa),
        prio_tc=_indexed(table.get("prio-tc"), integer),
        reco_tc_bw=_indexed(table.get("reco-tc-bw"), integer),
        reco_tc_tsa=_indexed(table.get("reco-tc-tsa"), _tsa),
        reco_prio_tc=_indexed(table.get("reco-prio-tc"), integer),
    )


def parse_buffer(text: str) -> DcbBuffer:
    table = _table(text, "dcb buffer")
    if not table.keys() & {"prio-buffer", "buffer-size", "total-size"}:
        reject("dcb buffer", text)
    total = table.get("total-size")
    return DcbBuffer(
        prio_buffer=_indexed(table.get("prio-buffer"), integer),
        buffer_sizes=_sequence(_indexed(table.get("buffer-size"), _size)),
        total_size=_size(total[0]) if total else None,
    )


def parse_apptrust(text: str) -> DcbAppTrust:
    table = _table(text.replace("order:", "order "), "dcb apptrust")
    if "order" not in table or any(name not in _SELECTORS for name in table["order"]):
        reject("dcb apptrust", text)
    return DcbAppTrust(tuple(table["order"]))


def parse_dcbx(text: str) -> DcbDcbx:
    """Flags of `dcb dcbx show`; a bare newline means that no flag is set, an empty text that nothing was printed."""
    if looks_like_json(text):
        names = [
            name.replace("_", "-")
            for name, value in json_object(text, "dcb dcbx").items()
            if json_flag(value) is not False
        ]
    else:
        lines = text_lines(text)
        printed = [line for line in lines if not is_prompt(line)]
        names = " ".join(printed).split()
        if not names and len(printed) < len(lines):
            reject("dcb dcbx", text)  # between two prompts a bare newline cannot be told from nothing
    if not text or any(name not in _FLAGS for name in names):
        reject("dcb dcbx", text)
    return DcbDcbx(**{flag.replace("-", "_"): flag in names for flag in _FLAGS})


_KEYS = frozenset(
    re.findall(
        r"\S+",
        """
        pfc-cap macsec-bypass delay prio-pfc requests indications
        willing ets-cap cbs tc-bw pg-bw tc-tsa prio-tc reco-tc-bw reco-tc-tsa reco-prio-tc
        prio-buffer buffer-size total-size order
        ethtype-prio default-prio dscp-prio stream-port-prio dgram-port-prio port-prio pcp-prio
        """,
    )
)


def _table(text: str, tool: str) -> dict[str, list[str]]:
    """Cells by keyword. JSON is brought into the text's form: keywords with dashes, cells "index:value"."""
    if looks_like_json(text):
        return _json_table(json_object(text, tool))
    table: dict[str, list[str]] = {}
    for line in text_lines(text):
        words = line.split()
        if not words or words[0] not in _KEYS:
            continue
        row: dict[str, list[str]] = {}
        cells: list[str] = []
        for word in words:
            if word in _KEYS and not (row and next(iter(row)) == "order"):
                cells = row.setdefault(word, [])
            else:
                cells.append(word)
        for key, values in row.items():
            table[key] = agree(table.get(key), values, key)
    return table


def _json_table(body: dict[str, Any]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for name, value in body.items():
        key = name.replace("_", "-")
        if key == "order" and isinstance(value, list):
            table[key] = [(json_text(item) or "?") for item in value]
        elif key in _KEYS and isinstance(value, list):
            table[key] = [f"{index}:{_plain(item)}" for index, item in enumerate(value)]
        elif key in _KEYS:
            table[key] = [_plain(value)]
    return table


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, (int, str)) else "?"


def _number(table: dict[str, list[str]], key: str) -> int | None:
    cells = table.get(key)
    return integer(cells[0]) if cells else None


def _flag(table: dict[str, list[str]], key: str) -> bool | None:
    cells = table.get(key)
    return json_flag(cells[0]) if cells else None


def _indexed(cells: list[str] | None, read: Any) -> dict[int, Any] | None:
    """Values by index of "0:x 1:y ... 7:z"; None unless all eight are there and can be read."""
    values: dict[int, Any] = {}
    for cell in cells or []:
        index, colon, value = cell.partition(":")
        number, read_value = integer(index), read(value)
        if not colon or number is None or read_value is None:
            return None
        values[number] = agree(values.get(number), read_value, f"entry {number}")
    return values if sorted(values) == list(range(8)) else None


def _sequence(values: dict[int, int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values[index] for index in sorted(values))


def _tsa(text: str) -> str | None:
    return text if text in ("strict", "cb-shaper", "ets", "vendor") else None


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return round(float(match.group(1)) * _UNIT[match.group(2)]) if match else None


def _priority(text: str) -> int | None:
    value = integer(text)
    return value if value is not None and 0 <= value <= 15 else None


def _protocol(kind: str, text: str) -> int | None:
    if kind == "ethtype-prio":
        return int(text, 16) if re.fullmatch("(0x)?[0-9a-fA-F]{1,4}", text) else None
    value = integer(text)
    if kind != "dscp-prio":
        return value
    value = _DSCP_NAMES.get(text.lower()) if value is None else value
    return value if value is not None and 0 <= value <= 63 else None


def _app(entries: list[tuple[str, str, str]], default: tuple[int, ...]) -> DcbApp:
    maps: dict[str, dict[Any, set[int]]] = {}
    unresolved = []
    for kind, name, value in entries:
        key: int | str | None = name if kind == "pcp-prio" else _protocol(kind, name)
        priority = _priority(value)
        if key is None or priority is None:
            unresolved.append(f"{kind} {name}:{value}")
        else:
            maps.setdefault(kind, {}).setdefault(key, set()).add(priority)
    # A key may legally stand with several priorities; which of them wins is the driver's choice.
    for kind, keys in maps.items():
        unresolved += [f"{kind} {key}:{p}" for key, values in keys.items() if len(values) > 1 for p in sorted(values)]
    single = {kind: {key: next(iter(v)) for key, v in keys.items() if len(v) == 1} for kind, keys in maps.items()}
    return DcbApp(
        dscp_prio=single.get("dscp-prio", {}),
        default_prio=default,
        ethtype_prio=single.get("ethtype-prio", {}),
        stream_port_prio=single.get("stream-port-prio", {}),
        dgram_port_prio=single.get("dgram-port-prio", {}),
        port_prio=single.get("port-prio", {}),
        pcp_prio=single.get("pcp-prio", {}),
        unresolved=tuple(unresolved),
    )


def _json_app(body: dict[str, Any], text: str) -> DcbApp:
    kinds = {name.replace("_", "-"): value for name, value in body.items() if name.endswith("_prio")}
    if body and not kinds:
        reject("dcb app", text)
    default = kinds.pop("default-prio", [])
    entries: list[tuple[str, str, str]] = []
    for kind, value in kinds.items():
        for pair in value if isinstance(value, list) else []:
            cells = [_plain(cell).strip() for cell in pair] if isinstance(pair, list) else []
            if kind == "ethtype-prio" and len(cells) >= 2 and json_integer(pair[0]) is not None:
                cells[0] = f"{pair[0]:x}"  # JSON gives the Ethertype in decimal
            entries.append((kind, *(cells + ["?", "?"])[:2]))  # type: ignore[arg-type]
    numbers = [json_integer(value) for value in default] if isinstance(default, list) else []
    return _app(entries, tuple(value for value in numbers if value is not None))
