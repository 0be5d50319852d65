"""The root file system that every lab host shares read-only: Debian, made once and cached by its recipe."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from kvctl.fleet.lab import processes
from kvctl.fleet.lab.standins import REAL_TOOLS

SUITE = "trixie"
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "udev", "openssh-server", "python3", "python3-apt", "python3-pyroute2",
    "python3-pyudev", "iproute2", "ethtool", "nvme-cli", "mdadm", "xfsprogs", "e2fsprogs", "sudo", "procps",
    "iputils-ping", "nftables", "kmod", "pciutils", "rdma-core", "ca-certificates", "less", "libnuma1",
)  # fmt: skip
# Units that cannot work without the hardware or the network of a real host; a failed unit reads "degraded".
MASKED = (
    "nvmf-autoconnect.service", "nvmefc-boot-connections.service", "apt-daily.timer", "apt-daily-upgrade.timer",
    "e2scrub_all.timer", "e2scrub_reap.service", "ldconfig.service", "systemd-journal-catalog-update.service",
    "mdmonitor.service", "mdcheck_start.timer", "mdcheck_continue.timer", "mdmonitor-oneshot.timer",
    "systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service",
    "systemd-udev-load-credentials.service", "systemd-networkd.service", "systemd-firstboot.service", "getty.target",
    "console-getty.service",
)  # fmt: skip
DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)
FILES = {
    "etc/ssh/sshd_config.d/lab.conf": "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n"
    "SetEnv SYSTEMD_DEVICE_VERIFY_SYSFS=0\n",
    # The hosts' /sys is an overlay; libudev takes only a sysfs for one unless told otherwise.
    "etc/systemd/system.conf.d/lab.conf": "[Manager]\nDefaultEnvironment=SYSTEMD_DEVICE_VERIFY_SYSFS=0\n",
    # fstrim runs on loop drives as on real ones, but its units refuse containers.
    "etc/systemd/system/fstrim.timer.d/lab.conf": "[Unit]\nConditionVirtualization=\n",
    "etc/systemd/system/fstrim.service.d/lab.conf": "[Unit]\nConditionVirtualization=\n",
    "etc/resolv.conf": "",
    "etc/machine-id": "",
}
REAL = "usr/lib/kvctl-lab/real"  # where tools are kept that a stand-in takes the place of
RECIPE_VERSION = 5


def recipe_key() -> str:
    """Changes whenever the rootfs would."""
    recipe = [RECIPE_VERSION, SUITE, PACKAGES, MASKED, DPKG_OPTIONS, FILES, REAL, REAL_TOOLS]
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def ensure(cache: Path, say: Callable[[str], None]) -> Path:
    """The cached rootfs, made first when there is none; KV-LAB-005 when mmdebstrap fails."""
    finished = cache / f"rootfs-{SUITE}-{recipe_key()}"
    if finished.is_dir():
        return finished
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second `lab up` waits here and then finds the first one's work
        if not finished.is_dir():
            say(f"making the root file system of lab hosts (Debian {SUITE}, once, about half a minute)")
            build(cache, finished)
    return finished


def build(cache: Path, finished: Path) -> None:
    """Build beside the final name, then rename, so that an interrupted build is never taken for a whole one."""
    for leftover in cache.glob(".build-*"):
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=".build-", dir=cache))
    root = work / "root"
    try:
        processes.run(mmdebstrap_argv(root), what="make the root file system of lab hosts")
        finish(root)
        root.rename(finished)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def mmdebstrap_argv(root: Path) -> list[str]:
    argv = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}"]
    argv += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"']
    return [*argv, *(f"--dpkgopt={option}" for option in DPKG_OPTIONS), SUITE, str(root)]


def finish(root: Path) -> None:
    """What packages cannot say: masked units, no identity, real tools aside for their stand-ins."""
    for unit in MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/hostname").unlink(missing_ok=True)
    (root / REAL).mkdir(parents=True)
    for name in REAL_TOOLS:
        os.link(root / "usr/sbin" / name, root / REAL / name)
