"""One cache drive: what must be done to it, and what is refused. Pure; a drive is known by its serial alone."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .kvctl_command import Command, argv
from .kvctl_refused import Refused

UUID_SPACE = uuid.UUID("6f2b1f56-8f0e-5f0a-9a53-6b7663746c00")  # kvctl's own, so that a serial has one UUID for ever


class Content(NamedTuple):
    """What is on a namespace; anything here is somebody's data."""

    signatures: Tuple[str, ...] = ()  # wipefs types: xfs, ext4, gpt, linux_raid_member, LVM2_member ...
    partitions: Tuple[str, ...] = ()
    holders: Tuple[str, ...] = ()
    mounts: Tuple[str, ...] = ()
    uuid: str = ""
    blank: bool = True  # the sampled bytes are all zero


class Drive(NamedTuple):
    """A drive as it is now; `lba` and `metadata` in bytes, formats as (index, lba, metadata, relative performance)."""

    controller: str
    namespace: str
    lba: int
    metadata: Optional[int] = None
    formats: Tuple[Tuple[int, int, int, int], ...] = ()
    format_supported: Optional[bool] = None
    content: Content = Content()
    scheduler: Optional[str] = None
    mount_options: Tuple[str, ...] = ()
    fstab: str = ""
    udev: str = ""

    @property
    def device(self) -> str:
        return "/dev/" + self.namespace


class Plan(NamedTuple):
    lbaf: Optional[int]  # index of the LBA format to format to; None: no format
    mkfs: bool
    before: Dict[str, Any]
    after: Dict[str, Any]

    @property
    def destroys(self) -> bool:
        return self.lbaf is not None or self.mkfs


def fs_uuid(serial: str) -> str:
    return str(uuid.uuid5(UUID_SPACE, serial))


def mount_options(wanted: Dict[str, Any]) -> List[str]:
    """Exactly one way to discard: online, or the timer; a file system that is not for the timer says so."""
    discard = {"online": ["discard", "X-fstrim.notrim"], "fstrim": [], "none": ["X-fstrim.notrim"]}
    return ["noatime"] + discard[wanted["discard"]] + ["nofail"]


def fstab_line(wanted: Dict[str, Any]) -> str:
    """The fstab line, by UUID; empty when nothing is to be mounted."""
    if wanted["layout"] == "raw" or not wanted.get("mount"):
        return ""
    options = ",".join(mount_options(wanted) + ["x-systemd.device-timeout=30s", mark(wanted["serial"])])
    return "UUID=%s %s %s %s 0 0" % (fs_uuid(wanted["serial"]), wanted["mount"], wanted["layout"], options)


def mark(serial: str) -> str:
    """The mount option by which kvctl knows its own fstab line; mount ignores x- options."""
    return "x-kvctl.serial=" + serial


def udev_rule(serial: str) -> str:
    """No I/O scheduler for the drive with this serial, whatever its name after the next boot."""
    return (
        'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="nvme*n*", '
        'ATTRS{serial}=="%s*", ATTR{queue/scheduler}="none"\n' % serial
    )


def lba_format(serial: str, lba: int, drive: Drive) -> int:
    """Index of the drive's best LBA format with `lba` bytes and no metadata."""
    fitting = [
        (performance, index) for index, size, metadata, performance in drive.formats if (size, metadata) == (lba, 0)
    ]
    if not fitting:
        raise Refused("KV-NVME-015", "drive %s has no LBA format of %d bytes without metadata" % (serial, lba),
                      "exclude the drive, or set drives.lba to what it has")  # fmt: skip
    if drive.format_supported is not True:
        raise Refused("KV-NVME-016", "drive %s does not say that it supports Format NVM" % serial, "exclude the drive")
    return min(fitting)[1]


def plan(wanted: Dict[str, Any], drive: Drive) -> Plan:
    """What differs and what must be done; raises Refused rather than destroy what was not named."""
    serial, layout, content = wanted["serial"], wanted["layout"], drive.content
    misformatted = drive.lba != wanted["lba"] or drive.metadata not in (0, None)
    foreign = bool(content.signatures or content.partitions) and not is_ours(wanted, content)
    must_format = misformatted or (foreign and layout == "raw")
    must_mkfs = layout != "raw" and (must_format or foreign or not is_ours(wanted, content))
    if must_format or must_mkfs:
        refuse(wanted, content, must_mkfs)
    lbaf = lba_format(serial, wanted["lba"], drive) if must_format else None
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    for name, have, want in (
        ("lba", drive.lba, wanted["lba"]),
        ("metadata", drive.metadata, 0),
        ("layout", content.signatures or "raw", layout),
        ("scheduler", drive.scheduler, "none"),
        ("udev", drive.udev, udev_rule(serial)),
        ("fstab", drive.fstab, fstab_line(wanted)),
        ("mount", *mount_state(wanted, drive)),
    ):
        unknown = have is None
        right = not (must_format or must_mkfs) if name == "layout" else have == want
        if not right and not unknown:
            before[name], after[name] = have, want
    return Plan(lbaf, must_mkfs, before, after)


def mount_state(wanted: Dict[str, Any], drive: Drive) -> Tuple[str, str]:
    """Where the drive is mounted and must be, with the options that matter."""
    options = sorted({"noatime", "discard"} & set(drive.mount_options))
    have = " ".join(drive.content.mounts + tuple(options))
    if wanted["layout"] == "raw" or not wanted.get("mount"):
        return have, have
    return have, " ".join([wanted["mount"]] + sorted({"noatime", "discard"} & set(mount_options(wanted))))


def is_ours(wanted: Dict[str, Any], content: Content) -> bool:
    """Whether the namespace holds the file system that kvctl makes for this serial, and nothing else."""
    return (
        content.signatures == (wanted["layout"],)
        and content.uuid == fs_uuid(wanted["serial"])
        and not content.partitions
    )


def refuse(wanted: Dict[str, Any], content: Content, must_mkfs: bool) -> None:
    """KV-NVME-010 to 013. A mount or a holder is never overruled; a signature only by naming the serial."""
    serial = wanted["serial"]
    if content.mounts or content.holders:
        where = ", ".join(content.mounts + content.holders)
        raise Refused(
            "KV-NVME-011", "drive %s is in use by %s" % (serial, where), "unmount it or stop its holder first"
        )
    if wanted.get("may_format"):
        return
    found = ", ".join(content.signatures + content.partitions)
    if found:
        raise Refused("KV-NVME-010", "drive %s carries %s" % (serial, found), "name the serial to destroy its data")
    if not content.blank:
        raise Refused(
            "KV-NVME-013", "drive %s holds data without a signature" % serial, "name the serial to destroy it"
        )
    if must_mkfs and not wanted.get("may_mkfs"):
        raise Refused(
            "KV-NVME-012", "drive %s has no file system and may_mkfs is false" % serial, "allow it in the plan"
        )


def format_command(drive: Drive, lbaf: int) -> Command:
    return argv("nvme", "format", drive.device, "--lbaf=%d" % lbaf, "--ses=0", "--force")


def mkfs_commands(wanted: Dict[str, Any], drive: Drive) -> List[Command]:
    """Make the file system, wiping first what `plan` allowed to destroy: mkfs leaves a backup GPT or a RAID mark."""
    wipe = [argv("wipefs", "--all", "--quiet", drive.device)] if drive.content.signatures else []
    identity, force = fs_uuid(wanted["serial"]), wanted.get("may_format")
    if wanted["layout"] == "xfs":
        return wipe + [argv("mkfs.xfs", "-q", "-m", "uuid=" + identity, *(["-f"] if force else []), drive.device)]
    return wipe + [argv("mkfs.ext4", "-q", "-U", identity, *(["-F"] if force else []), drive.device)]


def fstab_with(text: str, serial: str, line: str) -> str:
    """The fstab with exactly `line` for this serial, in the place of the old one."""
    kept = [old for old in text.splitlines() if not owns(old, serial)]
    return "\n".join(kept + ([line] if line else [])) + "\n"


def owns(line: str, serial: str) -> bool:
    fields = line.split()
    return len(fields) > 3 and not line.startswith("#") and mark(serial) in fields[3].split(",")
