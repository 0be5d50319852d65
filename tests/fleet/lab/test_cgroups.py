from pathlib import Path

import pytest

from kvctl.fleet.lab import cgroups
from kvctl.types.errors import KvctlError

HYBRID = """\
27 24 0:23 / /sys/fs/cgroup rw,relatime shared:5 - tmpfs tmpfs rw,mode=755
28 27 0:24 / /sys/fs/cgroup/devices rw,relatime shared:6 - cgroup cgroup rw,devices
29 27 0:25 / /sys/fs/cgroup/systemd rw,relatime shared:7 - cgroup cgroup rw,name=systemd
30 27 0:26 / /sys/fs/cgroup/unified rw,relatime shared:8 - cgroup2 cgroup2 rw
"""
PURE = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
OLD = "\n".join(HYBRID.splitlines()[:3])


def test_hybrid_machines_have_two_hierarchies():
    found = cgroups.hierarchies(HYBRID)
    assert (found.unified, found.named) == (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/systemd"))


def test_pure_machines_have_one():
    found = cgroups.hierarchies(PURE)
    assert (found.unified, found.named) == (Path("/sys/fs/cgroup"), None)


def test_without_cgroup2_there_is_no_lab():
    with pytest.raises(KvctlError) as caught:
        cgroups.hierarchies(OLD)
    assert caught.value.code == "KV-LAB-006"
