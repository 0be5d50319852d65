"""What `ethtool` prints for one interface: link, driver (-i), counters (-S), pause (-a), module (-m), flags, FEC.

Format: ethtool.c and netlink/*.c of ethtool 4.x to 6.x (both code paths), sfpid.c, qsfp.c, cmis.c, sff-common.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import (
    ToolOutputError,
    agree,
    decimal,
    integer,
    is_prompt,
    json_flag,
    json_integer,
    json_object,
    looks_like_json,
    members,
    reject,
    text_lines,
)

_LINK_ROWS = frozenset(("Supported ports", "Supported link modes", "Speed", "Port", "Link detected"))
_ON_OFF = {"on": True, "off": False}
_YES_NO = {"yes": True, "no": False}
_STATES = (["On"], ["Off"])
_ALARM = re.compile(r".* (?:alarm|warning)\s*(?:\(Chan(?:nel)? [0-9]{1,2}\))?")
_COUNTER = re.compile(r"(\S.*?):\s*(-?[0-9]{1,20})")
_STATS_HEAD = re.compile(r"(?:NIC|PHY) statistics:|Standard stats for \S+:")
_BARE_COUNTER = re.compile(r"[^\s:]+(?:: [^\s:]+)*:\s*-?[0-9]{1,20}")  # filtered output, without the head line
# Names of the same counter by driver (mlx5; mlx4; bnxt_en; ice; i40e; ixgbe) -> mlx5's name, {0} for the priority.
_PRIORITY_COUNTERS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"(?P<d>[rt]x)_prio_?(?P<p>[0-7])_(?P<what>\w+)", "{d}_prio{p}_{what}"),
        (r"(?P<d>[rt]x)_(?P<what>pause(?:_duration|_transition)?)_prio_(?P<p>[0-7])", "{d}_prio{p}_{what}"),
        (r"(?P<d>[rt]x)_pfc_ena_frames_pri(?P<p>[0-7])", "{d}_prio{p}_pause"),
        (r"pfc_pri(?P<p>[0-7])_(?P<d>[rt]x)_duration_us", "{d}_prio{p}_pause_duration"),
        (r"pfc_pri(?P<p>[0-7])_(?P<d>[rt]x)_transitions", "{d}_prio{p}_pause_transition"),
        (r"(?P<d>[rt]x)_(?P<what>bytes|packets)_pri(?P<p>[0-7])", "{d}_prio{p}_{what}"),
        (r"(?:port\.)?(?P<d>[rt]x)_priority_(?P<p>[0-7])_xoff(?:\.nic)?", "{d}_prio{p}_pause"),
        (r"(?P<d>[rt]x)_pb_(?P<p>[0-7])_pxoff", "{d}_prio{p}_pause"),
    )
)


@dataclass(frozen=True)
class EthtoolLink:
    """`ethtool DEV`. Mode lists are None when "Not reported"; `values` has every row as printed."""

    interface: str | None = None
    speed: int | None = None  # Mb/s; None while "Unknown!"
    duplex: str | None = None
    lanes: int | None = None
    autonegotiation: bool | None = None
    port: str | None = None
    transceiver: str | None = None
    link_detected: bool | None = None
    link_reason: str | None = None  # of "no (No cable)"
    supported_ports: tuple[str, ...] | None = None
    supported_modes: tuple[str, ...] | None = None
    advertised_modes: tuple[str, ...] | None = None
    partner_modes: tuple[str, ...] | None = None
    supported_fec: tuple[str, ...] | None = None
    advertised_fec: tuple[str, ...] | None = None
    partner_fec: tuple[str, ...] | None = None
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class EthtoolDriver:
    """`ethtool -i`. An empty string is a row that is there and empty."""

    driver: str
    version: str | None = None
    firmware_version: str | None = None
    expansion_rom_version: str | None = None
    bus_info: str | None = None
    supports: dict[str, bool] = field(default_factory=dict)

    @property
    def firmware(self) -> str | None:
        """The version without mlx5's PSID in brackets; None when empty."""
        return (self.firmware_version or "").split(" (")[0].strip() or None

    @property
    def psid(self) -> str | None:
        match = re.search(r"\(([A-Z]{2,3}_?[0-9A-Z_]{8,})\)", self.firmware_version or "")
        return match.group(1) if match else None


@dataclass(frozen=True)
class EthtoolPause:
    """`ethtool [-I] -a`: IEEE 802.3x global pause."""

    autonegotiate: bool | None = None
    rx: bool | None = None
    tx: bool | None = None
    rx_negotiated: bool | None = None
    tx_negotiated: bool | None = None
    statistics: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EthtoolModule:
    """`ethtool -m`. Optical values by channel (1 for a single one); a dBm of None is no light at all ("-inf")."""

    identifier: str | None = None
    connector: str | None = None
    vendor_name: str | None = None
    vendor_oui: str | None = None
    vendor_pn: str | None = None
    vendor_rev: str | None = None
    vendor_sn: str | None = None
    date_code: str | None = None
    copper_length: float | None = None  # metres
    temperature: float | None = None  # degrees C
    voltage: float | None = None  # V
    bias: dict[int, float] = field(default_factory=dict)  # mA
    tx_power: dict[int, float | None] = field(default_factory=dict)  # dBm
    rx_power: dict[int, float | None] = field(default_factory=dict)  # dBm
    alarms: dict[str, bool] = field(default_factory=dict)  # every "... alarm/warning" flag
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class EthtoolFec:
    """`ethtool [-I] --show-fec`."""

    configured: tuple[str, ...] | None = None  # from 5.16 on: supported and configured, the tool cannot tell
    active: tuple[str, ...] | None = None
    statistics: dict[str, int] = field(default_factory=dict)


def parse_link(text: str) -> EthtoolLink:
    """Raises ToolOutputError for error messages and for "No data available"."""
    interface, values = _link_rows(text)
    if interface is None or not _LINK_ROWS & values.keys():
        reject("ethtool", text)
    detected = re.fullmatch(r"(yes|no)(?: \((.*)\))?", _one(values, "Link detected") or "")
    speed = re.fullmatch(r"([0-9]{1,8})Mb/s", _one(values, "Speed") or "")
    ports = re.fullmatch(r"\[(.*)\]", _one(values, "Supported ports") or "")
    return EthtoolLink(
        interface=interface,
        speed=int(speed.group(1)) if speed else None,
        duplex=_known(_one(values, "Duplex")),
        lanes=integer(_one(values, "Lanes")),
        autonegotiation=_ON_OFF.get(_one(values, "Auto-negotiation") or ""),
        port=_known(_one(values, "Port")),
        transceiver=_known(_one(values, "Transceiver")),
        link_detected=_YES_NO.get(detected.group(1)) if detected else None,
        link_reason=detected.group(2) if detected else None,
        supported_ports=tuple(ports.group(1).split()) if ports else None,
        supported_modes=_words(values, "Supported link modes"),
        advertised_modes=_words(values, "Advertised link modes"),
        partner_modes=_words(values, "Link partner advertised link modes"),
        supported_fec=_words(values, "Supported FEC modes"),
        advertised_fec=_words(values, "Advertised FEC modes"),
        partner_fec=_words(values, "Link partner advertised FEC modes"),
        values={name: tuple(cells) for name, cells in values.items()},
    )


def parse_driver(text: str) -> EthtoolDriver:
    rows = _pairs(text)
    driver = rows.get("driver")
    if not driver:
        reject("ethtool -i", text)
    return EthtoolDriver(
        driver=driver,
        version=rows.get("version"),
        firmware_version=rows.get("firmware-version"),
        expansion_rom_version=rows.get("expansion-rom-version"),
        bus_info=rows.get("bus-info"),
        supports={k[9:]: _YES_NO[v] for k, v in rows.items() if k.startswith("supports-") and v in _YES_NO},
    )


def parse_stats(text: str) -> dict[str, int]:
    """Counters by name, the part before the last colon; with or without the head line.

    A name that stands with two values is left out. Raises ToolOutputError when there is no counter at all.
    """
    lines = [line.strip() for line in text_lines(text) if line.strip() and not is_prompt(line)]
    if not any(_STATS_HEAD.fullmatch(line) for line in lines) and not all(map(_BARE_COUNTER.fullmatch, lines)):
        reject("ethtool -S", text)
    if lines.count("NIC statistics:") > 1:
        raise ToolOutputError("statistics of several interfaces, or of several moments, in one text")
    counters: dict[str, int] = {}
    doubtful = set()
    for match in filter(None, map(_COUNTER.fullmatch, lines)):
        name, value = match.group(1), int(match.group(2))
        if counters.setdefault(name, value) != value:
            doubtful.add(name)
    if not counters:
        reject("ethtool -S", text)
    return {name: value for name, value in counters.items() if name not in doubtful}


def priority_counters(stats: dict[str, int]) -> dict[str, int]:
    """Per-priority counters under mlx5's names, whatever the driver calls them.

    "rx_prio3_pause" (frames), "rx_prio3_pause_duration" (microseconds), "rx_prio3_packets", "tx_prio3_bytes" ...
    A counter that the driver does not have is not in the result: unknown, not zero.
    """
    counters = {}
    for name, value in stats.items():
        for pattern, template in _PRIORITY_COUNTERS:
            match = pattern.fullmatch(name)
            if match:
                counters[template.format(**match.groupdict())] = value
                break
    return counters


def parse_pause(text: str) -> EthtoolPause:
    if looks_like_json(text):
        body = json_object(text, "ethtool -a")
        negotiated = members(body.get("negotiated"))
        pause = EthtoolPause(
            autonegotiate=json_flag(body.get("autonegotiate")),
            rx=json_flag(body.get("rx")),
            tx=json_flag(body.get("tx")),
            rx_negotiated=json_flag(negotiated.get("rx")),
            tx_negotiated=json_flag(negotiated.get("tx")),
            statistics=_json_counters(body.get("statistics")),
        )
    else:
        rows = _pairs(text)
        pause = EthtoolPause(
            autonegotiate=_ON_OFF.get(rows.get("Autonegotiate", "")),
            rx=_ON_OFF.get(rows.get("RX", "")),
            tx=_ON_OFF.get(rows.get("TX", "")),
            rx_negotiated=_ON_OFF.get(rows.get("RX negotiated", "")),
            tx_negotiated=_ON_OFF.get(rows.get("TX negotiated", "")),
            statistics=_counters(rows, r"[a-z0-9_]+_frames"),
        )
    if pause.autonegotiate is None and pause.rx is None and pause.tx is None:
        reject("ethtool -a", text)
    return pause


def parse_module(text: str) -> EthtoolModule:
    """SFP, QSFP and CMIS modules. Raises ToolOutputError without an identifier or a vendor row."""
    values: dict[str, list[str]] = {}
    for line in text_lines(text):
        key, colon, value = line.strip().partition(":")
        if colon:
            values.setdefault(key.strip(), []).append(value.strip())
    if not values.keys() & {"Identifier", "Vendor name", "Vendor PN"}:
        reject("ethtool -m", text)
    return EthtoolModule(
        identifier=_one(values, "Identifier"),
        connector=_one(values, "Connector"),
        vendor_name=_one(values, "Vendor name") or None,
        vendor_oui=_one(values, "Vendor OUI") or None,
        vendor_pn=_one(values, "Vendor PN") or None,
        vendor_rev=_one(values, "Vendor rev") or None,
        vendor_sn=_one(values, "Vendor SN") or None,
        date_code=_one(values, "Date code") or None,
        copper_length=_cable_length(values),
        temperature=_measure(_one(values, "Module temperature"), "degrees C"),
        voltage=_measure(_one(values, "Module voltage"), "V"),
        bias={c: ma for c, v in _channels(values, "bias current").items() if (ma := _measure(v, "mA")) is not None},
        tx_power=_powers(values, r"output power|Transmit avg optical power"),
        rx_power=_powers(values, r"(?:Receiver|Rcvr) signal (?:(?:average|avg) optical power|OMA)"),
        alarms={name: cells == ["On"] for name, cells in values.items() if _ALARM.fullmatch(name) and cells in _STATES},
        values={name: tuple(cells) for name, cells in values.items()},
    )


def parse_priv_flags(text: str) -> dict[str, bool]:
    """`ethtool --show-priv-flags`, by name ("fw-lldp-agent", "rx_cqe_moder"). Raises when the device has none."""
    flags: dict[str, bool] = {}
    rest = text.partition("Private flags for ")[2]
    for line in text_lines(rest):
        match = re.fullmatch(r"\s*(\S+)\s*:\s*(on|off)", line)
        if match:
            flags[match.group(1)] = agree(flags.get(match.group(1)), _ON_OFF[match.group(2)], match.group(1))
    if not flags:
        reject("ethtool --show-priv-flags", text)
    return flags


def parse_fec(text: str) -> EthtoolFec:
    if looks_like_json(text):
        body = json_object(text, "ethtool --show-fec")
        fec = EthtoolFec(_names(body.get("config")), _names(body.get("active")), _json_counters(body.get("statistics")))
    else:
        rows = _pairs(text)
        configured = rows.get("Supported/Configured FEC encodings", rows.get("Configured FEC encodings"))
        active = rows.get("Active FEC encoding", rows.get("Active FEC encodings"))
        fec = EthtoolFec(
            tuple(configured.split()) if configured else None,
            tuple(active.split()) if active else None,
            _counters(rows, r"(?:un)?correct\w*_(?:blocks|bits)|fec_\w+"),
        )
    if fec.configured is None and fec.active is None:
        reject("ethtool --show-fec", text)
    return fec


def _link_rows(text: str) -> tuple[str | None, dict[str, list[str]]]:
    """Rows under "Settings for DEV:"; a line without a name goes on with the row above it."""
    interface: str | None = None
    values: dict[str, list[str]] = {}
    cells: list[str] | None = None
    for line in text_lines(text):
        head = re.fullmatch(r"\s*Settings for (\S+):", line)
        row = re.fullmatch(r"\s*([A-Z][\w /-]*?):\s*(.*)", line)
        if head:
            interface = agree(interface, head.group(1), "interface")
        elif interface is not None and row:
            cells = values.setdefault(row.group(1), [])
            cells.append(row.group(2).strip())
        elif cells is not None and ":" not in line and re.match(r"\s{8,}|\t\t|\s*[0-9]+base", line):
            cells.append(line.strip())
        else:
            cells = None
    return interface, values


def _pairs(text: str) -> dict[str, str]:
    """Rows "key: value"; a key that stands twice must say the same, else the text is of two interfaces."""
    rows: dict[str, str] = {}
    for line in text_lines(text):
        key, colon, value = line.strip().partition(":")
        if colon and not key.startswith("Lane ") and not is_prompt(line):
            rows[key] = agree(rows.get(key), value.strip(), key)
    return rows


def _counters(rows: dict[str, str], names: str) -> dict[str, int]:
    numbers = {name: integer(value.split(" ")[0]) for name, value in rows.items() if re.fullmatch(names, name)}
    return {name: value for name, value in numbers.items() if value is not None}


def _json_counters(value: object) -> dict[str, int]:
    """Counters of a JSON "statistics" object; a list or object inside has the total first."""
    counters = {}
    for name, item in members(value).items():
        total = members(item).get("total", item[0] if isinstance(item, list) and item else item)
        number = json_integer(total)
        if number is not None:
            counters[name] = number
    return counters


def _names(value: object) -> tuple[str, ...] | None:
    return tuple(str(item) for item in value) if isinstance(value, list) and value else None


def _one(values: dict[str, list[str]], name: str) -> str | None:
    """The row's value; two different ones for one name are two interfaces' or two modules'."""
    cells = values.get(name)
    if cells is None:
        return None
    if len(set(cells)) > 1:
        raise ToolOutputError(f"contradicts itself: {name} is both {cells[0]!r} and {cells[1]!r}")
    return cells[0]


def _known(text: str | None) -> str | None:
    return None if text is None or not text or text.startswith("Unknown") else text


def _words(values: dict[str, list[str]], name: str) -> tuple[str, ...] | None:
    words = " ".join(values.get(name, [])).split()
    return None if not words or words[:2] == ["Not", "reported"] else tuple(dict.fromkeys(words))


def _measure(text: str | None, unit: str) -> float | None:
    """The number before the unit in "3.2576 V" or "41.05 degrees C / 105.90 degrees F"."""
    match = re.match(rf"([+-]?[0-9.]{{1,20}}) ?{re.escape(unit)}(?: /.*)?$", text or "")
    return decimal(match.group(1)) if match else None


def _cable_length(values: dict[str, list[str]]) -> float | None:
    """SFF-8636's byte for it is the reach over OM4 fibre in a module that no cable is fixed to."""
    length = _one(values, "Length (Copper)")
    if length is None and "No separable connector" in (_one(values, "Connector") or ""):
        length = _one(values, "Length (Copper or Active cable)")
    return _measure(length, "m")


def _channels(values: dict[str, list[str]], names: str) -> dict[int, str]:
    """Values of the rows whose name ends so, by the "(Channel n)" after it."""
    rows = {}
    for name in values:
        match = re.fullmatch(rf"(?:.* )?(?:{names})\s*(?:\(Channel ([0-9]{{1,2}})\))?", name)
        value = _one(values, name) if match else None
        if match and value is not None:
            rows[int(match.group(1) or 1)] = value
    return rows


def _powers(values: dict[str, list[str]], names: str) -> dict[int, float | None]:
    powers: dict[int, float | None] = {}
    for channel, value in _channels(values, names).items():
        match = re.fullmatch(r"[0-9.]+ mW / (-inf|[+-]?[0-9.]{1,20}) dBm", value)
        if match:
            powers[channel] = decimal(match.group(1))
    return powers
