"""What the first and last blocks of a block device say it carries.

The udev database and lsblk answer the same, but not where udevd does not run. Offsets: libblkid's superblock probers.
A device with data that no rule here knows is "unrecognised", never empty: emptiness is what permits a format.
"""

from __future__ import annotations

import os

_HEAD = 1 << 20
_TAIL = 1 << 17
_FIXED = (
    (0, b"XFSB", "xfs"),
    (65600, b"_BHRfS_M", "btrfs"),
    (0, b"LUKS\xba\xbe", "crypto_LUKS"),
    (4086, b"SWAPSPACE2", "swap"),
    (0, b"bluestore block device", "ceph_bluestore"),
    (4096, b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (0, b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
)
_TABLES = ((512, b"EFI PART", "gpt"), (4096, b"EFI PART", "gpt"))


def describe(path: str) -> str:
    """Lines "key=value" with key fstype, uuid, label or pttype; no line for an empty device. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = _at(fd, 0, _HEAD)
        end = os.lseek(fd, 0, os.SEEK_END)
        tail = _at(fd, max(end - _TAIL, 0), _TAIL) if end > _HEAD else b""
    finally:
        os.close(fd)
    return "".join(f"{key}={value}\n" for key, value in recognise(head, tail))


def _at(fd: int, offset: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def recognise(head: bytes, tail: bytes) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for offset, magic, name in _FIXED:
        if head.startswith(magic, offset):
            found.append(("fstype", name))
            if name == "xfs":
                found += [("uuid", _uuid(head[32:48])), ("label", _text(head[108:120]))]
    if head[1080:1082] == b"\x53\xef":
        found += [("fstype", _ext(head)), ("uuid", _uuid(head[1128:1144])), ("label", _text(head[1144:1160]))]
    for sector in range(4):
        if head.startswith(b"LABELONE", 512 * sector) and head.startswith(b"LVM2 001", 512 * sector + 24):
            found.append(("fstype", "LVM2_member"))
    # md metadata 0.90 and 1.0 sit at the end of the device.
    if any(tail.startswith(b"\xfc\x4e\x2b\xa9", at) for at in range(0, len(tail), 4096)):
        found.append(("fstype", "linux_raid_member"))
    tables = [name for offset, magic, name in _TABLES if head.startswith(magic, offset)]
    if not tables and not found and head[510:512] == b"\x55\xaa":
        tables = ["dos"]
    found += [("pttype", name) for name in sorted(set(tables))]
    found = [(key, value) for key, value in dict.fromkeys(found) if value]
    if not found and (head.strip(b"\0") or tail.strip(b"\0")):
        found = [("fstype", "unrecognised")]
    return found


def _ext(head: bytes) -> str:
    compatible = int.from_bytes(head[1116:1120], "little")
    incompatible = int.from_bytes(head[1120:1124], "little")
    # 0x40 extents, 0x80 64bit, 0x200 flex_bg; 0x4 has_journal.
    if incompatible & 0x2C0:
        return "ext4"
    return "ext3" if compatible & 0x4 else "ext2"


def _uuid(data: bytes) -> str:
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace").replace("\n", " ")
