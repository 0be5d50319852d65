from pathlib import Path
from typing import Any

from kvctl.fleet.facts.build import node_facts
from kvctl.types.facts import Contents, Fact
from tests.fleet.facts.hardware import document, put, storage_node, tool

NAME = "nvme1n1"


def contents(raw: Any) -> Fact[Contents]:
    return node_facts("n", raw).drives[0].namespaces[0].contents


def signature(root: Path, text: str) -> None:
    tool(root, f"signature:{NAME}", text)


def test_a_device_nobody_looked_at_is_unknown_never_empty(tmp_path: Path) -> None:
    found = contents(document(storage_node(tmp_path)))
    assert found.value is None
    assert found.unknown.startswith("nothing has looked at its blocks")


def test_blocks_without_a_signature_are_empty(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    signature(root, "")
    assert contents(document(root)).value == Contents()


def test_a_file_system_is_named(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    signature(root, "fstype=xfs\nuuid=0b3f\nlabel=data\n")
    assert contents(document(root)).value == Contents(fstype="xfs", uuid="0b3f", label="data")


def test_every_source_adds_and_none_takes_away(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    signature(root, "")
    put(root, "/run/udev/data/b259:1", "E:ID_FS_TYPE=linux_raid_member\nE:ID_PART_TABLE_TYPE=gpt\n")
    value = contents(document(root)).value
    assert value is not None
    assert value.signatures == ("gpt", "linux_raid_member")
    assert not value.empty


def test_data_that_no_rule_knows_is_not_emptiness(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    signature(root, "fstype=unrecognised\n")
    value = contents(document(root)).value
    assert value is not None
    assert not value.empty


def test_holders_partitions_and_mounts_count_without_any_signature(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, f"/sys/block/{NAME}/{NAME}p1/partition", "1\n")
    put(root, f"/sys/block/{NAME}/{NAME}p1/dev", "259:11\n")
    put(root, f"/sys/block/{NAME}/{NAME}p1/holders/md0", "")
    put(root, "/proc/self/mountinfo", f"30 1 259:11 / /srv\\040x rw - xfs /dev/{NAME}p1 rw\n")
    value = contents(document(root)).value
    assert value is not None
    assert value.partitions == (f"{NAME}p1",)
    assert value.holders == ("md0",)
    assert value.mounts == ("/srv x",)


def test_lsblk_counts_as_a_look_only_when_root_ran_it(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, "lsblk", '{"blockdevices": [{"name": "nvme1n1", "kname": "nvme1n1", "fstype": null}]}')
    raw = document(root)
    raw["host"]["euid"] = 1000
    assert contents(raw).value is None
    raw["host"]["euid"] = 0
    assert contents(raw).value == Contents()


def test_without_the_mount_table_nothing_is_called_empty(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    signature(root, "")
    (root / "proc/self/mountinfo").unlink()
    found = contents(document(root))
    assert found.value is None
    assert "no such file" in found.unknown


def test_a_hung_read_is_unknown(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["tools"][f"signature:{NAME}"] = {"argv": ["read", f"/dev/{NAME}"], "unknown": "timed out after 5 s", "out": ""}
    assert "timed out after 5 s" in contents(raw).unknown
