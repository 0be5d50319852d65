"""The overlay mounts of lab hosts' root file systems."""

import re
from pathlib import Path

from kvctl.fleet.lab import processes


def overlay(lower: Path, upper: Path, work: Path, target: Path) -> None:
    """Mount `upper` over the read-only `lower` at `target`. Safe to repeat."""
    for directory in (upper, work, target):
        directory.mkdir(parents=True, exist_ok=True)
    if target in below(target):
        return
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    processes.run(["mount", "-t", "overlay", "overlay", "-o", options, str(target)], what="mount a host's root")


def below(directory: Path) -> list[Path]:
    """Mount points at or under `directory`, deepest first, from /proc/self/mountinfo (proc(5))."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]))
        if point.is_relative_to(directory):
            points.append(point)
    return sorted(points, key=lambda p: len(p.parts), reverse=True)


def unmount_all(directory: Path) -> None:
    for point in below(directory):
        processes.run(["umount", "--lazy", str(point)], what="unmount a host's root")
