"""NVMe controllers and namespaces as nvme-cli lists them, and how one entry of a list becomes one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from . import ToolOutputError
from .scalars import count, words

# The path node of one controller under native multipath: not a namespace of its own, and of size 0.
_HIDDEN = re.compile(r"nvme[0-9]+c[0-9]+n[0-9]+")
_NAME = re.compile(r"(?:nvme|ng)[0-9]+n[0-9]+")
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# Models of NVMe volumes that are served over a network, whatever the transport they show.
_SERVED = (
    "vastdata",
    "linux",
    "amazon elastic block store",
    "nvme_card-pd",
    "msft nvme accelerator",
    "spdk bdev controller",
    "netapp ontap controller",
    "pure storage flasharray",
    "dellemc",
    "infinibox",
    "huawei-xsg1",
)


@dataclass(frozen=True)
class NvmeController:
    """`local` is False for a transport other than pcie, None when the output does not name the transport."""

    name: str | None
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None
    transport: str | None = None
    address: str | None = None  # as printed: a PCI address, or traddr=... of a fabric
    pci: str | None = None  # only of a pcie controller
    slot: str | None = None
    state: str | None = None
    subsystem: str | None = None
    subsystem_nqn: str | None = None
    ana_state: str | None = None
    local: bool | None = None


@dataclass(frozen=True)
class NvmeNamespace:
    """Sizes in bytes. `size_exact` is False where the tool printed a rounded size ("153.60  GB")."""

    name: str | None  # nvme0n1
    device: str | None  # /dev/nvme0n1
    generic: str | None = None  # ng0n1
    nsid: int | None = None
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None
    used_bytes: int | None = None
    size_bytes: int | None = None
    size_exact: bool | None = None
    sector_size: int | None = None
    metadata_bytes: int | None = None
    controllers: tuple[NvmeController, ...] = ()
    local: bool | None = None  # False: a volume of a network target; None: not told
    not_local_because: str = ""


@dataclass(frozen=True)
class NvmeList:
    """`hidden` are multipath path nodes (nvme0c0n1), which are not drives and are left out of `namespaces`."""

    namespaces: tuple[NvmeNamespace, ...]
    controllers: tuple[NvmeController, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class NvmeSubsystem:
    name: str | None
    nqn: str | None
    controllers: tuple[NvmeController, ...]
    host_nqn: str | None = None


class Found:
    """Collects what a nested document holds, in order and without repeats."""

    def __init__(self) -> None:
        self.namespaces: list[NvmeNamespace] = []
        self.controllers: list[NvmeController] = []
        self.hidden: list[str] = []

    def add(self, entry: dict[str, object], controllers: tuple[NvmeController, ...]) -> None:
        item = read_namespace(entry, controllers)
        name = item.name or ""
        if _HIDDEN.fullmatch(name):
            if name not in self.hidden:
                self.hidden.append(name)
            return
        for position, known in enumerate(self.namespaces):
            if known.name == item.name:
                self.namespaces[position] = _merged(known, item)
                return
        self.namespaces.append(item)

    def add_controller(self, controller: NvmeController) -> None:
        if controller.name not in [known.name for known in self.controllers]:
            self.controllers.append(controller)

    def result(self) -> NvmeList:
        return NvmeList(tuple(self.namespaces), tuple(self.controllers), tuple(self.hidden))


def _merged(known: NvmeNamespace, again: NvmeNamespace) -> NvmeNamespace:
    """One namespace that is listed under several controllers, or once more under its subsystem."""
    if (known.nsid, known.size_bytes, known.sector_size) != (again.nsid, again.size_bytes, again.sector_size):
        raise ToolOutputError("{} is listed twice with different values".format(known.name))
    controllers = tuple(dict.fromkeys((*known.controllers, *again.controllers)))
    return replace(known, controllers=controllers)


def read_controller(entry: dict[str, object], subsystem: str | None, nqn: str | None) -> NvmeController:
    transport = words(entry.get("Transport"))
    address = words(entry.get("Address"))
    local = None if transport is None else transport.lower() == "pcie"
    pci = address.lower() if local and address and _PCI.fullmatch(address) else None
    return NvmeController(
        name=words(entry.get("Controller")) or words(entry.get("Name")),
        serial=words(entry.get("SerialNumber")) or words(entry.get("Serial number")),
        model=words(entry.get("ModelNumber")) or words(entry.get("Model number")),
        firmware=words(entry.get("Firmware")),
        transport=transport.lower() if transport else None,
        address=address,
        pci=pci,
        slot=words(entry.get("Slot")),
        state=words(entry.get("State")),
        subsystem=subsystem,
        subsystem_nqn=nqn,
        ana_state=words(entry.get("ANAState")),
        local=local,
    )


def read_namespace(entry: dict[str, object], controllers: tuple[NvmeController, ...]) -> NvmeNamespace:
    """One namespace. In flat shapes NameSpace is the number; in nested ones it is the name and NSID the number."""
    label = entry.get("NameSpace", entry.get("Namespace"))
    device = words(entry.get("DevicePath"))
    name = device.rpartition("/")[2] if device else words(label)
    if name is None or not (_NAME.fullmatch(name) or _HIDDEN.fullmatch(name)):
        raise ToolOutputError("a namespace has no device name")
    generic = words(entry.get("GenericPath")) or words(entry.get("Generic"))
    size, used, sector = _sizes(entry)
    serial = words(entry.get("SerialNumber")) or _agreed([item.serial for item in controllers])
    model = words(entry.get("ModelNumber")) or _agreed([item.model for item in controllers])
    local, why = _local(serial, model, controllers)
    return NvmeNamespace(
        name=name,
        device="/dev/" + name,
        generic=generic.rpartition("/")[2] if generic else None,
        nsid=count(entry.get("NSID", None if isinstance(label, str) and label == name else label)),
        serial=serial,
        model=model,
        firmware=words(entry.get("Firmware")) or _agreed([item.firmware for item in controllers]),
        used_bytes=used,
        size_bytes=size,
        size_exact=None if size is None else True,
        sector_size=sector,
        controllers=controllers,
        local=local,
        not_local_because=why,
    )


def _agreed(values: list[str | None]) -> str | None:
    return values[0] if values and len(set(values)) == 1 else None


def _sizes(entry: dict[str, object]) -> tuple[int | None, int | None, int | None]:
    """Size, use and sector size in bytes, of which only what is consistent."""
    sector = count(entry.get("SectorSize"))
    if sector is not None and (sector < 512 or sector & (sector - 1)):
        sector = None
    # Old builds print through 32 bits: a size clamps or turns negative, and a block count may have wrapped.
    raw = entry.get("PhysicalSize")
    size = count(raw)
    clamped = isinstance(raw, int) and (raw < 0 or raw in (2**31 - 1, 2**32 - 1))
    blocks = count(entry.get("MaximumLBA", entry.get("MaximiumLBA")))
    used = count(entry.get("UsedBytes"))
    if used in (2**31 - 1, 2**32 - 1) and clamped:
        used = None
    product = blocks * sector if blocks and sector else None
    if clamped:
        return (product if product is not None and product >= 2**31 else None), used, sector
    if size is not None and product is not None and size != product:
        return None, used, None
    return (size if size is not None else product), used, sector


def _local(serial: str | None, model: str | None, controllers: tuple[NvmeController, ...]) -> tuple[bool | None, str]:
    transports = {item.transport for item in controllers if item.transport}
    if transports - {"pcie"}:
        return False, "its transport is " + ", ".join(sorted(transports))
    name = (model or "").lower()
    if name.startswith(_SERVED):
        return False, "its model is a network volume's"
    if model and serial == model:
        return False, "its serial number is its model name"
    return (True, "") if transports else (None, "")
