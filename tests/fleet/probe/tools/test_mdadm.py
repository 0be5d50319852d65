from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, mdadm

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "mdadm"


def sample(name: str) -> mdadm.MdArray:
    return mdadm.parse_detail((SAMPLES / (name + ".txt")).read_text())


def test_poisoned_holder() -> None:
    found = sample("detail_poisoned")
    assert [member.device for member in found.members] == ["/dev/vda1", "/dev/vdb1"]
    assert found.events is None


def test_clean_mirror() -> None:
    found = sample("detail_raid1_clean")
    assert (found.level, found.states, found.condition) == ("raid1", ("clean",), "clean")
    assert (found.active_devices, found.failed_devices) == (2, 0)
    assert found.size == 1048512 * 1024
    assert found.degraded is False


def test_degraded_with_a_removed_row() -> None:
    found = sample("detail_raid1_degraded_removed")
    assert (found.condition, found.degraded) == ("degraded", True)
    (removed,) = [member for member in found.members if "removed" in member.states]
    assert (removed.number, removed.raid_device, removed.device) == (None, 1, None)


def test_failed_member() -> None:
    found = sample("detail_raid1_failed")
    assert (found.condition, found.failed_devices) == ("failed", 1)
    assert [member.device for member in found.members if "faulty" in member.states] == ["/dev/vda4"]
    assert found.members[1].states == ("active", "sync", "writemostly", "failfast")


def test_nvme_members() -> None:
    assert [member.device for member in sample("detail_raid1_nvme").members] == ["/dev/nvme0n1p1", "/dev/nvme1n1p1"]


def test_rebuild_progress() -> None:
    found = sample("detail_raid1_rebuild_failfast")
    assert (found.condition, found.action, found.percent) == ("recovering", "rebuild", 20)
    assert found.members[1].states == ("failfast", "spare", "rebuilding")


def test_recovering_beside_a_faulty_member() -> None:
    found = sample("detail_raid1_recovering")
    assert (found.condition, found.percent, found.failed_devices) == ("recovering", 24, 1)


def test_resync_progress() -> None:
    found = sample("detail_raid1_resyncing")
    assert (found.condition, found.action, found.percent, found.degraded) == ("resyncing", "resync", 4, False)


def test_raid5() -> None:
    found = sample("detail_raid5_clean")
    assert (found.level, found.condition, found.layout, found.chunk_size) == (
        "raid5",
        "clean",
        "left-symmetric",
        512 * 1024,
    )


def test_name_and_host() -> None:
    found = sample("detail_volume_name")
    assert (found.name, found.homehost) == ("this_name", "abc.xyz.com")


def test_array_that_failed_as_a_whole() -> None:
    text = (SAMPLES / "detail_raid1_clean.txt").read_text().replace("State : clean", "State : clean, FAILED ")
    assert mdadm.parse_detail(text).condition == "failed"


def test_degraded_with_a_faulty_member_is_degraded() -> None:
    text = (SAMPLES / "detail_raid1_failed.txt").read_text().replace("State : clean ", "State : clean, degraded ")
    assert mdadm.parse_detail(text).condition == "degraded"


def test_resync_that_waits_has_no_percentage() -> None:
    text = (SAMPLES / "detail_raid1_clean.txt").read_text()
    found = mdadm.parse_detail(text.replace("State : clean", "State : clean, resyncing (PENDING) "))
    assert (found.condition, found.percent) == ("resyncing", None)


def test_several_arrays() -> None:
    text = (SAMPLES / "detail_raid1_clean.txt").read_text() + (SAMPLES / "detail_raid5_clean.txt").read_text()
    assert [array.level for array in mdadm.parse_details(text)] == ["raid1", "raid5"]
    with pytest.raises(ToolOutputError):
        mdadm.parse_detail(text)


def test_carriage_returns_of_a_terminal() -> None:
    text = (SAMPLES / "detail_raid5_clean.txt").read_text().replace("\n", "\r\n")
    assert mdadm.parse_detail(text) == sample("detail_raid5_clean")


@pytest.mark.parametrize("text", ["", "mdadm: cannot open /dev/md9: No such file or directory", "/dev/md0:\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        mdadm.parse_detail(text)


TWO_DEVICES = """/dev/md5:
           Version : 1.2
        Raid Level : raid1
             State : {state}

    Number   Major   Minor   RaidDevice State
       0     259        1        0      active sync   /dev/nvme2n1
       1     259        3        1      active sync   /dev/nvme3n1
"""


def test_messages_may_follow_the_table() -> None:
    text = TWO_DEVICES.format(state="clean") + "mdadm: cannot open /dev/md7: No such file or directory\n"
    found = mdadm.parse_detail(text)
    assert [member.device for member in found.members] == ["/dev/nvme2n1", "/dev/nvme3n1"]
    (first, second) = mdadm.parse_details(text + TWO_DEVICES.replace("md5", "md6").format(state="active"))
    assert (first, second.device) == (found, "/dev/md6")


def test_of_an_array_that_is_not_started_nothing_is_said_about_its_members() -> None:
    found = mdadm.parse_detail(TWO_DEVICES.format(state="inactive"))
    assert (found.condition, found.degraded) == ("inactive", None)


def test_the_superblock_of_a_member_is_not_an_array() -> None:
    text = """/dev/nvme2n1:
          Magic : a92b4efc
        Version : 1.2
     Raid Level : raid1
          State : clean
"""
    with pytest.raises(ToolOutputError, match="--examine"):
        mdadm.parse_detail(text)


def test_an_unknown_layout() -> None:
    text = TWO_DEVICES.format(state="clean").replace("Raid Level : raid1", "Raid Level : raid0\n  Layout : -unknown-")
    assert mdadm.parse_detail(text).layout is None
