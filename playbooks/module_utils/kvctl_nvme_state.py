"""What a drive is now: sysfs by serial, then what wipefs, blkid and the kernel say of its namespace."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional, Set, Tuple

from .kvctl_command import run
from .kvctl_files import read_text
from .kvctl_nvme import Content, Drive, owns
from .kvctl_refused import Refused
from .tools import ToolOutputError, nvme

CLASS = "/sys/class/nvme"
BLOCK = "/sys/block"
FSTAB = "/etc/fstab"
RULES = "/etc/udev/rules.d"
SAMPLE = 1 << 20  # bytes read at the start, the middle and the end to tell a blank namespace


def udev_path(serial: str) -> str:
    return "%s/61-kvctl-%s.rules" % (RULES, re.sub(r"[^A-Za-z0-9_.-]", "_", serial))


def find(serial: str) -> Tuple[str, str]:
    """(controller, namespace) of the one local drive with this serial. Names are looked up at every use."""
    found = [name for name in sorted(listdir(CLASS)) if read_text("%s/%s/serial" % (CLASS, name)) == serial]
    if not found:
        raise Refused("KV-NVME-001", "there is no drive with serial %s" % serial, "check the slot and the inventory")
    if len(found) > 1:
        raise Refused("KV-NVME-002", "serial %s is shown by %s" % (serial, ", ".join(found)), "exclude network drives")
    controller = found[0]
    transport = read_text("%s/%s/transport" % (CLASS, controller))
    if transport not in ("pcie", None):
        raise Refused("KV-NVME-003", "drive %s is reached over %s" % (serial, transport), "name a local drive")
    spaces = namespaces(controller)
    if len(spaces) != 1:
        raise Refused("KV-NVME-004", "drive %s has %d namespaces (%s)" % (serial, len(spaces), ", ".join(spaces)),
                      "leave one namespace on a cache drive")  # fmt: skip
    return controller, spaces[0]


def listdir(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def namespaces(controller: str) -> List[str]:
    """Block names of a controller's namespaces; a multipath path nvme3c1n2 stands for the disk nvme3n2."""
    names = set()
    for entry in listdir("%s/%s" % (CLASS, controller)):
        match = re.match(r"^(nvme\d+)(?:c\d+)?(n\d+)$", entry)
        if match:
            names.add(match.group(1) + match.group(2))
    return sorted(names)


def lba_size(namespace: str) -> int:
    text = read_text("%s/%s/queue/logical_block_size" % (BLOCK, namespace))
    if text is None or not text.isdigit():
        raise Refused("KV-NVME-005", "the LBA size of %s cannot be read" % namespace, "is the namespace attached?")
    return int(text)


def read(serial: str) -> Drive:
    controller, namespace = find(serial)
    device = "/dev/" + namespace
    metadata, formats = read_formats(device)
    content, options = read_content(device, namespace)
    fstab = next((line for line in (read_text(FSTAB) or "").splitlines() if owns(line, serial)), "")
    return Drive(
        controller, namespace, lba_size(namespace), metadata, formats, format_supported("/dev/" + controller), content,
        read_scheduler(namespace), options, fstab, read_rule(serial),
    )  # fmt: skip


def read_rule(serial: str) -> str:
    try:
        with open(udev_path(serial), encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def read_formats(device: str) -> Tuple[Optional[int], Tuple[Tuple[int, int, int, int], ...]]:
    output = run(["nvme", "id-ns", device, "-H"])
    if output.rc != 0:
        raise Refused("KV-NVME-006", "nvme id-ns %s: %s" % (device, output.complaint), "install nvme-cli")
    try:
        seen = nvme.parse_id_ns(output.out)
    except ToolOutputError as error:
        raise Refused("KV-NVME-006", "nvme id-ns %s: %s" % (device, error), "check nvme-cli's version") from None
    formats = [
        (entry.index, entry.data_bytes, entry.metadata_bytes, rank(entry.relative_performance))
        for entry in seen.formats
        if entry.data_bytes is not None and entry.metadata_bytes is not None
    ]
    return seen.metadata_bytes, tuple(formats)


def rank(performance: Optional[int]) -> int:
    """0 (best) to 3; a drive that does not rank a format comes after those that do."""
    return 4 if performance is None else performance


def format_supported(controller: str) -> Optional[bool]:
    for words in (["-o", "json"], []):
        output = run(["nvme", "id-ctrl", controller] + words)
        if output.rc == 0:
            try:
                return nvme.parse_id_ctrl(output.out).format_supported
            except ToolOutputError:
                continue
    return None


def read_scheduler(namespace: str) -> Optional[str]:
    """The bracketed name of queue/scheduler; None when the queue has none to choose."""
    match = re.search(r"\[(\S+)\]", read_text("%s/%s/queue/scheduler" % (BLOCK, namespace)) or "")
    return match.group(1) if match else None


def read_content(device: str, namespace: str) -> Tuple[Content, Tuple[str, ...]]:
    """What is on the namespace, and the options of its mount. Looked up by device number, not by name."""
    try:
        number = os.stat(device).st_rdev
    except OSError as error:
        raise Refused("KV-NVME-007", "%s: %s" % (device, error.strerror), "is the namespace attached?") from None
    kernel = "/sys/dev/block/%d:%d" % (os.major(number), os.minor(number))
    inside = listdir(kernel)
    partitions = tuple(sorted(name for name in inside if os.path.exists("%s/%s/partition" % (kernel, name))))
    mounts, options = mounted(number)
    signatures = read_signatures(device)
    return (
        Content(
            signatures=tuple(sorted({entry["type"] for entry in signatures})),
            partitions=partitions,
            holders=tuple(sorted(listdir(kernel + "/holders"))),
            mounts=mounts,
            uuid=next((entry["uuid"] for entry in signatures if entry.get("uuid")), ""),
            blank=blank(device),
        ),
        options,
    )


def mounted(number: int) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Mount points of a device number and their options, from /proc/self/mountinfo (proc(5))."""
    points: List[str] = []
    options: Set[str] = set()
    wanted = "%d:%d" % (os.major(number), os.minor(number))
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        fields = line.split()
        if len(fields) > 6 and fields[2] == wanted:
            points.append(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), fields[4]))
            tail = fields[fields.index("-") + 1 :]
            options.update(fields[5].split(","), tail[2].split(",") if len(tail) > 2 else [])
    return tuple(sorted(points)), tuple(sorted(options))


def read_signatures(device: str) -> List[Dict[str, Any]]:
    """Every signature that wipefs knows, as {"type", "uuid", "label"}."""
    output = run(["wipefs", "--no-act", "--json", device])
    if output.rc != 0:
        raise Refused("KV-NVME-008", "wipefs %s: %s" % (device, output.complaint), "install util-linux 2.33 or newer")
    if not output.out.strip():
        return []
    try:
        found: List[Dict[str, Any]] = json.loads(output.out)["signatures"]
    except (ValueError, KeyError, TypeError):
        raise Refused("KV-NVME-008", "wipefs --json %s: not the expected JSON" % device) from None
    return found


def blank(device: str) -> bool:
    """Whether three samples of the namespace are all zero."""
    try:
        with open(device, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            for offset in (0, (size // 2) & ~(SAMPLE - 1), max(0, size - SAMPLE)):
                stream.seek(offset)
                if stream.read(SAMPLE).strip(b"\0"):
                    return False
    except OSError as error:
        raise Refused("KV-NVME-007", "%s: %s" % (device, error.strerror), "is the namespace attached?") from None
    return True
