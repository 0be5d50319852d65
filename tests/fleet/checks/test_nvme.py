"""Cache drives: which they are, what they are, how they are formatted, how they are."""

from dataclasses import replace

import pytest

from kvctl.fleet.inventory.model import DrivePolicy
from kvctl.types.facts import LbaFormat, Smart, known, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

CHECKS = ("nvme.model", "nvme.lba", "nvme.ns", "nvme.wear", "nvme.link", "nvme.id", "nvme.queue", "nvme.state")


def changed(path, value, node="storage2"):
    return f.with_fact(f.clean(), node, path, value)


def policy(**fields):
    return f.role(f.inventory(), "storage", drives=DrivePolicy(**fields))


def with_drives(*drives, node="storage2"):
    return {**f.clean(), node: replace(f.clean()[node], drives=drives)}


@pytest.mark.parametrize("check", ["nvme.count", *CHECKS])
def test_a_role_without_drives_is_not_judged(check):
    assert f.verdict(f.run(), check, "gpu1") is Verdict.NOT_APPLICABLE


def test_a_network_namespace_is_not_a_local_drive():
    remote = replace(f.drive(3, 7), transport=known("tcp", "sysfs"), state=known("dead", "sysfs"))
    assert f.bad(f.run(facts=with_drives(*f.clean()["storage2"].drives, remote))) == set()


def test_an_excluded_drive_is_not_judged():
    boot = replace(f.drive(3, 9), model=known("boot", "sysfs"), state=known("dead", "sysfs"))
    inv = policy(model="KV9 3.84TB", count=2, exclude_serials=("KV3D9",))
    assert f.bad(f.run(inv, with_drives(*f.clean()["storage2"].drives, boot))) == set()


def test_listed_serials_of_a_role_may_be_on_any_of_its_nodes():
    serials = tuple(f"KV{n}D{d}" for n in (2, 3, 4) for d in (0, 1))
    assert f.bad(f.run(policy(serials=serials))) == set()
    findings = f.run(policy(serials=serials), with_drives(f.drive(3, 0)))
    assert {f.verdict(findings, "nvme.count", n) for n in ("storage1", "storage2")} == {Verdict.UNKNOWN}
    assert "KV3D1" in f.of(findings, "nvme.count").why
    assert f.bad(f.run(policy(serials=serials, count=2), with_drives(f.drive(3, 0)))) == {("nvme.count", "storage2")}


def test_a_serial_that_a_single_node_must_have():
    inv = policy(serials=("KV3D0", "KV3D5"))
    inv = inv.model_copy(update={"nodes": tuple(n for n in inv.nodes if n.name in ("gpu1", "storage2"))})
    finding = f.of(f.run(inv), "nvme.count")
    assert (finding.verdict, finding.expected) == (Verdict.FAIL, "also KV3D5")


def test_without_count_and_serials_the_drives_are_named():
    finding = f.of(f.run(policy()), "nvme.count")
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "2: KV3D0, KV3D1" in finding.why
    assert f.verdict(f.run(policy(), with_drives()), "nvme.count") is Verdict.UNKNOWN


@pytest.mark.parametrize("path", ["drive.serial", "drive.transport"])
def test_a_drive_without_identity_cannot_be_counted(path):
    assert f.verdict(f.run(facts=changed(path, unknown("EIO"))), "nvme.count") is Verdict.UNKNOWN


def test_any_model_is_allowed_without_one():
    assert f.verdict(f.run(policy(count=2)), "nvme.model") is Verdict.NOT_APPLICABLE


def test_firmware_without_a_pin_is_compared_inside_the_model():
    finding = f.of(f.run(policy(count=2), changed("drive.firmware", "0.9.1")), "nvme.firmware")
    assert (finding.verdict, finding.expected) == (Verdict.FAIL, "1.0.4")
    facts = f.with_fact(changed("drive.firmware", "0.9.1"), "storage2", "drive.model", "another model")
    assert f.verdict(f.run(policy(count=2), facts), "nvme.firmware") is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("wanted", "lba", "metadata", "verdict"),
    [(4096, 4096, 0, "pass"), (4096, 512, 0, "fail"), (512, 512, 0, "pass"), (512, 4096, 0, "fail"),
     (4096, 4096, 8, "fail"), (4096, 4096, unknown("no tool"), "unknown"), (4096, 512, unknown("no tool"), "fail")],
)  # fmt: skip
def test_lba(wanted, lba, metadata, verdict):
    facts = f.with_fact(changed("ns.lba", lba), "storage2", "ns.metadata", metadata)
    assert f.verdict(f.run(policy(count=2, lba=wanted), facts), "nvme.lba") is Verdict(verdict)


def test_a_format_destroys_data_and_is_done_by_the_role():
    remedy = f.of(f.run(facts=changed("ns.lba", 512)), "nvme.lba").remedy
    assert (remedy.role, remedy.destroys_data) == ("nvme", True)
    assert "KV3D0" in remedy.text


def test_a_drive_that_cannot_be_formatted_is_for_hands():
    facts = f.with_fact(changed("ns.lba", 512), "storage2", "drive.format_supported", False)
    remedy = f.of(f.run(facts=facts), "nvme.lba").remedy
    assert (remedy.role, remedy.destroys_data) == ("", False)


def test_a_drive_without_the_format_is_for_hands():
    only_512 = (LbaFormat(0, 512, 0, "Best", True), LbaFormat(1, 4096, 8, "Good", False))
    facts = f.with_fact(changed("ns.lba", 512), "storage2", "ns.formats", only_512)
    remedy = f.of(f.run(facts=facts), "nvme.lba").remedy
    assert remedy.role == ""
    assert "no format of 4096 + 0" in remedy.text


def test_over_provisioning_is_fine_when_all_have_it():
    facts = f.clean()
    for node in ("storage1", "storage2", "storage3"):
        drives = tuple(
            replace(d, namespaces=(replace(d.namespaces[0], size=known(3000000000000, "sysfs")),))
            for d in facts[node].drives
        )
        facts = {**facts, node: replace(facts[node], drives=drives)}
    assert f.bad(f.run(facts=facts)) == set()


def test_a_lone_drive_has_nothing_to_compare_its_size_with():
    inv = policy(count=1)
    inv = inv.model_copy(update={"nodes": tuple(n for n in inv.nodes if n.name == "storage2")})
    finding = f.of(f.run(inv, with_drives(f.drive(3, 0))), "nvme.ns")
    assert finding.verdict is Verdict.PASS
    assert "no other drive" in finding.why


@pytest.mark.parametrize(
    ("smart", "verdict", "severity"),
    [
        (Smart(0, 79, 100, 10, 0, 40), "pass", "warning"),
        (Smart(0, 80, 100, 10, 0, 40), "fail", "warning"),
        (Smart(0, 255, 90, 10, 0, 40), "fail", "warning"),
        (Smart(0b00100, 104, 100, 10, 0, 40), "fail", "warning"),
        (Smart(0b00100, 3, 100, 10, 0, 40), "fail", "critical"),
        (Smart(0b00100, 104, 100, 10, 7, 40), "fail", "critical"),
        (Smart(0b00001, 3, 100, 10, 0, 40), "fail", "critical"),
        (Smart(0b00010, 3, 100, 10, 0, 90), "fail", "warning"),
        (Smart(0b01000, 3, 100, 10, 0, 40), "fail", "critical"),
        (Smart(0b10000, 3, 100, 10, 0, 40), "fail", "critical"),
        (Smart(0, 3, 10, 10, 0, 40), "fail", "critical"),
        (Smart(0, 3, 100, 10, 1, 40), "fail", "warning"),
        (unknown("nvme is not installed"), "unknown", "warning"),
    ],
)
def test_wear(smart, verdict, severity):
    finding = f.of(f.run(facts=changed("drive.smart", smart)), "nvme.wear")
    assert (finding.verdict, finding.severity) == (Verdict(verdict), Severity(severity))


@pytest.mark.parametrize(
    "wwid",
    ["eui.0000000000000000", "uuid.00000000-0000-0000-0000-000000000000", "", f.drive(4, 1).namespaces[0].wwid.value],
)
def test_a_zero_or_shared_identifier_fails(wwid):
    assert f.verdict(f.run(facts=changed("ns.wwid", wwid)), "nvme.id") is Verdict.FAIL


def test_a_shared_serial_is_reported_on_both_nodes():
    findings = f.run(facts=changed("drive.serial", "KV2D0"))
    assert {n for c, n in f.bad(findings) if c == "nvme.id"} == {"storage1", "storage2"}


@pytest.mark.parametrize(("path", "value"), [("ns.scheduler", "bfq"), ("ns.rotational", True)])
def test_queue(path, value):
    finding = f.of(f.run(facts=changed(path, value)), "nvme.queue")
    assert (finding.verdict, finding.severity, finding.remedy.role) == (Verdict.FAIL, Severity.WARNING, "nvme")


@pytest.mark.parametrize("state", ["dead", "resetting", "connecting"])
def test_state(state):
    findings = f.run(facts=changed("drive.state", state))
    assert f.bad(findings) == {("nvme.state", "storage2")}
