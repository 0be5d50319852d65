"""`lspci -vvv`, whole or in excerpts, with or without -nn and -D.

pciutils 3.6 and 3.7 print "(ok)" after a good speed or width, 3.8 and later nothing, all print "(downgraded)"; ports of
switches and root ports carry the mark whenever the device below is slower, so they are not judged here.
Format: pciutils ls-caps.c, ls-ecaps.c, ls-vpd.c and lspci.c.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Iterable

from . import ToolOutputError
from .scalars import count, plain, words

# Names of the PCI database for the vendors a fabric node has, for outputs without -nn.
_VENDORS = {
    "Mellanox Technologies": "15b3",
    "NVIDIA Corporation": "10de",
    "Micron Technology Inc": "1344",
    "Intel Corporation": "8086",
    "Samsung Electronics Co Ltd": "144d",
    "KIOXIA Corporation": "1e0f",
    "Broadcom Inc. and subsidiaries": "14e4",
    "Broadcom / LSI": "1000",
    "Advanced Micro Devices, Inc. [AMD]": "1022",
    "Advanced Micro Devices, Inc. [AMD/ATI]": "1002",
}


@dataclass(frozen=True)
class PciLink:
    """Speeds in GT/s, widths in lanes. Marks as printed: ok, downgraded, overdriven, strange."""

    max_speed: float | None = None
    max_width: int | None = None
    speed: float | None = None
    width: int | None = None
    speed_mark: str | None = None
    width_mark: str | None = None
    speed_degraded: bool | None = None
    width_degraded: bool | None = None


@dataclass(frozen=True)
class PciDevice:
    """`degraded` is None for bridges and ports. An excerpt without the device's first line has no address."""

    address: str | None = None  # dddd:bb:dd.f
    class_name: str | None = None
    class_id: str | None = None
    name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    revision: str | None = None
    subsystem: str | None = None
    physical_slot: str | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    express_type: str | None = None
    bridge: bool | None = None
    link: PciLink = PciLink()
    degraded: bool | None = None
    max_payload_supported: int | None = None
    max_payload: int | None = None
    max_read_request: int | None = None
    relaxed_ordering: bool | None = None
    acs_capable: tuple[str, ...] | None = None
    acs_enabled: tuple[str, ...] | None = None
    acs_redirect: bool | None = None  # peer traffic is sent through the root complex
    part_number: str | None = None
    serial: str | None = None
    product: str | None = None
    driver: str | None = None


_HEAD = re.compile(
    r"^(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<rest>\S.*)$", re.MULTILINE | re.IGNORECASE
)
_LINK = (
    r"Speed\s+(?P<speed>[0-9.]+GT/s|unknown)\s*(?:\((?P<smark>\w+)\))?"
    r",\s+Width\s+x(?P<width>[0-9]+)\s*(?:\((?P<wmark>\w+)\))?"
)
_CAP = re.compile(r"\bLnkCap:\s+Port\s+#[0-9]+,\s+" + _LINK)
_STA = re.compile(r"\bLnkSta:\s+" + _LINK)
_TYPE = re.compile(r"Express (?:\(v[0-9]+\) )?([A-Z][\w/ -]*?(?: \(Slot[+-]\))?)(?: \(Slot[+-]\))?,? (?:MSI|IntMsgNum)")


def parse(text: str) -> tuple[PciDevice, ...]:
    """Devices in the order of the output; text before the first device's line is one device of its own."""
    text = textwrap.dedent(plain(text))
    heads = list(_HEAD.finditer(text))
    blocks: list[tuple[re.Match[str] | None, str]] = []
    start = heads[0].start() if heads else len(text)
    if _CAP.search(text[:start]) or _STA.search(text[:start]) or "ACSCtl:" in text[:start]:
        blocks.append((None, text[:start]))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        blocks.append((head, text[head.end() : end]))
    devices = tuple(_device(head, body) for head, body in blocks)
    if not devices:
        raise ToolOutputError("no PCI device and no link status")
    return devices


def cards(devices: Iterable[PciDevice]) -> tuple[tuple[PciDevice, ...], ...]:
    """Functions grouped by card: the same VPD serial number, else the same address up to the function."""
    groups: dict[str, list[PciDevice]] = {}
    for position, device in enumerate(devices):
        slot = device.address.rpartition(".")[0] if device.address else "unnamed {}".format(position)
        key = "{} {}".format(device.part_number, device.serial) if device.serial else slot
        groups.setdefault(key, []).append(device)
    return tuple(tuple(group) for group in groups.values())


def _device(head: re.Match[str] | None, body: str) -> PciDevice:
    identity = _identity(head.group("rest")) if head else {}
    address = head.group("address").lower() if head else None
    express = _single(_TYPE, body)
    bridge = _is_bridge(identity.get("class_name"), identity.get("class_id"), express)
    link = _link(body)
    capable, enabled = _flags("ACSCap", body), _flags("ACSCtl", body)
    payloads = re.findall(r"DevCap:\s+MaxPayload\s+([0-9]+)\s+bytes", body)
    return PciDevice(
        address=None if address is None else address if address.count(":") == 2 else "0000:" + address,
        subsystem=words(_single(re.compile(r"^[ \t]*Subsystem:[ \t]+(.*)$", re.M), body)),
        physical_slot=words(_single(re.compile(r"^[ \t]*Physical Slot:[ \t]+(.*)$", re.M), body)),
        numa_node=count(_single(re.compile(r"^[ \t]*NUMA node:[ \t]+([0-9]+)[ \t]*$", re.M), body)),
        iommu_group=count(_single(re.compile(r"^[ \t]*IOMMU group:[ \t]+([0-9]+)[ \t]*$", re.M), body)),
        express_type=express,
        bridge=bridge,
        link=link,
        degraded=None if bridge else _either(link.speed_degraded, link.width_degraded),
        max_payload_supported=count(payloads[0]) if len(set(payloads)) == 1 else None,
        max_payload=count(_single(re.compile(r"MaxPayload\s+([0-9]+)\s+bytes,\s+MaxReadReq"), body)),
        max_read_request=count(_single(re.compile(r"MaxReadReq\s+([0-9]+)\s+bytes"), body)),
        relaxed_ordering={"+": True, "-": False}.get(_single(re.compile(r"\bRlxdOrd([+-])"), body) or ""),
        acs_capable=_names(capable),
        acs_enabled=_names(enabled),
        acs_redirect=_redirect(enabled),
        part_number=words(_single(re.compile(r"\[PN\] Part number:[ \t]*(.*)$", re.M), body)),
        serial=words(_single(re.compile(r"\[SN\] Serial number:[ \t]*(.*)$", re.M), body)),
        product=words(_single(re.compile(r"^[ \t]*Product Name:[ \t]*(.*)$", re.M), body)),
        driver=words(_single(re.compile(r"^[ \t]*Kernel driver in use:[ \t]*(\S+)[ \t]*$", re.M), body)),
        **identity,
    )


def _identity(rest: str) -> dict[str, str | None]:
    """Class, name and numbers from a first line: "3D controller [0302]: NVIDIA Corporation X [10de:2330] (rev a1)"."""
    revision = re.search(r" \(rev ([0-9a-f]{2})\)", rest)
    text = re.sub(r" \((?:rev [0-9a-f]{2}|prog-if [^)]*)\)", "", rest).strip()
    kind, colon, name = text.partition(": ")
    if not colon:
        return {"class_name": words(kind.rstrip(":")), "revision": revision.group(1) if revision else None}
    number = re.search(r"\[([0-9a-f]{4})\]$", kind) or re.fullmatch(r"(?:Class )?([0-9a-f]{4})", kind)
    ids = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]$", name) or re.fullmatch(
        r"(?:Device )?([0-9a-f]{4}):([0-9a-f]{4})", name
    )
    shown = name[: ids.start()].strip() if ids else name
    vendor = next((identifier for title, identifier in _VENDORS.items() if shown.startswith(title + " ")), None)
    unnamed = re.search(r" Device ([0-9a-f]{4})$", shown)
    return {
        "class_name": words(kind[: number.start()] if number else kind),
        "class_id": number.group(1) if number else None,
        "name": words(shown),
        "vendor_id": ids.group(1) if ids else vendor,
        "device_id": ids.group(2) if ids else unnamed.group(1) if unnamed else None,
        "revision": revision.group(1) if revision else None,
    }


def _is_bridge(class_name: str | None, class_id: str | None, express: str | None) -> bool | None:
    if class_id:
        return class_id.startswith("06")
    if class_name:
        return "bridge" in class_name.lower()
    return ("Port" in express or "Bridge" in express) if express else None


def _link(body: str) -> PciLink:
    cap, sta = _same(_CAP, body), _same(_STA, body)
    max_speed, speed = _speed(cap), _speed(sta)
    max_width, width = _width(cap), _width(sta)
    return PciLink(
        max_speed=max_speed,
        max_width=max_width,
        speed=speed,
        width=width,
        speed_mark=sta["smark"] if sta else None,
        width_mark=sta["wmark"] if sta else None,
        speed_degraded=_degraded(speed, max_speed, sta["smark"] if sta else None),
        width_degraded=_degraded(width, max_width, sta["wmark"] if sta else None),
    )


def _same(pattern: re.Pattern[str], body: str) -> re.Match[str] | None:
    """The match, if all matches in the block say the same."""
    found = list(pattern.finditer(body))
    return found[0] if found and len({match.groups() for match in found}) == 1 else None


def _single(pattern: re.Pattern[str], body: str) -> str | None:
    found = {match.group(1) for match in pattern.finditer(body)}
    return found.pop() if len(found) == 1 else None


def _speed(match: re.Match[str] | None) -> float | None:
    number = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9])?)GT/s", match["speed"]) if match else None
    value = float(number.group(1)) if number else None
    return value if value in (2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0) else None


def _width(match: re.Match[str] | None) -> int | None:
    """x0 is a link that is down."""
    value = count(match["width"]) if match else None
    return value if value in (0, 1, 2, 4, 8, 12, 16, 32) else None


def _degraded(now: float | None, most: float | None, mark: str | None) -> bool | None:
    if now is not None and most is not None:
        return now < most
    return {"downgraded": True, "ok": False}.get(mark or "")


def _either(first: bool | None, second: bool | None) -> bool | None:
    if first or second:
        return True
    return None if first is None or second is None else False


def _flags(label: str, body: str) -> dict[str, bool] | None:
    line = _single(re.compile(r"\b" + label + r":\s*(\S.*)$", re.M), body)
    found = re.findall(r"([A-Z][A-Za-z]+)([+-])", line or "")
    return {name: sign == "+" for name, sign in found} if found else None


def _names(flags: dict[str, bool] | None) -> tuple[str, ...] | None:
    return None if flags is None else tuple(name for name, on in flags.items() if on)


def _redirect(flags: dict[str, bool] | None) -> bool | None:
    """Whether peer-to-peer requests or completions are redirected upstream."""
    if flags is None:
        return None
    bits = [flags.get(name) for name in ("ReqRedir", "CmpltRedir", "UpstreamFwd")]
    return True if any(bits) else None if None in bits else False
