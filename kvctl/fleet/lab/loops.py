"""Loop devices over sparse files in the lab directory: the data of the simulated NVMe namespaces."""

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from kvctl.fleet.lab import processes
from kvctl.types.errors import KvctlError

BLKDISCARD, BLKGETSIZE64 = 0x1277, 0x80081272  # include/uapi/linux/fs.h
LOOP_SET_BLOCK_SIZE = 0x4C09  # include/uapi/linux/loop.h
SYS_BLOCK = Path("/sys/block")


@dataclass(frozen=True, slots=True)
class Loop:
    device: str  # /dev/loop3
    minor: int
    file: Path


def attached(directory: Path) -> list[Loop]:
    """Loop devices whose backing file is inside `directory`, also one that was deleted meanwhile."""
    found = []
    for entry in SYS_BLOCK.glob("loop*/loop/backing_file"):
        try:
            text = entry.read_text().strip().removesuffix(" (deleted)")
        except OSError:  # detached while we looked
            continue
        name = entry.parents[1].name
        if Path(text).is_relative_to(directory):
            minor = int((entry.parents[1] / "dev").read_text().partition(":")[2])
            found.append(Loop(f"/dev/{name}", minor, Path(text)))
    return found


def attach(file: Path, size: int, sector_size: int) -> Loop:
    """The loop device over `file`, which is made sparse with `size` bytes when it is not there. Safe to repeat."""
    for loop in attached(file.parent):
        if loop.file == file:
            return loop
    if not file.exists():
        with open(file, "wb") as handle:
            handle.truncate(size)
    argv = ["losetup", "--find", "--show", "--sector-size", str(sector_size), str(file)]
    device = processes.run(argv, what="attach a loop device").strip()
    return Loop(device, int((SYS_BLOCK / Path(device).name / "dev").read_text().partition(":")[2]), file)


def detach_all(directory: Path) -> None:
    for loop in attached(directory):
        processes.run(["losetup", "--detach", loop.device], what="detach a loop device")


def reformat(device: str, block_size: int) -> None:
    """Discard a loop's data and change its block size in bytes; KV-LAB-015 while it is mounted or held."""
    try:
        descriptor = os.open(device, os.O_RDWR | os.O_EXCL)
        try:
            size = struct.unpack("<Q", fcntl.ioctl(descriptor, BLKGETSIZE64, bytes(8)))[0]
            fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("<QQ", 0, size))
            fcntl.ioctl(descriptor, LOOP_SET_BLOCK_SIZE, block_size)
        finally:
            os.close(descriptor)
    except OSError as error:
        what, fix = "the drive cannot be reformatted", "unmount it on the node first"
        raise KvctlError("KV-LAB-015", what, where=device, why=str(error), fix=fix) from error
