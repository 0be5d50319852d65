from pathlib import Path

from kvctl.bench.store.conditions import direct_works, mount_of, opening_speed

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:20 / /proc rw - proc proc rw
30 22 0:26 / /tmp rw - tmpfs tmpfs rw
31 22 259:0 / /var/tmp/bench rw shared:7 - xfs /dev/nvme0n1 rw
32 22 0:27 / /mnt rw - ext4 /dev/vdb rw
33 32 0:28 / /mnt rw - xfs /dev/vdc rw
"""


def test_the_file_system_is_the_nearest_above() -> None:
    assert mount_of("/var/tmp/bench/run", MOUNTS) == ("xfs", "/dev/nvme0n1")
    assert mount_of("/var/tmp/benchmark", MOUNTS) == ("ext4", "/dev/vda")
    assert mount_of("/tmp", MOUNTS) == ("tmpfs", "tmpfs")
    assert mount_of("/mnt/x", MOUNTS) == ("xfs", "/dev/vdc")  # mounted over the other


def test_the_probe_of_o_direct_leaves_nothing(tmp_path: Path) -> None:
    assert isinstance(direct_works(tmp_path), bool)
    assert list(tmp_path.iterdir()) == []


def test_opening_is_measured() -> None:
    assert opening_speed(64 << 10) > 1e6
