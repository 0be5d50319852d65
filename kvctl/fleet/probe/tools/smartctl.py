"""`smartctl`, JSON (7.0 and later, any protocol) and the text of NVMe drives.

Format: smartmontools nvmeprint.cpp and scsiprint.cpp/ataprint.cpp for the common keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ToolOutputError, looks_like_json
from .nvme_smart import SmartLog, from_lines, from_mapping
from .scalars import boolean, count, integer, items, load_json, mapping, plain, words


@dataclass(frozen=True)
class SmartDevice:
    """`passed` is smartctl's own verdict; `health` the NVMe log, None when the output has none."""

    device: str | None = None
    protocol: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    capacity_bytes: int | None = None
    lba_bytes: int | None = None
    temperature_c: int | None = None
    power_on_hours: int | None = None
    passed: bool | None = None
    exit_status: int | None = None
    messages: tuple[str, ...] = ()
    health: SmartLog | None = None


def parse(text: str) -> SmartDevice:
    """One drive's output. smartctl's own error messages are values, not exceptions."""
    if looks_like_json(text):
        return _from_json(mapping(load_json(text)))
    return _from_text(text)


def _from_json(document: dict[str, object]) -> SmartDevice:
    if "smartctl" not in document and "json_format_version" not in document:
        raise ToolOutputError("not a document of smartctl")
    run, device = mapping(document.get("smartctl")), mapping(document.get("device"))
    has_log = isinstance(document.get("nvme_smart_health_information_log"), dict)
    return SmartDevice(
        device=words(device.get("name")),
        protocol=words(device.get("protocol")),
        model=words(document.get("model_name")) or words(document.get("scsi_model_name")),
        serial=words(document.get("serial_number")),
        firmware=words(document.get("firmware_version")) or words(document.get("scsi_revision")),
        capacity_bytes=_capacity(document),
        lba_bytes=_lba(document),
        temperature_c=_celsius(mapping(document.get("temperature")).get("current")),
        power_on_hours=count(mapping(document.get("power_on_time")).get("hours")),
        passed=_strict(mapping(document.get("smart_status")).get("passed")),
        exit_status=count(run.get("exit_status"), 255),
        messages=tuple(str(entry["string"]) for entry in items(run.get("messages")) if "string" in entry),
        health=from_mapping(document) if has_log else None,
    )


def _strict(value: object) -> bool | None:
    return boolean(value) if isinstance(value, bool) else None


def _celsius(value: object) -> int | None:
    degrees = integer(value)
    return degrees if degrees is not None and -70 <= degrees <= 200 else None


def _capacity(document: dict[str, object]) -> int | None:
    """What the host can use; with several namespaces smartctl only gives the whole drive."""
    size = count(mapping(document.get("user_capacity")).get("bytes"))
    return size if size is not None else count(document.get("nvme_total_capacity"))


def _lba(document: dict[str, object]) -> int | None:
    size = count(document.get("logical_block_size"))
    if size is None:
        sizes = {count(entry.get("formatted_lba_size")) for entry in items(document.get("nvme_namespaces"))}
        size = sizes.pop() if len(sizes) == 1 else None
    return size if size and size >= 512 and not size & (size - 1) else None


_CAPACITY = re.compile(r"[0-9.,' \u00a0\u202f\u2019]+")


def _from_text(text: str) -> SmartDevice:
    if not re.search(r"^(?:smartctl [0-9]|SMART/Health Information|SMART overall-health|Model Number:)", text, re.M):
        raise ToolOutputError("not the text of smartctl")
    values: dict[str, str] = {}
    for line in plain(text).splitlines():
        key, colon, value = line.partition(":")
        if colon and values.setdefault(key.strip(), value.strip()) != value.strip() and key.strip() in _IDENTITY:
            raise ToolOutputError("{} is given twice with different values".format(key.strip()))
    has_log = bool(re.search(r"^\s*(?:Critical Warning|Percentage Used):", text, re.M))
    health = from_lines(text) if has_log else None
    verdict = words(values.get("SMART overall-health self-assessment test result"))
    # SCSI drives say "OK" or what is wrong with them, in their own words.
    scsi = words(values.get("SMART Health Status"))
    return SmartDevice(
        protocol="NVMe" if has_log else None,
        model=words(values.get("Model Number")) or words(values.get("Device Model")),
        serial=words(values.get("Serial Number")) or words(values.get("Serial number")),
        firmware=words(values.get("Firmware Version")),
        capacity_bytes=_bytes(values, ("Namespace 1 Size/Capacity", "Total NVM Capacity", "User Capacity")),
        lba_bytes=_text_lba(values.get("Namespace 1 Formatted LBA Size") or values.get("Logical block size")),
        temperature_c=health.temperature_c if health else None,
        power_on_hours=health.power_on_hours if health else None,
        passed={"PASSED": True, "FAILED!": False, "OK": True}.get(verdict or scsi or ""),
        health=health,
    )


_IDENTITY = ("Model Number", "Device Model", "Serial Number", "Serial number", "Firmware Version")


def _bytes(values: dict[str, str], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        match = _CAPACITY.match(values.get(key, ""))
        number = count(match.group().strip()) if match else None
        if number is not None:
            return number
    return None


def _text_lba(value: str | None) -> int | None:
    size = count((value or "").partition(" bytes")[0])
    return size if size and size >= 512 and not size & (size - 1) else None
