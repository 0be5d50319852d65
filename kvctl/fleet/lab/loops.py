"""Loop devices over sparse files in the lab directory: the data of the simulated NVMe namespaces."""

from dataclasses import dataclass
from pathlib import Path

from kvctl.fleet.lab import processes

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
