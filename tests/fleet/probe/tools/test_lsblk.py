from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, lsblk

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "lsblk"


def sample(name: str) -> lsblk.Lsblk:
    return lsblk.parse((SAMPLES / name).read_text())


def test_bytes_output_has_exact_sizes_and_no_filesystems() -> None:
    found = sample("gpud_1.json")
    assert len(found.devices) == 14
    assert all(device.size_exact and isinstance(device.size, int) for device in found.devices)
    drives = [device for device in found.devices if device.name and "nvme" in device.name]
    assert drives
    assert all(device.fstype is None and device.mountpoints == () for device in drives)
    assert found.devices[0].rotational is False


def test_human_sizes_are_read_in_binary_units_and_marked_as_rounded() -> None:
    found = sample("gpud_3.json")
    assert len(found.devices) == 16
    first = found.devices[0]
    assert first.size == round(63.9 * 1024**2)
    assert first.size_exact is False
    assert first.mountpoints == ()
    assert found.devices[1].mountpoints == ("/snap/lxd/28373",)


def test_nested_devices() -> None:
    assert len(sample("gpud_4.json").devices) == 26
    assert any(device.children for device in sample("gpud_4.json").devices)


def test_volumes_two_levels_below_the_disks() -> None:
    found = sample("gpud_withlv_censored.json")
    disks = [device for device in found.devices if device.type == "disk"]
    assert len(disks) == 7
    members = [device for device in found.walk() if device.fstype == "LVM2_member"]
    assert members
    assert all(child.type == "lvm" for member in members for child in member.children)


def test_xfs_is_found_below_the_top_level() -> None:
    found = sample("gpud_xfs_vfat.json")
    assert len(found.devices) == 6
    assert all(device.fstype != "xfs" for device in found.devices)
    assert {device.fstype for device in found.walk()} >= {"xfs", "vfat"}


def test_json_of_ironic_with_a_size_in_quotes() -> None:
    found = sample("pairs_bia_ironic.txt")
    by_name = {device.name: device for device in found.devices}
    assert by_name["sda"].model == "TinyUSB Drive"
    assert by_name["sda"].logical_sector == 512
    assert by_name["dm-0"].size == 1765517033472
    assert by_name["dm-0"].size_exact is True


def test_pairs_with_words_blanks_and_escapes() -> None:
    found = lsblk.parse(
        'KNAME="nvme0n1" MODEL="SAMSUNG MZQL2 15T" SIZE="15362991415296" ROTA="0" TYPE="disk" MAJ:MIN="259:0" UUID=""\n'
        'KNAME="sda1" MODEL="" SIZE="3.5T" ROTA="1" TYPE="part" MOUNTPOINT="/srv/a\\x20b" LOG-SEC="4096" UUID="x"\n'
    )
    drive, part = found.devices
    assert (drive.name, drive.model, drive.size, drive.rotational) == (
        "nvme0n1",
        "SAMSUNG MZQL2 15T",
        15362991415296,
        False,
    )
    assert drive.numbers == "259:0"
    assert drive.uuid is None
    assert (part.model, part.size_exact, part.logical_sector) == (None, False, 4096)
    assert part.mountpoints == ("/srv/a b",)


@pytest.mark.parametrize(
    ("value", "size", "exact"),
    [
        ("512B", 512, True),
        ("894,3G", round(894.3 * 1024**3), False),
        ("7T", 7 * 1024**4, False),
        (None, None, None),
        ("x", None, None),
        (-1, None, None),
        (True, None, None),
    ],
)
def test_sizes(value: object, size: int | None, exact: bool | None) -> None:
    import json

    device = lsblk.parse(json.dumps({"blockdevices": [{"name": "a", "size": value}]})).devices[0]
    assert (device.size, device.size_exact) == (size, exact)


@pytest.mark.parametrize(("value", "expected"), [("1", True), (1, True), (True, True), ("0", False), (None, None)])
def test_flags_of_every_vintage(value: object, expected: bool | None) -> None:
    import json

    assert lsblk.parse(json.dumps({"blockdevices": [{"name": "a", "rota": value}]})).devices[0].rotational is expected


def test_mountpoints_unknown_when_the_column_is_missing() -> None:
    assert lsblk.parse('{"blockdevices": [{"name": "a"}]}').devices[0].mountpoints is None
    assert lsblk.parse('{"blockdevices": [{"name": "a", "mountpoints": ["/x", "[SWAP]", null]}]}').devices[
        0
    ].mountpoints == ("/x", "[SWAP]")


@pytest.mark.parametrize(
    "text", ["", "lsblk: nvme9n1: not a block device", '{"a": 1}', '{"blockdevices": [3]}', 'NAME="sda" SIZE="', "[]"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        lsblk.parse(text)


def test_messages_between_the_pairs() -> None:
    text = 'lsblk: dm-3: failed to get device path\nNAME="sdq" TYPE="disk" SIZE="512"\nnode01:~ # \n'
    assert [device.name for device in lsblk.parse(text).devices] == ["sdq"]
