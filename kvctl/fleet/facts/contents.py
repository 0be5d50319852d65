"""What a block device carries. Every source adds; it is empty only when one that looks at the blocks found nothing."""

from typing import Any

from kvctl.fleet.facts.raw import Raw
from kvctl.types.facts import Contents, Fact, unknown

_SIGNATURE_TYPES = ("linux_raid_member", "LVM2_member", "ceph_bluestore", "crypto_LUKS", "unrecognised")


class _Found:
    """The union of what the sources say, and which of them looked at the blocks."""

    def __init__(self) -> None:
        self.fstype = self.uuid = self.label = ""
        self.signatures: set[str] = set()
        self.looked: list[str] = []
        self.not_looked: list[str] = []

    def add(self, values: dict[str, str]) -> None:
        kind = values.get("fstype", "")
        if kind in _SIGNATURE_TYPES:
            self.signatures.add(kind)
        elif kind:
            self.fstype = self.fstype or kind
        self.uuid = self.uuid or values.get("uuid", "")
        self.label = self.label or values.get("label", "")
        if values.get("pttype"):
            self.signatures.add(values["pttype"])


def contents(raw: Raw, name: str) -> Fact[Contents]:
    where = ("block", name)
    holders, mounts = _names(raw.at(*where, "holders", "v")), _names(raw.at(*where, "mounts"))
    partitions = raw.table(*where, "partitions")
    if holders is None or mounts is None:
        failed = raw.leaf(*where, "holders") if holders is None else raw.leaf(*where, "mounts")
        return unknown(failed.unknown or "the document does not hold its holders and mounts", failed.source)
    found = _Found()
    _from_udev(raw, name, found)
    _from_lsblk(raw, name, found)
    _from_blocks(raw, name, found)
    for part in sorted(partitions):
        holders += _names(raw.at(*where, "partitions", part, "holders", "v")) or []
        mounts += _names(raw.at(*where, "partitions", part, "mounts")) or []
    occupied = bool(partitions or holders or mounts or found.fstype or found.signatures)
    if not found.looked and not occupied:
        return unknown("nothing has looked at its blocks: " + "; ".join(found.not_looked), f"/dev/{name}")
    return raw.fact(
        Contents(
            fstype=found.fstype,
            uuid=found.uuid,
            label=found.label,
            partitions=tuple(sorted(partitions)),
            holders=tuple(dict.fromkeys(holders)),
            mounts=tuple(dict.fromkeys(mounts)),
            signatures=tuple(sorted(found.signatures)),
        ),
        found.looked[0] if found.looked else f"/sys/block/{name}",
    )


def _names(value: Any) -> list[str] | None:
    return list(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _from_udev(raw: Raw, name: str, found: _Found) -> None:
    leaf = raw.leaf("block", name, "udev")
    if not leaf.known or not isinstance(leaf.value, dict):
        found.not_looked.append("udev database: " + (leaf.unknown or "not a table"))
        return
    properties = {str(key): value for key, value in leaf.value.items() if isinstance(value, str)}
    found.add(
        {
            "fstype": properties.get("ID_FS_TYPE", ""),
            "uuid": properties.get("ID_FS_UUID", ""),
            "label": properties.get("ID_FS_LABEL", ""),
            "pttype": properties.get("ID_PART_TABLE_TYPE", ""),
        }
    )
    # An entry without any ID_ key was written before blkid ran, or by rules that skip it.
    if properties:
        found.looked.append(leaf.source)


def _from_lsblk(raw: Raw, name: str, found: _Found) -> None:
    answer = raw.answer("lsblk", "lsblk", "parse", "lsblk")
    if not answer.known or answer.value is None:
        found.not_looked.append(answer.unknown)
        return
    row = next((row for row in answer.value.walk() if name in (row.kname, row.name)), None)
    if row is None:
        found.not_looked.append(f"lsblk does not list {name}")
        return
    values = {"fstype": row.fstype or "", "uuid": row.uuid or "", "label": row.label or ""}
    values["pttype"] = getattr(row, "pttype", None) or ""
    found.add(values)
    # Without udev, lsblk reads the blocks itself, which only root may.
    if row.fstype or raw.at("host", "euid") == 0:
        found.looked.append(answer.source)
    else:
        found.not_looked.append("lsblk was not run as root")


def _from_blocks(raw: Raw, name: str, found: _Found) -> None:
    output = raw.output("signature:" + name, "signature")
    if not output.known:
        found.not_looked.append(output.unknown)
        return
    for line in (output.value or "").splitlines():
        key, mark, value = line.partition("=")
        if mark and key in ("fstype", "uuid", "label", "pttype"):
            found.add({key: value})
    found.looked.append(output.source)
