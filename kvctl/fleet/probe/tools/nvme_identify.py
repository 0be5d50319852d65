"""`nvme id-ctrl` and `nvme id-ns`, text (with and without -H) and JSON, nvme-cli 1.x to 3.x.

Bit meanings: NVM Express base specification, Identify Controller and Identify Namespace data structures.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from . import ToolOutputError, looks_like_json
from .scalars import count, items, load_json, mapping, once, plain, words

_KELVIN = 273
_PERFORMANCE = ("best", "better", "good", "degraded")


@dataclass(frozen=True)
class ControllerIdentity:
    """A bit of a field that the output lacks is None. Capacities in bytes; 0 in the drive means not reported: None."""

    vendor_id: int | None = None
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None
    version: str | None = None
    subsystem_nqn: str | None = None
    controller_id: int | None = None
    namespaces: int | None = None  # the largest namespace number
    total_bytes: int | None = None
    unallocated_bytes: int | None = None
    max_transfer_exponent: int | None = None  # MDTS, in units of the smallest page; 0 is without limit
    volatile_write_cache: bool | None = None
    multi_controller: bool | None = None
    oacs: int | None = None
    fna: int | None = None
    sanicap: int | None = None
    format_supported: bool | None = None
    namespace_management: bool | None = None
    format_all_namespaces: bool | None = None  # a format of one namespace reformats all
    erase_all_namespaces: bool | None = None
    crypto_erase: bool | None = None
    sanitize_crypto: bool | None = None
    sanitize_block: bool | None = None
    sanitize_overwrite: bool | None = None
    warning_temp_c: int | None = None
    critical_temp_c: int | None = None


@dataclass(frozen=True)
class LbaFormat:
    """`relative_performance` 0 is best, 3 degraded; `data_bytes` is None for a format the drive does not have."""

    index: int
    data_bytes: int | None
    metadata_bytes: int | None
    relative_performance: int | None
    performance: str | None
    in_use: bool | None


@dataclass(frozen=True)
class NamespaceIdentity:
    """`lba_bytes` is the data size of the format in use. `best` are the formats without metadata that the drive
    itself ranks first; more than one when it ranks them alike."""

    formats: tuple[LbaFormat, ...]
    in_use: int | None = None
    lba_bytes: int | None = None
    metadata_bytes: int | None = None
    best: tuple[int, ...] = ()
    available_lba_bytes: tuple[int, ...] = ()
    blocks: int | None = None
    capacity_blocks: int | None = None
    used_blocks: int | None = None
    size_bytes: int | None = None
    used_bytes: int | None = None
    nvm_capacity_bytes: int | None = None
    flbas: int | None = None
    nguid: str | None = None
    eui64: str | None = None


def parse_id_ctrl(text: str) -> ControllerIdentity:
    """The controller's identity, of which the format and erase abilities decide what a reformat may do."""
    if looks_like_json(text):
        values = mapping(load_json(text))
    else:
        values = dict(once(_fields(text, _CTRL_KEYS)))
    if not ({"sn", "mn", "oacs", "fna"} & set(values)):
        raise ToolOutputError("no identify controller fields: none of sn, mn, oacs, fna")
    oacs, fna = count(values.get("oacs"), 0xFFFF), count(values.get("fna"), 0xFF)
    sanicap, cmic = count(values.get("sanicap"), 0xFFFFFFFF), count(values.get("cmic"), 0xFF)
    return ControllerIdentity(
        vendor_id=count(values.get("vid"), 0xFFFF),
        serial=words(values.get("sn")),
        model=words(values.get("mn")),
        firmware=words(values.get("fr")),
        version=_version(count(values.get("ver"), 0xFFFFFFFF)),
        subsystem_nqn=words(values.get("subnqn")),
        controller_id=count(values.get("cntlid"), 0xFFFF),
        namespaces=count(values.get("nn"), 0xFFFFFFFF),
        total_bytes=count(values.get("tnvmcap")) or None,
        unallocated_bytes=_unallocated(values),
        max_transfer_exponent=count(values.get("mdts"), 0xFF),
        volatile_write_cache=_bit(count(values.get("vwc"), 0xFF), 0),
        multi_controller=_bit(cmic, 1),
        oacs=oacs,
        fna=fna,
        sanicap=sanicap,
        format_supported=_bit(oacs, 1),
        namespace_management=_bit(oacs, 3),
        format_all_namespaces=_bit(fna, 0),
        erase_all_namespaces=_bit(fna, 1),
        crypto_erase=_bit(fna, 2),
        sanitize_crypto=_bit(sanicap, 0),
        sanitize_block=_bit(sanicap, 1),
        sanitize_overwrite=_bit(sanicap, 2),
        warning_temp_c=_celsius(values.get("wctemp")),
        critical_temp_c=_celsius(values.get("cctemp")),
    )


_CTRL_KEYS = re.compile(
    r"vid|sn|mn|fr|ver|subnqn|cntlid|nn|tnvmcap|unvmcap|mdts|vwc|cmic|oacs|fna|sanicap|wctemp|cctemp"
)


def _fields(text: str, names: re.Pattern[str]) -> list[tuple[str, str]]:
    """The "name : value" lines. Lines of power states and those that -H adds are indented further."""
    pairs = []
    for line in textwrap.dedent(plain(text)).splitlines():
        key, colon, value = line.partition(":")
        if colon and names.fullmatch(key.rstrip()):
            pairs.append((key.rstrip(), value.strip()))
    return pairs


def _bit(value: int | None, position: int) -> bool | None:
    return None if value is None else bool(value >> position & 1)


def _version(value: int | None) -> str | None:
    """Controllers before NVMe 1.2 report 0: no version."""
    if not value:
        return None
    return "{}.{}.{}".format(value >> 16, value >> 8 & 0xFF, value & 0xFF)


def _unallocated(values: dict[str, object]) -> int | None:
    """Only meaningful with a total: without one both fields are reserved and read 0."""
    return count(values.get("unvmcap")) if count(values.get("tnvmcap")) else None


def _celsius(value: object) -> int | None:
    kelvin = count(value, 0xFFFF)
    return kelvin - _KELVIN if kelvin else None


def parse_id_ns(text: str) -> NamespaceIdentity:
    """The namespace's size and LBA formats; an excerpt with only the format lines is enough."""
    if looks_like_json(text):
        values = mapping(load_json(text))
        listed = values.get("lbafs")
        if not isinstance(listed, list):
            raise ToolOutputError("no lbafs in the JSON of id-ns")
        formats = [_json_format(position, entry) for position, entry in enumerate(items(listed))]
        if len(formats) != len(listed):
            raise ToolOutputError("an entry of lbafs is not an object")
    else:
        values = dict(once(_fields(text, _NS_KEYS)))
        formats = _text_formats(text)
        if not formats and not ({"nsze", "flbas"} <= set(values)):
            raise ToolOutputError("no LBA format lines and no namespace fields")
    return _namespace(values, formats)


_NS_KEYS = re.compile(r"nsze|ncap|nuse|nlbaf|flbas|nvmcap|nguid|eui64|nulbaf")
_HUMAN = re.compile(
    r"LBA Format\s+([0-9]{1,2})\s*:\s*Metadata Size:\s*([0-9]{1,9})\s+bytes\s*-\s*"
    r"Data Size:\s*([0-9]{1,12})\s+bytes\s*-\s*"
    r"Relative Performance:\s*(0x[0-3]|[0-3])(?:\s+(?:Best|Better|Good|Degraded))?\s*(\(in use\))?"
)
_TERSE = re.compile(
    r"lbaf\s+([0-9]{1,2})\s*:\s*ms:([0-9]{1,9})\s+(?:lba)?ds:([0-9]{1,9})\s+"
    r"rp:(0x[0-3]|[0-3])(?![0-9a-fx])\s*(\(in use\))?"
)


def _text_formats(text: str) -> list[LbaFormat]:
    found = []
    for line in plain(text).splitlines():
        human, terse = _HUMAN.search(line), _TERSE.search(line)
        match = human or terse
        if match:
            number = int(match.group(3))
            size = _supported(number) if human else _exponent(number)
            entry = _format(int(match.group(1)), size, int(match.group(2)), count(match.group(4)), bool(match.group(5)))
            if entry not in found:
                found.append(entry)
    return found


def _json_format(position: int, entry: dict[str, object]) -> LbaFormat:
    """One format; with -H or -v the sizes are texts ("512 bytes") and the keys are words."""
    if "Data Size" in entry:
        sizes = [re.match(r"([0-9]{1,12}) bytes", str(entry.get(key))) for key in ("Data Size", "Metadata Size")]
        data, metadata = [int(size.group(1)) if size else None for size in sizes]
        rank = re.match(r"0x[0-3]|[0-3]", str(entry.get("Relative Performance")))
        used = {"yes": True, "no": False}.get(str(entry.get("in use")))
        index = count(entry.get("LBA Format"), 63)
        return _format(_index(position, index), _supported(data), metadata, count(rank.group()) if rank else None, used)
    flag = entry.get("in_use")
    in_use = bool(flag) if flag in (0, 1) and isinstance(flag, int) else None
    index = _index(position, count(entry.get("lbaf", position), 63))
    data = _exponent(count(entry.get("ds"), 63))
    return _format(index, data, count(entry.get("ms"), 0xFFFF), count(entry.get("rp"), 3), in_use)


def _index(position: int, given: int | None) -> int:
    if given is not None and given != position:
        raise ToolOutputError("the LBA formats are not in order")
    return position


def _format(index: int, data: int | None, metadata: int | None, rank: int | None, in_use: bool | None) -> LbaFormat:
    return LbaFormat(index, data, metadata, rank, None if rank is None else _PERFORMANCE[rank], in_use)


def _exponent(value: int | None) -> int | None:
    return 1 << value if value is not None and 9 <= value <= 31 else None


def _supported(size: int | None) -> int | None:
    """nvme-cli prints 1 byte for a format that the drive does not have."""
    return size if size is not None and size >= 512 and not size & (size - 1) else None


def _namespace(values: dict[str, object], formats: list[LbaFormat]) -> NamespaceIdentity:
    if len({entry.index for entry in formats}) != len(formats):
        raise ToolOutputError("an LBA format is listed twice, differently")
    flbas = count(values.get("flbas"), 0xFF)
    in_use = _in_use(flbas, count(values.get("nlbaf"), 63), formats)
    by_index = {entry.index: entry for entry in formats}
    current = by_index.get(in_use) if in_use is not None else None
    lba = current.data_bytes if current else None
    usable = [entry for entry in formats if entry.data_bytes and entry.metadata_bytes == 0]
    ranks = [entry.relative_performance for entry in usable if entry.relative_performance is not None]
    blocks, used = count(values.get("nsze")), count(values.get("nuse"))
    return NamespaceIdentity(
        formats=tuple(formats),
        in_use=in_use,
        lba_bytes=lba,
        metadata_bytes=current.metadata_bytes if current else None,
        best=tuple(entry.index for entry in usable if ranks and entry.relative_performance == min(ranks)),
        available_lba_bytes=tuple(sorted({entry.data_bytes for entry in usable if entry.data_bytes})),
        blocks=blocks,
        capacity_blocks=count(values.get("ncap")),
        used_blocks=used,
        size_bytes=blocks * lba if blocks is not None and lba else None,
        used_bytes=used * lba if used is not None and lba else None,
        nvm_capacity_bytes=count(values.get("nvmcap")) or None,
        flbas=flbas,
        nguid=_identifier(values.get("nguid"), 32),
        eui64=_identifier(values.get("eui64"), 16),
    )


def _in_use(flbas: int | None, last: int | None, formats: list[LbaFormat]) -> int | None:
    """The index in FLBAS: bits 3:0, and bits 6:5 above them when there are more than 16 formats.

    nvme-cli 1.x marks the format by the low bits alone, so FLBAS goes before the mark.
    """
    marked = [entry.index for entry in formats if entry.in_use]
    if flbas is None:
        return marked[0] if len(marked) == 1 else None
    wide = max([last or 0] + [entry.index for entry in formats]) > 15
    index = flbas & 0xF | ((flbas & 0x60) >> 1 if wide else 0)
    if marked and marked != [index] and not wide:
        return None
    return index


def _identifier(value: object, digits: int) -> str | None:
    """An all-zero identifier is one the drive does not have."""
    text = str(value).strip().lower()
    return text if re.fullmatch("[0-9a-f]{%d}" % digits, text) and set(text) != {"0"} else None
