import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvctl.fleet.probe.signature import describe, recognise

SIZE = 400 << 20
MAKERS = {
    "xfs": ["mkfs.xfs", "-q", "-L", "data"],
    "ext4": ["mkfs.ext4", "-q", "-L", "data"],
    "swap": ["mkswap", "-L", "data"],
    "btrfs": ["mkfs.btrfs", "-q", "-L", "data"],
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "drive"
    path.touch()
    os.truncate(path, SIZE)
    return path


def rows(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in describe(str(path)).splitlines())


@pytest.mark.parametrize("kind", MAKERS)
def test_file_systems_are_named_as_blkid_names_them(image: Path, kind: str) -> None:
    argv = MAKERS[kind]
    if shutil.which(argv[0]) is None or shutil.which("blkid") is None:
        pytest.skip(f"needs {argv[0]} and blkid: install the file system's tools")
    subprocess.run([*argv, str(image)], check=True, capture_output=True)
    told = subprocess.run(
        ["blkid", "-p", "-o", "export", str(image)], check=True, capture_output=True, text=True
    ).stdout
    blkid = dict(line.split("=", 1) for line in told.splitlines())
    found = rows(image)
    assert found["fstype"] == blkid["TYPE"] == kind
    if kind in ("xfs", "ext4"):
        assert (found["uuid"], found["label"]) == (blkid["UUID"], "data")


def test_a_blank_device_has_no_signature(image: Path) -> None:
    assert describe(str(image)) == ""


@pytest.mark.parametrize("offset", [0, 777_777, SIZE - 70_000])
def test_data_that_no_rule_knows_is_not_emptiness(image: Path, offset: int) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x01")
    assert rows(image) == {"fstype": "unrecognised"}


@pytest.mark.parametrize(
    ("offset", "magic", "expected"),
    [
        (4096, b"\xfc\x4e\x2b\xa9", ("fstype", "linux_raid_member")),
        (SIZE - 8192, b"\xfc\x4e\x2b\xa9", ("fstype", "linux_raid_member")),
        (SIZE - 65536, b"\xfc\x4e\x2b\xa9", ("fstype", "linux_raid_member")),
        (512, b"LABELONE" + bytes(16) + b"LVM2 001", ("fstype", "LVM2_member")),
        (0, b"LUKS\xba\xbe\x00\x02", ("fstype", "crypto_LUKS")),
        (512, b"EFI PART", ("pttype", "gpt")),
        (4096, b"EFI PART", ("pttype", "gpt")),
        (510, b"\x55\xaa", ("pttype", "dos")),
        (0, b"bluestore block device\n", ("fstype", "ceph_bluestore")),
    ],
)
def test_members_and_tables_are_named(image: Path, offset: int, magic: bytes, expected: tuple[str, str]) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(magic)
    assert expected in rows(image).items()


def test_a_small_device_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(bytes(4096))
    assert describe(str(path)) == ""


def test_a_device_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        describe(str(tmp_path / "gone"))


def test_ext3_and_ext2_are_told_apart() -> None:
    head = bytearray(1 << 16)
    head[1080:1082] = b"\x53\xef"
    assert ("fstype", "ext2") in recognise(bytes(head), b"")
    head[1116] = 0x4
    assert ("fstype", "ext3") in recognise(bytes(head), b"")
