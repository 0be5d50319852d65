"""`lsblk --json` of any util-linux, and `lsblk --pairs`.

util-linux 2.27 printed every JSON value as a string, 2.33 made numbers and booleans of some, 2.37 turned
`mountpoint` into the list `mountpoints`. Without -b sizes are rounded texts ("63.9M"), in binary units.
Format: util-linux misc-utils/lsblk.c and libsmartcols.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

from . import ToolOutputError, looks_like_json
from .scalars import boolean, count, load_json, mapping, plain, words


@dataclass(frozen=True)
class BlockDevice:
    """One row. `size` in bytes; `size_exact` is False when it came from a rounded text such as "3.5T"."""

    name: str | None
    kname: str | None = None
    path: str | None = None
    type: str | None = None
    size: int | None = None
    size_exact: bool | None = None
    read_only: bool | None = None
    removable: bool | None = None
    rotational: bool | None = None
    serial: str | None = None
    wwn: str | None = None
    vendor: str | None = None
    model: str | None = None
    revision: str | None = None
    transport: str | None = None
    fstype: str | None = None
    label: str | None = None
    uuid: str | None = None
    partuuid: str | None = None
    parent: str | None = None
    numbers: str | None = None  # "259:0"
    logical_sector: int | None = None
    physical_sector: int | None = None
    discard_granularity: int | None = None
    mountpoints: tuple[str, ...] | None = None  # None when the column was not asked for
    children: tuple[BlockDevice, ...] = ()

    def walk(self) -> Iterator[BlockDevice]:
        """This device and everything on it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Lsblk:
    devices: tuple[BlockDevice, ...]

    def walk(self) -> Iterator[BlockDevice]:
        for device in self.devices:
            yield from device.walk()


def parse(text: str) -> Lsblk:
    """Devices of `lsblk`, nested as printed; --pairs gives no nesting."""
    if not looks_like_json(text) and re.search(r'^\s*[A-Z][A-Z0-9:_%-]*="', text, re.MULTILINE):
        return Lsblk(tuple(_device(row) for row in _pairs(text)))
    document = load_json(text)
    listed = document.get("blockdevices") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ToolOutputError("no blockdevices in the JSON of lsblk")
    try:
        return Lsblk(tuple(_device(entry) for entry in listed))
    except RecursionError:
        raise ToolOutputError("devices nested too deeply") from None


_PAIR_START = re.compile(r'[A-Z][A-Z0-9:_%-]*="')
_PAIR = re.compile(r'([A-Z][A-Z0-9:_%-]*)="((?:[^"\\]|\\.)*)"(?:\s+|$)')


def _pairs(text: str) -> Iterator[dict[str, object]]:
    for line in plain(text).splitlines():
        rest = line.strip()
        if not _PAIR_START.match(rest):  # a message ("lsblk: dm-0: failed to get device path") or a prompt
            continue
        row: dict[str, object] = {}
        while rest:
            match = _PAIR.match(rest)
            if match is None:
                raise ToolOutputError('a line is not KEY="value" pairs: ' + rest[:60])
            row[match.group(1).lower()] = _unescaped(match.group(2))
            rest = rest[match.end() :]
        if row:
            yield row


def _unescaped(value: str) -> str:
    r"""lsblk writes unsafe bytes as \x0a; several of them may be one UTF-8 character."""
    if "\\x" not in value:
        return re.sub(r"\\(.)", r"\1", value)
    raw = re.sub(
        rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found.group(1), 16)]), value.encode("utf-8", "replace")
    )
    return raw.decode("utf-8", "replace")


def _device(entry: object) -> BlockDevice:
    if not isinstance(entry, dict):
        raise ToolOutputError("a block device is not an object")
    # --pairs and 2.37+ write MAJ_MIN and LOG_SEC where JSON has maj:min and log-sec.
    row = {re.sub(r"[^a-z0-9]", "_", key.lower()): value for key, value in mapping(entry).items()}
    name, kname = words(row.get("name")), words(row.get("kname"))
    if name is None and kname is None:
        raise ToolOutputError("a block device has no name")
    size, exact = _size(row.get("size"))
    children = row.get("children", [])
    if not isinstance(children, list):
        raise ToolOutputError("children is not a list")
    return BlockDevice(
        name=name or kname,
        kname=kname,
        path=words(row.get("path")),
        type=words(row.get("type")),
        size=size,
        size_exact=exact,
        read_only=boolean(row.get("ro")),
        removable=boolean(row.get("rm")),
        rotational=boolean(row.get("rota")),
        serial=words(row.get("serial")),
        wwn=words(row.get("wwn")),
        vendor=words(row.get("vendor")),
        model=words(row.get("model")),
        revision=words(row.get("rev")),
        transport=words(row.get("tran")),
        fstype=words(row.get("fstype")),
        label=words(row.get("label")),
        uuid=words(row.get("uuid")),
        partuuid=words(row.get("partuuid")),
        parent=words(row.get("pkname")),
        numbers=words(row.get("maj_min")),
        logical_sector=_sector(row.get("log_sec")),
        physical_sector=_sector(row.get("phy_sec")),
        discard_granularity=_size(row.get("disc_gran"))[0],
        mountpoints=_mountpoints(row),
        children=tuple(_device(child) for child in children),
    )


_HUMAN = re.compile(r"([0-9]{1,4}(?:[.,][0-9]{1,2})?)([BKMGTPE])(?:iB)?")
_UNITS = {unit: 1024**power for power, unit in enumerate("BKMGTPE")}


def _size(value: object) -> tuple[int | None, bool | None]:
    """Bytes and whether they are exact: a number, digits, or a text in binary units."""
    number = count(value)
    if number is not None:
        return number, True
    match = _HUMAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None, None
    return round(float(match.group(1).replace(",", ".")) * _UNITS[match.group(2)]), match.group(2) == "B"


def _sector(value: object) -> int | None:
    number = count(value)
    return number if number and number >= 512 and not number & (number - 1) else None


def _mountpoints(row: dict[str, object]) -> tuple[str, ...] | None:
    """Where it is mounted; () is nowhere. Swap shows as "[SWAP]"."""
    if "mountpoints" in row:
        value = row["mountpoints"]
        listed = value.split("\n") if isinstance(value, str) else value
    elif "mountpoint" in row:
        listed = [row["mountpoint"]]
    else:
        return None
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(item is None or isinstance(item, str) for item in listed):
        return None
    return tuple(item.strip() for item in listed if item and item.strip())
