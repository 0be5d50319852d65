"""What a machine needs before it can hold a lab."""

import os
import shutil
import sys
from pathlib import Path

from kvctl.types.errors import UsageError

# tool -> Debian package that brings it
TOOLS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "losetup": "mount",
    "mount": "mount",
    "nsenter": "util-linux",
    "ip": "iproute2",
}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def require_root() -> None:
    """KV-LAB-001 unless this process may make namespaces and mounts on Linux."""
    if sys.platform != "linux":
        raise UsageError(
            "KV-LAB-001",
            "a lab needs Linux",
            why=f"it boots systemd hosts in namespaces, and this is {sys.platform}",
            fix="run it in a Linux virtual machine",
        )
    if os.geteuid() != 0:
        raise UsageError(
            "KV-LAB-001",
            "a lab needs root",
            why="it makes network namespaces, mounts, cgroups and loop devices",
            fix="run the same command as root, for example with sudo",
        )


def require_tools() -> None:
    """KV-LAB-002 with the one command that installs what is missing."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), SBIN))
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None}
    if not Path(KEYRING).exists():
        missing.add("debian-archive-keyring")
    if missing:
        packages = " ".join(sorted(missing))
        raise UsageError(
            "KV-LAB-002",
            f"packages are missing: {packages}",
            fix=f"apt-get install -y --no-install-recommends {packages}",
        )
