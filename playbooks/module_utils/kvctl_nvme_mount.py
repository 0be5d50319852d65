"""What a prepared drive needs on the node besides its file system: fstab by UUID, the mount, the queue's rule."""

from __future__ import annotations

import os
from typing import Any, Dict

from . import kvctl_nvme, kvctl_nvme_state
from .kvctl_command import Command, argv, execute, write
from .kvctl_files import locked, read_text, write_atomic
from .kvctl_refused import Refused
from .kvctl_systemd import has_udev, systemctl

FSTAB_LOCK = "/run/kvctl/fstab.lock"


def settle(wanted: Dict[str, Any]) -> None:
    """Write the files and mount; what is right already is left alone."""
    serial = wanted["serial"]
    drive = kvctl_nvme_state.read(serial)
    rule = kvctl_nvme.udev_rule(serial)
    if drive.udev != rule:
        write_atomic(kvctl_nvme_state.udev_path(serial), rule.encode())
        if has_udev():
            execute([argv("udevadm", "control", "--reload")], "KV-NVME-025")
    if drive.scheduler not in (None, "none"):
        execute([write("/sys/block/%s/queue/scheduler" % drive.namespace, "none")], "KV-NVME-025")
    set_fstab(serial, kvctl_nvme.fstab_line(wanted))
    if wanted["layout"] != "raw" and wanted.get("mount"):
        mount(wanted, drive)


def set_fstab(serial: str, line: str) -> bool:
    """Put the line into fstab under a lock; True when the file changed."""
    with locked(FSTAB_LOCK, wait=30):
        old = read_text(kvctl_nvme_state.FSTAB) or ""
        new = kvctl_nvme.fstab_with(old, serial, line)
        if new.strip() == old.strip():
            return False
        write_atomic(kvctl_nvme_state.FSTAB, new.encode())
    systemctl("daemon-reload")
    return True


def mount(wanted: Dict[str, Any], drive: kvctl_nvme.Drive) -> None:
    have, want = kvctl_nvme.mount_state(wanted, drive)
    if have == want:
        return
    elsewhere = [point for point in drive.content.mounts if point != wanted["mount"]]
    if elsewhere:
        raise Refused("KV-NVME-014", "drive %s is mounted at %s" % (wanted["serial"], elsewhere[0]), "unmount it there")
    os.makedirs(wanted["mount"], exist_ok=True)
    execute([mount_command(wanted, drive)], "KV-NVME-026")


def mount_command(wanted: Dict[str, Any], drive: kvctl_nvme.Drive) -> Command:
    options = [
        option for option in kvctl_nvme.mount_options(wanted) if not option.startswith("X-") and option != "nofail"
    ]
    if drive.content.mounts:
        options = ["remount"] + options + ([] if wanted["discard"] == "online" else ["nodiscard"])
    return argv("mount", "-t", wanted["layout"], "-o", ",".join(options), drive.device, wanted["mount"])


def take_away(wanted: Dict[str, Any], dry: bool) -> bool:
    """Unmount and remove the drive's files; the data stays. True when there was something to take away."""
    serial = wanted["serial"]
    drive = kvctl_nvme_state.read(serial)
    mine = [point for point in drive.content.mounts if point == wanted.get("mount")]
    present = bool(mine or drive.fstab or drive.udev)
    if present and not dry:
        execute([argv("umount", point) for point in mine], "KV-NVME-027")
        set_fstab(serial, "")
        if drive.udev:
            os.unlink(kvctl_nvme_state.udev_path(serial))
    return present
