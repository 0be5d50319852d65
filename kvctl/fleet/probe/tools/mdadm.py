"""`mdadm --detail`. Format: mdadm Detail.c."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ToolOutputError
from .scalars import count, once, plain, words


@dataclass(frozen=True)
class MdMember:
    """`states` as printed: active, sync, faulty, spare, rebuilding, removed, failfast, writemostly, journal ..."""

    number: int | None
    major: int | None
    minor: int | None
    raid_device: int | None
    states: tuple[str, ...]
    device: str | None


@dataclass(frozen=True)
class MdArray:
    """Sizes in bytes. `condition` is one word of the whole: failed (the array, or a member of an array that is
    whole without it), recovering, resyncing, reshaping, checking, degraded, inactive, or clean."""

    device: str
    version: str | None = None
    level: str | None = None
    size: int | None = None
    used_device_size: int | None = None
    raid_devices: int | None = None
    total_devices: int | None = None
    states: tuple[str, ...] = ()
    condition: str | None = None
    degraded: bool | None = None
    active_devices: int | None = None
    working_devices: int | None = None
    failed_devices: int | None = None
    spare_devices: int | None = None
    layout: str | None = None
    chunk_size: int | None = None
    consistency_policy: str | None = None
    bitmap: str | None = None
    action: str | None = None  # rebuild, resync, reshape, check
    percent: int | None = None  # done, of `action`
    name: str | None = None
    homehost: str | None = None
    uuid: str | None = None
    events: int | None = None
    members: tuple[MdMember, ...] = ()


def parse_detail(text: str) -> MdArray:
    """The one array of `text`; several arrays raise ToolOutputError, see parse_details."""
    arrays = parse_details(text)
    if len(arrays) > 1:
        raise ToolOutputError("details of {} arrays; one was expected".format(len(arrays)))
    return arrays[0]


def parse_details(text: str) -> tuple[MdArray, ...]:
    """Every array of `mdadm --detail DEVICE...`, in order."""
    parts = re.split(r"^\s*(/dev/\S+):[ \t]*$", plain(text), flags=re.MULTILINE)
    arrays = tuple(_array(device, body) for device, body in zip(parts[1::2], parts[2::2]))
    if not arrays:
        raise ToolOutputError("no line that names an array")
    return arrays


_ROW = re.compile(r"\s*(\d+|-)\s+(\d+|-)\s+(\d+|-)\s+(\d+|-)(?:\s+(\S.*?))?\s*")
_ROW_START = re.compile(r"\s*(?:\d+|-)\s")
_STATUS = re.compile(r"(Rebuild|Resync|Reshape|Check|Recovery|Repair) Status")


def _array(device: str, body: str) -> MdArray:
    head, table, rows = _split(body)
    values = once(
        [(key.strip(), value.strip()) for key, colon, value in (line.partition(" : ") for line in head) if colon]
    )
    if "Magic" in values:
        raise ToolOutputError("{} is a member's superblock, as --examine prints it".format(device))
    if "Raid Level" not in values and "Version" not in values:
        raise ToolOutputError("{} has neither a level nor a version".format(device))
    # Prompts and messages of the tool ("mdadm: cannot open ...") may follow the table.
    members = tuple(_member(row) for row in rows if _ROW_START.match(row)) if table else ()
    states = tuple(part.strip() for part in values.get("State", "").split(",") if part.strip())
    failed = count(values.get("Failed Devices"))
    action, percent = _progress(values)
    name, home = _name(values.get("Name"))
    return MdArray(
        device=device,
        version=words(values.get("Version")),
        level=words(values.get("Raid Level")),
        size=_kibibytes(values.get("Array Size")),
        used_device_size=_kibibytes(values.get("Used Dev Size")),
        raid_devices=count(values.get("Raid Devices")),
        total_devices=count(values.get("Total Devices")),
        states=states,
        condition=_condition(states, failed),
        # Of an array that is not started the tool does not say how many members it lacks.
        degraded=None if not states or "inactive" in states else "degraded" in states or "FAILED" in states,
        active_devices=count(values.get("Active Devices")),
        working_devices=count(values.get("Working Devices")),
        failed_devices=failed,
        spare_devices=count(values.get("Spare Devices")),
        layout=None if values.get("Layout") == "-unknown-" else words(values.get("Layout")),
        chunk_size=_chunk(values.get("Chunk Size") or values.get("Rounding")),
        consistency_policy=words(values.get("Consistency Policy")),
        bitmap=words(values.get("Intent Bitmap")),
        action=action,
        percent=percent,
        name=name,
        homehost=home,
        uuid=_uuid(values.get("UUID")),
        events=count(values.get("Events")),
        members=members,
    )


def _split(body: str) -> tuple[list[str], bool, list[str]]:
    """The key lines, whether there is a table of members, and its rows."""
    lines = body.splitlines()
    for number, line in enumerate(lines):
        if line.split()[:3] == ["Number", "Major", "Minor"]:
            return lines[:number], True, lines[number + 1 :]
    return lines, False, []


def _member(row: str) -> MdMember:
    match = _ROW.fullmatch(row)
    if match is None:
        raise ToolOutputError("not a member of an array: " + row.strip()[:60])
    rest = (match.group(5) or "").split()
    device = rest.pop() if rest and rest[-1].startswith("/") else None
    number, major, minor, role = (count(value) for value in match.groups()[:4])
    return MdMember(number, major, minor, role, tuple(rest), device)


def _condition(states: tuple[str, ...], failed: int | None) -> str | None:
    if not states:
        return None
    found = {state.split(" (")[0] for state in states}
    if "FAILED" in found or "broken" in found:
        return "failed"
    for state in ("recovering", "resyncing", "reshaping", "checking"):
        if state in found:
            return state
    if "degraded" in found:
        return "degraded"
    if failed:
        return "failed"
    if found & {"inactive", "Not Started"}:
        return "inactive"
    return "clean" if found & {"clean", "active", "write-pending", "active-idle", "read-auto", "readonly"} else None


def _progress(values: dict[str, str]) -> tuple[str | None, int | None]:
    for key, value in values.items():
        status = _STATUS.fullmatch(key)
        match = re.match(r"([0-9]{1,3})% complete", value)
        if status:
            return status.group(1).lower(), count(match.group(1), 100) if match else None
    return None, None


def _kibibytes(value: str | None) -> int | None:
    """ "439221248 (418.87 GiB 449.76 GB)": the number is in KiB."""
    match = re.match(r"([0-9]{1,20})(?: \(|$)", value or "")
    return int(match.group(1)) * 1024 if match else None


def _chunk(value: str | None) -> int | None:
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", value or "")
    return int(match.group(1)) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match.group(2)] if match else None


def _name(value: str | None) -> tuple[str | None, str | None]:
    """ "abc.xyz.com:this_name  (local to host abc.xyz.com)": the name without the host, and the host."""
    text = re.sub(r"\s*\(local to host .*\)$", "", value or "").strip()
    home, colon, name = text.partition(":")
    return (words(name), words(home)) if colon else (words(text), None)


def _uuid(value: str | None) -> str | None:
    return value.lower() if value and re.fullmatch(r"[0-9a-fA-F]{8}(?::[0-9a-fA-F]{8}){3}", value) else None
