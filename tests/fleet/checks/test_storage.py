"""md arrays, discard, and what lies on the drives."""

import pytest

from kvctl.fleet.inventory.model import DriveLayout, DrivePolicy
from kvctl.types.facts import Contents, Service, unknown
from kvctl.types.findings import Verdict

from . import faults
from . import fleet as f

MOUNT = "/srv/kvctl/KV3D0"


@pytest.mark.parametrize(
    ("arrays", "verdict"),
    [
        ({"md0": "idle"}, Verdict.PASS),
        ({"md0": "idle", "md1": "check"}, Verdict.FAIL),
        ({"md0": "recover"}, Verdict.FAIL),
        ({}, Verdict.NOT_APPLICABLE),
        ({"md0": ""}, Verdict.UNKNOWN),
        (unknown("/sys/block is not readable"), Verdict.UNKNOWN),
    ],
)
def test_sync(arrays, verdict):
    assert f.verdict(f.run(facts=f.with_fact(f.clean(), "storage2", "host.md_arrays", arrays)), "md.sync") is verdict


@pytest.mark.parametrize(
    ("discard", "services", "verdict"),
    [
        ("fstrim", {"fstrim.timer": Service("active", "waiting", "enabled")}, Verdict.PASS),
        ("fstrim", {"fstrim.timer": Service("active", "waiting", "disabled")}, Verdict.FAIL),
        ("fstrim", {"fstrim.timer": Service("inactive", "dead", "enabled")}, Verdict.FAIL),
        ("online", {"fstrim.timer": Service("active", "waiting", "enabled")}, Verdict.FAIL),
        ("none", {"fstrim.timer": Service("inactive", "dead", "disabled")}, Verdict.PASS),
        ("fstrim", {}, Verdict.FAIL),
        ("online", {}, Verdict.PASS),
        ("fstrim", unknown("systemctl timed out"), Verdict.UNKNOWN),
    ],
)
def test_exactly_one_way_to_discard(discard, services, verdict):
    inv = f.role(f.inventory(), "storage", drives=DrivePolicy(layout=DriveLayout.XFS, discard=discard))
    facts = f.with_fact(faults.xfs_facts(), "storage2", "host.services", services)
    assert f.verdict(f.run(inv, facts), "fs.discard") is verdict


def test_raw_drives_are_not_trimmed_by_the_timer():
    assert f.verdict(f.run(), "fs.discard") is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("layout", "contents", "verdict", "role"),
    [
        ("raw", Contents(), Verdict.PASS, ""),
        ("raw", Contents(fstype="xfs"), Verdict.FAIL, ""),
        ("raw", Contents(partitions=("nvme0n1p1",)), Verdict.FAIL, ""),
        ("xfs", Contents(fstype="xfs", mounts=(MOUNT,)), Verdict.PASS, ""),
        ("xfs", Contents(), Verdict.FAIL, "nvme"),
        ("xfs", Contents(fstype="xfs"), Verdict.FAIL, "nvme"),
        ("xfs", Contents(fstype="xfs", mounts=("/home",)), Verdict.FAIL, ""),
        ("xfs", Contents(fstype="ext4", mounts=(MOUNT,)), Verdict.FAIL, ""),
        ("xfs", Contents(signatures=("LVM2_member",)), Verdict.FAIL, ""),
        ("xfs", unknown("lsblk failed"), Verdict.UNKNOWN, ""),
    ],
)
def test_layout_never_sends_a_role_over_somebodys_data(layout, contents, verdict, role):
    inv = f.role(f.inventory(), "storage", drives=DrivePolicy(layout=DriveLayout(layout)))
    finding = f.of(f.run(inv, f.with_fact(f.clean(), "storage2", "ns.contents", contents)), "fs.layout")
    assert (finding.verdict, finding.remedy.role, finding.remedy.destroys_data) == (verdict, role, False)
