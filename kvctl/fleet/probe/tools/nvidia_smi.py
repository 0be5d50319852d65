"""`nvidia-smi -q -x` (DTD v10 to v13) and `nvidia-smi topo -m`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from . import ToolOutputError
from .scalars import count, plain, words

_NOT_SAID = re.compile(
    r"\[.*\]|n/?a|not (?:supported|available|found|applicable)|unknown( error)?|gpu is lost|err!|"
    r"requested functionality has been deprecated|insufficient permissions|function not found|none",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Gpu:
    """Memory in MiB, power in watts, temperature in degrees Celsius, PCIe widths in lanes.

    The link values are: what card and host allow together, now, the card now, the card's and the host's most.
    """

    pci: str | None
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    part_number: str | None = None
    vbios: str | None = None
    minor_number: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    numa_node: int | None = None
    max_link_gen: int | None = None
    current_link_gen: int | None = None
    device_current_link_gen: int | None = None
    max_device_link_gen: int | None = None
    max_host_link_gen: int | None = None
    max_link_width: int | None = None
    current_link_width: int | None = None
    replay_counter: int | None = None
    performance_state: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    bar1_total_mib: int | None = None
    temperature_c: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None


@dataclass(frozen=True)
class NvidiaSmi:
    """`attached` is the number the driver reports, which exceeds len(gpus) when the query was for some only."""

    driver: str | None
    cuda: str | None
    attached: int | None
    gpus: tuple[Gpu, ...]
    messages: tuple[str, ...] = ()  # warnings the tool printed outside the document


@dataclass(frozen=True)
class Topology:
    """`links[a][b]` is X, NV#, PIX, PXB, PHB, NODE or SYS; `nics` maps the legend's NIC1 to the RDMA device."""

    links: dict[str, dict[str, str]]
    nics: dict[str, str]
    cpu_affinity: dict[str, str]
    numa_affinity: dict[str, str]


def parse_xml(text: str) -> NvidiaSmi:
    """GPUs of `nvidia-smi -q -x`. Warnings before or after the document, as for a corrupt infoROM, are kept."""
    end = text.rfind("</nvidia_smi_log>")
    start = re.search(r"<\?xml|<!DOCTYPE|<nvidia_smi_log", text)
    if start is None or end < start.start():
        raise ToolOutputError("no complete nvidia_smi_log document")
    end += len("</nvidia_smi_log>")
    document = text[start.start() : end]
    # The tool's DOCTYPE names an external DTD only; declarations inside could expand without bound.
    if "<!ENTITY" in document or re.search(r"<!DOCTYPE[^>]*\[", document):
        raise ToolOutputError("the document declares entities")
    try:
        root = ElementTree.fromstring(document)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ToolOutputError("broken XML: {}".format(error)) from None
    if root.tag != "nvidia_smi_log":
        raise ToolOutputError("the document is not an nvidia_smi_log")
    outside = (text[: start.start()] + "\n" + text[end:]).splitlines()
    return NvidiaSmi(
        driver=_said(root, "driver_version"),
        cuda=_said(root, "cuda_version"),
        attached=count(_said(root, "attached_gpus")),
        gpus=tuple(_gpu(node) for node in root.findall("gpu")),
        messages=tuple(line.strip() for line in outside if line.strip()),
    )


def _said(node: ElementTree.Element, *paths: str) -> str | None:
    """The first of the paths that has a real value; renamed elements differ between DTD versions."""
    for path in paths:
        text = words(node.findtext(path))
        if text is not None and not _NOT_SAID.fullmatch(text):
            return text
    return None


def _gpu(node: ElementTree.Element) -> Gpu:
    link = "pci/pci_gpu_link_info/"
    power = ("gpu_power_readings/", "power_readings/")
    return Gpu(
        pci=_address(_said(node, "pci/pci_bus_id") or node.get("id")),
        name=_said(node, "product_name"),
        uuid=_said(node, "uuid"),
        serial=_said(node, "serial"),
        part_number=_said(node, "gpu_part_number", "board_part_number"),
        vbios=_said(node, "vbios_version"),
        minor_number=count(_said(node, "minor_number")),
        persistence=_switch(_said(node, "persistence_mode")),
        mig=_switch(_said(node, "mig_mode/current_mig")),
        numa_node=count(_said(node, "numa_node", "gpu_numa_id")),
        max_link_gen=_generation(_said(node, link + "pcie_gen/max_link_gen")),
        current_link_gen=_generation(_said(node, link + "pcie_gen/current_link_gen")),
        device_current_link_gen=_generation(_said(node, link + "pcie_gen/device_current_link_gen")),
        max_device_link_gen=_generation(_said(node, link + "pcie_gen/max_device_link_gen")),
        max_host_link_gen=_generation(_said(node, link + "pcie_gen/max_host_link_gen")),
        max_link_width=_lanes(_said(node, link + "link_widths/max_link_width")),
        current_link_width=_lanes(_said(node, link + "link_widths/current_link_width")),
        replay_counter=count(_said(node, "pci/replay_counter")),
        performance_state=_said(node, "performance_state"),
        memory_total_mib=_unit(_said(node, "fb_memory_usage/total"), "MiB"),
        memory_used_mib=_unit(_said(node, "fb_memory_usage/used"), "MiB"),
        bar1_total_mib=_unit(_said(node, "bar1_memory_usage/total"), "MiB"),
        temperature_c=_unit(_said(node, "temperature/gpu_temp"), "C"),
        power_watts=_watts(_said(node, *_each(power, "power_draw", "instant_power_draw", "average_power_draw"))),
        power_limit_watts=_watts(_said(node, *_each(power, "power_limit", "current_power_limit"))),
    )


def _each(parents: tuple[str, ...], *names: str) -> list[str]:
    return [parent + name for parent in parents for name in names]


def _address(value: str | None) -> str | None:
    """The driver writes domains of eight digits; sysfs four, unless the domain needs more."""
    match = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", (value or "").strip().lower())
    return "{}:{}".format(format(int(match.group(1), 16), "04x"), match.group(2)) if match else None


def _switch(value: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((value or "").lower())


def _generation(value: str | None) -> int | None:
    return count(value, 7) or None


def _lanes(value: str | None) -> int | None:
    match = re.fullmatch(r"([0-9]{1,2})x", value or "")
    return int(match.group(1)) if match and int(match.group(1)) in (1, 2, 4, 8, 12, 16, 32) else None


def _unit(value: str | None, unit: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,12}) " + unit, value or "")
    return int(match.group(1)) if match else None


def _watts(value: str | None) -> float | None:
    match = re.fullmatch(r"([0-9]{1,5}\.[0-9]{1,3}) W", value or "")
    return float(match.group(1)) if match else None


_CELL = re.compile(r"X|NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|C2C|N/A")
_LINKS = re.compile(r"NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|C2C|X")
_GLUED = re.compile("(?:" + _LINKS.pattern + "){2,}")
_LABEL = re.compile(r"GPU[0-9]+|NIC[0-9]+|(?:mlx|bnxt_re|irdma|roce|ib|hfi|rdma|i40iw|qedr|efa)\w*")


def parse_topo(text: str) -> Topology:
    """Matrix and legend of `nvidia-smi topo -m`; the legend alone is accepted."""
    lines = plain(text).splitlines()
    nics: dict[str, str] = {}
    links: dict[str, dict[str, str]] = {}
    cpus: dict[str, str] = {}
    numas: dict[str, str] = {}
    labels: list[str] = []
    affinities: list[str] = []
    for line in lines:
        legend = re.fullmatch(r"\s*(NIC[0-9]+):\s+(\S+)\s*", line)
        parts = line.split()
        if legend:
            if nics.setdefault(legend.group(1), legend.group(2)) != legend.group(2):
                raise ToolOutputError("{} stands twice in the legend".format(legend.group(1)))
        elif not labels and parts and _LABEL.fullmatch(parts[0]) and "X" not in parts:
            labels = _header(parts)
            affinities = re.findall(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", line)
        elif labels and parts and parts[0] in labels:
            row = _row(labels, _parted(parts[1:]))
            if row.get(parts[0]) != "X" or links.setdefault(parts[0], row) != row:
                raise ToolOutputError("the row of {} does not fit the header".format(parts[0]))
            # Behind a matrix with a cell that is lost or cut the columns cannot be told apart.
            tail = dict(zip(affinities, _tail(line, len(labels), len(affinities)))) if len(row) == len(labels) else {}
            _keep(cpus, parts[0], tail.get("CPU Affinity"))
            _keep(numas, parts[0], tail.get("NUMA Affinity"))
    if not links and not nics:
        raise ToolOutputError("neither a topology matrix nor a NIC legend")
    return Topology(links, nics, cpus, numas)


def _header(parts: list[str]) -> list[str]:
    found = []
    for part in parts:
        if not _LABEL.fullmatch(part):
            break
        found.append(part)
    return found


def _row(labels: list[str], cells: list[str]) -> dict[str, str]:
    """The row's cells; a cell that is no link type makes the rest of the row unsure."""
    found = {}
    for label, cell in zip(labels, cells):
        if not _CELL.fullmatch(cell):
            break
        found[label] = cell
    return found


def _parted(cells: list[str]) -> list[str]:
    """The cells; two that ran together where a terminal wrapped the line ("NODEPIX", "NV18SYS") are two again."""
    return [part for cell in cells for part in (_LINKS.findall(cell) if _GLUED.fullmatch(cell) else [cell])]


def _tail(line: str, width: int, wanted: int) -> list[str]:
    """The affinity cells after the matrix: separated by tabs as printed, by blanks in copies."""
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) > width + 1:
        return cells[width + 1 :]
    parts = _parted(line.split())[width + 1 :]
    return parts if len(parts) == wanted else []


def _keep(found: dict[str, str], label: str, value: str | None) -> None:
    if value and re.fullmatch(r"[0-9]+(?:[-,][0-9]+)*", value):
        found[label] = value
