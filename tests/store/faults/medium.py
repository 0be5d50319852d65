"""Filesystems that can be filled and broken: ext4 images in a mount namespace of the daemon's own.

The namespace and everything mounted in it ends with the daemon; the machine's own mounts never see any of it.
"""

import fcntl
import os
import shlex
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.store.faults.rig import Kvstored

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, linux/ext4.h
NO_LOG_FLUSH = 2

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None,
    reason="mounts images of its own: needs root, loop devices and mkfs.ext4; run as root: pytest tests/store/faults",
)


@dataclass(frozen=True, slots=True)
class Image:
    """An ext4 image for one mount."""

    path: Path
    size: int

    def make(self) -> None:
        with self.path.open("wb") as file:
            file.truncate(self.size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m0", "-b4096", str(self.path)], check=True)

    def command(self, mount: Path) -> str:
        """What mounts it, within the namespace."""
        return f"mount -o loop,discard {shlex.quote(str(self.path))} {shlex.quote(str(mount))}"


class OnImages(Kvstored):
    """kvstored whose mounts are images. Paths below `inside` are what the daemon sees."""

    def mount(self, *images: Image) -> None:
        lines = [image.command(path) for image, path in zip(images, self.mounts, strict=True)]
        script = " && ".join([*lines, 'exec "$@"'])
        self.prefix = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")

    def inside(self, path: Path) -> Path:
        return Path(f"/proc/{self.pid}/root{path}")

    def enter(self, *command: str) -> None:
        """Run a command in the daemon's namespace."""
        subprocess.run(["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", *command], check=True, capture_output=True)

    def break_down(self, mount: Path) -> None:
        """From now on, everything that is asked of this mount ends with EIO."""
        fd = os.open(self.inside(mount), os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)


def fill(path: Path, leave: int) -> None:
    """Take a filesystem's space with another file, but for `leave` bytes."""
    found = os.statvfs(path.parent)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_frsize - leave))


def nothing_left(folder: Path) -> bool:
    """Whether neither a loop device nor a mount of this machine refers to `folder`."""
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    backing = []
    for loop in loops:
        try:
            backing.append(loop.read_text())
        except FileNotFoundError:
            continue  # it went meanwhile, which is what is wanted
    return not any(str(folder) in text for text in [*backing, Path("/proc/self/mounts").read_text()])
