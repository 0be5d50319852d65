"""Local NVMe drives, their namespaces and what is on them."""

from typing import Any

from kvctl.fleet.facts import pci
from kvctl.fleet.facts.contents import contents
from kvctl.fleet.facts.raw import Raw, convert, field, first
from kvctl.types.facts import Drive, Fact, LbaFormat, Namespace, Smart, unknown

_SECTOR = 512  # the unit of /sys/block/*/size, whatever the drive's block size is


def drives(raw: Raw) -> tuple[Drive, ...]:
    """Controllers on PCIe; those of a fabric belong to another machine."""
    found = []
    for name in sorted(raw.table("nvme"), key=lambda text: (len(text), text)):
        transport = raw.text("nvme", name, "transport")
        address = raw.at("nvme", name, "device")
        address = address if isinstance(address, str) and pci.ADDRESS.fullmatch(address) else None
        local = transport.value == "pcie" if transport.known else address is not None
        if not local:
            continue
        found.append(_drive(raw, name, address, transport))
    return tuple(found)


def _drive(raw: Raw, name: str, address: str | None, transport: Fact[str]) -> Drive:
    identity = raw.answer("nvme.id_ctrl:" + name, "nvme", "parse_id_ctrl", "nvme")
    source = f"/sys/class/nvme/{name}/device"
    names = raw.at("nvme", name, "namespaces")
    smart = raw.answer("nvme.smart_log:" + name, "nvme", "parse_smart_log", "nvme")
    return Drive(
        controller=name,
        serial=raw.agreed(f"{name}: serial", raw.text("nvme", name, "serial"), field(identity, "serial")),
        model=raw.agreed(f"{name}: model", raw.text("nvme", name, "model"), field(identity, "model")),
        firmware=raw.agreed(f"{name}: firmware", raw.text("nvme", name, "firmware_rev"), field(identity, "firmware")),
        pci=raw.fact(address, source) if address else unknown("the controller has no PCI address", source),
        transport=transport,
        state=raw.text("nvme", name, "state"),
        numa=pci.numa(raw, address),
        pcie=pci.pcie_link(raw, address),
        format_supported=field(identity, "format_supported"),
        crypto_erase=field(identity, "crypto_erase"),
        capacity=field(identity, "total_bytes"),
        unallocated=field(identity, "unallocated_bytes"),
        smart=convert(smart, _smart, "the SMART log lacks a field"),
        namespaces=tuple(
            _namespace(raw, one) for one in (names if isinstance(names, list) else ()) if isinstance(one, str)
        ),
    )


def _smart(log: Any) -> Smart | None:
    values = (
        log.critical_warning,
        log.percentage_used,
        log.available_spare,
        log.spare_threshold,
        log.media_errors,
        log.temperature_c,
    )
    return None if any(value is None for value in values) else Smart(*values)


def _namespace(raw: Raw, name: str) -> Namespace:
    json_answer = raw.answer("nvme.id_ns:" + name, "nvme", "parse_id_ns", "nvme")
    text_answer = raw.answer("nvme.id_ns_h:" + name, "nvme", "parse_id_ns", "nvme")
    queue = ("block", name, "queue")
    told_lba = first(field(json_answer, "lba_bytes"), field(text_answer, "lba_bytes"))
    told_metadata = first(field(json_answer, "metadata_bytes"), field(text_answer, "metadata_bytes"))
    return Namespace(
        name=name,
        nsid=raw.number("block", name, "nsid", low=1, high=0xFFFFFFFE),
        wwid=raw.text("block", name, "wwid"),
        size=convert(raw.number("block", name, "size"), lambda sectors: sectors * _SECTOR),
        lba=raw.agreed(f"{name}: block size", raw.number(*queue, "logical_block_size", low=512, high=65536), told_lba),
        metadata=first(raw.number("block", name, "metadata_bytes", high=65535), told_metadata),
        formats=first(convert(json_answer, _formats), convert(text_answer, _formats)),
        scheduler=convert(raw.text(*queue, "scheduler"), _chosen),
        rotational=raw.flag(*queue, "rotational"),
        write_cache=raw.text(*queue, "write_cache"),
        io_timeout=raw.number(*queue, "io_timeout"),
        contents=contents(raw, name),
    )


def _chosen(text: str) -> str | None:
    """ "[none] mq-deadline" is none; a device without a choice prints the bare name."""
    for word in text.split():
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1] or None
    return text if " " not in text else None


def _formats(identity: Any) -> tuple[LbaFormat, ...] | None:
    """All formats, when each says everything: a format that is half known could be chosen by mistake."""
    found = []
    for one in identity.formats:
        if None in (one.data_bytes, one.metadata_bytes, one.performance, one.in_use):
            return None
        found.append(LbaFormat(one.index, one.data_bytes, one.metadata_bytes, one.performance.capitalize(), one.in_use))
    return tuple(found) or None
