"""GPUs as nvidia-smi lists them or, without it, as the driver's /proc folder does."""

import re
from typing import Any

from kvctl.fleet.facts import pci
from kvctl.fleet.facts.raw import Raw, convert, field
from kvctl.types.facts import Fact, Gpu, unknown

_ROW = re.compile(r"\s*([A-Za-z][A-Za-z .]*?)\s*:\s*(\S.*?)\s*")
_IDLE_FROM = 8  # P8 and deeper are idle states; data-centre cards rest in P0


def gpus(raw: Raw) -> tuple[Gpu, ...]:
    answer = raw.answer("nvidia_smi.xml", "nvidia_smi", "parse_xml", "nvidia-smi")
    if answer.known and answer.value is not None:
        found = [_from_tool(raw, answer, one) for one in answer.value.gpus if one.uuid]
        if len(found) < len(answer.value.gpus):
            raw.errors.append(f"nvidia-smi: {len(answer.value.gpus) - len(found)} GPUs have no UUID and are left out")
        return tuple(found)
    listed = [_from_proc(raw, address) for address in sorted(raw.table("host", "gpus"))]
    if raw.table("host", "gpus"):
        raw.errors.append("GPUs: " + answer.unknown)
    return tuple(gpu for gpu in listed if gpu is not None)


def _from_tool(raw: Raw, answer: Fact[Any], one: Any) -> Gpu:
    def said(value: Any) -> Fact[Any]:
        return (
            raw.fact(value, answer.source) if value is not None else unknown("nvidia-smi does not say", answer.source)
        )

    address = _address(one.pci)
    return Gpu(
        uuid=one.uuid,
        name=said(one.name),
        pci=said(address),
        driver=field(answer, "driver"),
        pcie=pci.pcie_link(raw, address),
        busy=convert(said(one.performance_state), _busy, "its performance state does not tell"),
    )


def _busy(state: str) -> bool | None:
    match = re.fullmatch(r"P(\d+)", state)
    return False if match and int(match.group(1)) >= _IDLE_FROM else None


def _address(text: str | None) -> str | None:
    """The driver writes eight digits of domain where sysfs writes four."""
    match = re.fullmatch(r"(?:0000)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", (text or "").lower())
    return match.group(1) if match else None


def _from_proc(raw: Raw, address: str) -> Gpu | None:
    leaf = raw.text("host", "gpus", address)
    rows: dict[str, str] = {
        match[1]: match[2] for match in map(_ROW.fullmatch, (leaf.value or "").splitlines()) if match
    }
    uuid = rows.get("GPU UUID", "")
    if not uuid.startswith("GPU-"):
        return None
    place = _address(address)
    return Gpu(
        uuid=uuid,
        name=raw.fact(rows["Model"], leaf.source) if "Model" in rows else unknown("no Model row", leaf.source),
        pci=raw.fact(place, leaf.source) if place else unknown("no PCI address", leaf.source),
        driver=unknown("nvidia-smi was not read"),
        pcie=pci.pcie_link(raw, place),
        busy=unknown("nvidia-smi was not read"),
    )
