"""The NVMe health log: `nvme smart-log` (text and JSON, nvme-cli 1.x to 3.x) and smartctl's print of the same page.

Units and meaning: NVM Express base specification, SMART / Health Information (log page 02h). nvme-cli's JSON gives
temperatures in kelvin, smartctl's in degrees Celsius.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Optional

from . import ToolOutputError, looks_like_json
from .scalars import boolean, count, integer, load_json, mapping, once, plain

WARNINGS = (
    "available spare is below its threshold",
    "temperature is outside its thresholds",
    "reliability is degraded",
    "media is read-only",
    "volatile memory backup failed",
    "persistent memory region is read-only",
)
_DATA_UNIT = 512_000  # bytes: a data unit is 1000 blocks of 512 bytes
_KELVIN = 273
_COLDEST, _HOTTEST = 200, 500  # kelvin; 0 means that the drive does not measure


@dataclass(frozen=True)
class SmartLog:
    """`percentage_used` may exceed 100. `warnings` name the bits that are set in `critical_warning`."""

    critical_warning: int | None = None
    warnings: tuple[str, ...] | None = None
    temperature_c: int | None = None
    sensors_c: tuple[int | None, ...] = ()
    available_spare: int | None = None  # percent
    spare_threshold: int | None = None  # percent
    percentage_used: int | None = None
    data_units_read: int | None = None
    data_units_written: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    host_reads: int | None = None
    host_writes: int | None = None
    busy_minutes: int | None = None
    power_cycles: int | None = None
    power_on_hours: int | None = None
    unsafe_shutdowns: int | None = None
    media_errors: int | None = None
    error_log_entries: int | None = None
    warning_temp_minutes: int | None = None
    critical_temp_minutes: int | None = None


# Field: names in nvme-cli JSON, smartctl JSON, nvme-cli text and smartctl text, in lower case with underscores.
_NAMES = {
    "available_spare": ("avail_spare", "available_spare"),
    "spare_threshold": ("spare_thresh", "available_spare_threshold"),
    "percentage_used": ("percent_used", "percentage_used"),
    "data_units_read": ("data_units_read",),
    "data_units_written": ("data_units_written",),
    "host_reads": ("host_read_commands", "host_reads"),
    "host_writes": ("host_write_commands", "host_writes"),
    "busy_minutes": ("controller_busy_time",),
    "power_cycles": ("power_cycles",),
    "power_on_hours": ("power_on_hours",),
    "unsafe_shutdowns": ("unsafe_shutdowns",),
    "media_errors": ("media_errors", "media_and_data_integrity_errors"),
    "error_log_entries": ("num_err_log_entries", "error_information_log_entries"),
    "warning_temp_minutes": ("warning_temp_time", "warning_temperature_time", "warning_comp._temperature_time"),
    "critical_temp_minutes": (
        "critical_comp_time",
        "critical_composite_temperature_time",
        "critical_comp._temperature_time",
    ),
}
_PERCENT = ("available_spare", "spare_threshold", "percentage_used")  # each is one byte on the wire
_Degrees = Callable[[object], Optional[int]]
_MARKS = ("critical_warning", "percent_used", "percentage_used", "avail_spare", "available_spare")


def parse_smart_log(text: str) -> SmartLog:
    """The health log in `text`. The output of one drive only: joined outputs raise ToolOutputError."""
    if looks_like_json(text):
        return from_mapping(mapping(load_json(text)))
    return from_lines(text)


def from_mapping(document: dict[str, object]) -> SmartLog:
    """The log from nvme-cli's JSON, or from smartctl's (in its nvme_smart_health_information_log)."""
    inner = document.get("nvme_smart_health_information_log")
    if isinstance(inner, dict):
        return _build(mapping(inner), _celsius)
    if not any(key in document for key in _MARKS):
        raise ToolOutputError("no health log in the JSON: none of " + ", ".join(_MARKS))
    return _build(document, _from_kelvin)


def from_lines(text: str) -> SmartLog:
    """The log from "name : value" lines of nvme-cli or smartctl."""
    if re.search(r"^Additional Smart Log", text, re.MULTILINE):
        raise ToolOutputError("this is a vendor's additional log, not the health log")
    pairs = []
    for line in plain(text).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.append((re.sub(r"\s+", "_", key.strip().lower()), value.strip()))
    values = {key: value for key, value in pairs if key in _TEXT_KEYS or key.startswith("temperature_sensor_")}
    if not any(key in values for key in _MARKS):
        raise ToolOutputError("no health log: none of " + ", ".join(_MARKS))
    values = once([pair for pair in pairs if pair[0] in values])
    return _build({key: _plain(key, value) for key, value in values.items()}, _celsius_text)


_TEXT_KEYS = {name for names in _NAMES.values() for name in names} | {"critical_warning", "temperature"}


def _plain(key: str, value: str) -> object:
    """A counter without its unit or its rounded form in brackets: "15%", "14,073,051 (7.21 TB)", "1 [512 kB]"."""
    if key.startswith("temperature"):
        return value
    return value.partition("(")[0].partition("[")[0].strip().rstrip("%")


def _build(values: dict[str, object], celsius: _Degrees) -> SmartLog:
    numbers: dict[str, int | None] = {}
    for field, names in _NAMES.items():
        most = 255 if field in _PERCENT else None
        given = [values[name] for name in names if name in values]
        numbers[field] = count(given[0], most) if given else None
    warning = _warning(values.get("critical_warning"))
    written, units_read = numbers["data_units_written"], numbers["data_units_read"]
    return SmartLog(
        critical_warning=warning,
        warnings=None if warning is None else tuple(w for bit, w in enumerate(WARNINGS) if warning >> bit & 1),
        temperature_c=celsius(values.get("temperature")),
        sensors_c=_sensors(values, celsius),
        bytes_read=None if units_read is None else units_read * _DATA_UNIT,
        bytes_written=None if written is None else written * _DATA_UNIT,
        **numbers,
    )


def _warning(value: object) -> int | None:
    """The critical warning byte, a number or, with nvme-cli's -H or -v, an object of its bits."""
    if not isinstance(value, dict):
        return count(value, 255)
    if "value" in value:
        return count(value["value"], 255)
    names = ("available_spare", "temp_threshold", "reliability_degraded", "ro", "vmbu_failed", "pmr_ro")
    bits = [boolean(value.get(name, False)) for name in names]
    if not any(name in value for name in names) or None in bits:
        return None
    return sum(1 << position for position, bit in enumerate(bits) if bit)


def _sensors(values: dict[str, object], convert: _Degrees) -> tuple[int | None, ...]:
    listed = values.get("temperature_sensors")
    if isinstance(listed, list):
        return tuple(convert(item) for item in listed[:8])
    found: dict[int, int | None] = {}
    for key, value in values.items():
        match = re.fullmatch(r"temperature_sensor_([1-8])", key)
        if match:
            # Builds of 2016 print every sensor, those that are not fitted as 0.
            found[int(match.group(1))] = None if value == "0 C" else convert(value)
    # A sensor that is not fitted is left out by the tools; its place stays, as None.
    return tuple(found.get(number) for number in range(1, max(found, default=0) + 1))


def _from_kelvin(value: object) -> int | None:
    kelvin = integer(value)
    return kelvin - _KELVIN if kelvin is not None and _COLDEST <= kelvin <= _HOTTEST else None


def _celsius(value: object) -> int | None:
    degrees = integer(value)
    return degrees if degrees is not None and _COLDEST <= degrees + _KELVIN <= _HOTTEST else None


def _celsius_text(value: object) -> int | None:
    """ "42 C", "39 C (312 Kelvin)", "29 °C (302 K)", "29 °C (302 K, 84 °F)", "48 Celsius"."""
    text = value if isinstance(value, str) else ""
    kelvin = re.search(r"\(\s*([0-9]{3})\s*K(?:elvin)?\s*[,)]", text)
    if kelvin:
        return _from_kelvin(int(kelvin.group(1)))
    plain = re.fullmatch(r"(-?[0-9]{1,3})\s*(?:\u00b0|\u00ba|\ufffd|\u00c2\u00b0|\?)*\s*(C|Celsius|F|Fahrenheit)", text)
    if plain is None:
        return None
    degrees = int(plain.group(1))
    return _celsius(degrees if plain.group(2).startswith("C") else round((degrees - 32) * 5 / 9))
