"""Findings to steps: what is planned, what is refused, and that the hash says the same thing twice."""

from dataclasses import replace

import pytest

from kvctl.fleet.inventory.model import (
    DriveLayout,
    DrivePolicy,
    Fabric,
    Firmware,
    Inventory,
    NicPolicy,
    Node,
    Rail,
    Role,
    Site,
)
from kvctl.fleet.plan.build import build
from kvctl.fleet.plan.intent import intent
from kvctl.fleet.plan.preconditions import read
from kvctl.types.facts import Contents, Drive, HostFacts, Namespace, Nic, NodeFacts, RdmaPort, known, unknown
from kvctl.types.findings import Finding, Remedy, Severity, Verdict
from kvctl.types.plans import Uncut

PSID = "MT_0000000359"
CREATED = "2026-03-01T12:00:00Z"


def inventory(**role: object) -> Inventory:
    pin = Firmware(version="22.43.1014", image="/images/fw.bin", sha256="0" * 64)
    storage = Role(
        kind="storage",
        nic=NicPolicy(firmware={PSID: pin}),
        drives=DrivePolicy(layout=DriveLayout.XFS),
        rails=(Rail(interface="rail0"),),
    ).model_copy(update=role)
    return Inventory(
        site=Site(name="t"), roles={"store": storage}, nodes=(Node(name="a", address="192.0.2.1", role="store"),)
    )


def facts(contents: Contents | None = Contents(), **nic: object) -> NodeFacts:
    namespace = Namespace(
        "nvme0n1", contents=unknown("lsblk timed out") if contents is None else known(contents, "lsblk")
    )
    return NodeFacts(
        node="a",
        at=CREATED,
        lab=False,
        host=HostFacts(machine_id=known("f" * 32, "/etc/machine-id")),
        nics=(
            replace(
                Nic("rail0", pci=known("0000:41:00.0", "s"), psid=known(PSID, "s"), carries_ssh=known(False, "s")),
                **nic,  # type: ignore[arg-type]
            ),
        ),
        drives=(Drive("nvme0", serial=known("S1", "s"), pci=known("0000:81:00.0", "s"), namespaces=(namespace,)),),
    )


def finding(check: str, subject: str, role: str, **change: object) -> Finding:
    made = Finding(check, "a", subject, Verdict.FAIL, Severity.CRITICAL, "old", "new", remedy=Remedy(role, "do it"))
    return replace(made, **change)  # type: ignore[arg-type]


def test_each_role_gets_one_step_in_the_order_that_is_safe():
    plan = build(
        inventory(),
        {"a": facts()},
        [
            finding("nvme.lba", "S1", "nvme", remedy=Remedy("nvme", "format", destroys_data=True)),
            finding("qos.pfc.host", "rail0", "roce"),
            finding("net.mtu", "rail0", "roce"),
            finding("nic.fw.running", "rail0", "nic_firmware", remedy=Remedy("nic_firmware", "burn", reboot=True)),
        ],
        created=CREATED,
    )
    assert [(s.id, s.role) for s in plan.steps] == [("s01", "nic_firmware"), ("s02", "roce"), ("s03", "nvme")]
    roce = plan.steps[1]
    assert roce.because == ("net.mtu", "qos.pfc.host")
    assert [(c.name, c.before, c.after) for c in roce.changes] == [
        ("qos.pfc.host", "old", "new"),
        ("net.mtu", "old", "new"),
    ]
    assert roce.uncut is Uncut.NETWORK
    assert not roce.cuts_ssh
    assert plan.steps[0].reboot
    assert plan.steps[0].args["reboot"] is True, "the role may reboot only what the plan says is rebooted"
    assert "reboot" not in roce.args
    assert roce.preconditions == {
        "host.machine_id": "f" * 32,
        "nic.pci:rail0": "0000:41:00.0",
        "nic.psid:rail0": PSID,
    }


def test_the_class_is_set_again_behind_a_firmware_step():
    plan = build(inventory(), {"a": facts()}, [finding("nic.fw.pending", "rail0", "nic_firmware")], created=CREATED)
    assert plan.steps[1].because == ("nic.fw.pending",)
    assert [s.role for s in plan.steps] == ["nic_firmware", "roce"]
    assert [(c.name, c.after) for c in plan.steps[1].changes] == [("qos.class", "set again")]
    assert [i["netdev"] for i in plan.steps[1].args["interfaces"]] == ["rail0"]


def test_a_passing_unknown_or_following_finding_plans_nothing():
    verdicts = [v for v in Verdict if v is not Verdict.FAIL]
    found = [finding("qos.pfc.host", "rail0", "roce", verdict=v) for v in verdicts]
    plan = build(inventory(), {"a": facts()}, found, created=CREATED)
    assert plan.steps == ()
    assert plan.refusals == ()


def test_the_hash_ignores_when_it_was_planned_and_follows_what_is_done():
    found = [finding("net.mtu", "rail0", "roce")]
    one = build(inventory(), {"a": facts()}, found, created=CREATED)
    two = build(inventory(), {"a": facts()}, found, created="2027-01-01T00:00:00Z")
    other = build(inventory(), {"a": facts(psid=known("MT_X", "s"))}, found, created=CREATED)
    assert one.id == two.id
    assert one.hash != other.hash


@pytest.mark.parametrize(
    ("contents", "destroy", "refused"),
    [
        (Contents(), frozenset(), False),
        (Contents(fstype="xfs", mounts=("/data",)), frozenset(), True),
        (Contents(signatures=("LVM2_member",)), frozenset(), True),
        (None, frozenset(), True),  # what is on it is unknown
        (Contents(fstype="xfs"), frozenset({"S1"}), False),
    ],
)
def test_a_drive_with_data_is_refused_unless_named(contents, destroy, refused):
    found = [finding("nvme.lba", "S1", "nvme", remedy=Remedy("nvme", "format", destroys_data=True))]
    plan = build(inventory(), {"a": facts(contents)}, found, created=CREATED, may_destroy=destroy)
    assert [r.code for r in plan.refusals] == (["KV-PLAN-006"] if refused else [])
    assert bool(plan.steps) is not refused
    if not refused:
        assert plan.steps[0].destroys_data == (("S1",) if destroy else ())


def test_what_no_role_can_change_is_said_with_its_remedy():
    plan = build(inventory(), {"a": facts()}, [finding("link.state", "rail0", "")], created=CREATED)
    assert plan.steps == ()
    assert [(r.code, r.fix) for r in plan.refusals] == [("KV-PLAN-001", "do it")]


def test_firmware_is_never_planned_across_psids():
    plan = build(
        inventory(),
        {"a": facts(psid=known("LNV0000000025", "s"))},
        [finding("nic.fw.running", "rail0", "nic_firmware")],
        created=CREATED,
    )
    assert plan.steps == ()
    assert [r.code for r in plan.refusals] == ["KV-PLAN-002"]


def test_a_nic_that_may_carry_ssh_is_said_to():
    found = [finding("net.mtu", "rail0", "roce")]
    for value, expected in ((known(True, "s"), True), (unknown("no SSH_CONNECTION"), True), (known(False, "s"), False)):
        plan = build(inventory(), {"a": facts(carries_ssh=value)}, found, created=CREATED)
        assert plan.steps[0].cuts_ssh is expected


def test_a_node_that_was_not_read_is_named_and_left_alone():
    plan = build(inventory(), {}, [finding("net.mtu", "rail0", "roce")], created=CREATED)
    assert plan.unreachable == ("a",)
    assert plan.steps == ()


def test_the_class_comes_from_the_inventory_alone():
    site = inventory().model_copy(update={"fabric": Fabric(lossless_priority=5, dscp=59, cnp_priority=7, mtu=4200)})
    seen = facts(rdma=RdmaPort(device=known("mlx5_0", "s")))
    (rail,) = intent(site, site.nodes[0], seen)["roce"]["interfaces"]
    assert (rail["pfc"], rail["dscp_prio"], rail["cm_tos"], rail["mtu"]) == ([5], {"59": 5, "48": 7}, 59 * 4 + 2, 4200)
    assert rail["prio_buffer"]["5"] == 1
    assert sum(rail["ets"]["bw"].values()) == 100


def test_preconditions_are_read_again_from_todays_facts():
    plan = build(inventory(), {"a": facts()}, [finding("net.mtu", "rail0", "roce")], created=CREATED)
    planned = plan.steps[0].preconditions
    assert read(facts(), planned) == planned
    assert read(facts(psid=known("MT_X", "s")), planned) != planned
    assert read(facts(psid=unknown("mstflint timed out")), planned)["nic.psid:rail0"] == ""
