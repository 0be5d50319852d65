"""Each planted fault, alone: found by the named check and only by it, planned, put right, and clean again."""

import pytest

pytestmark = pytest.mark.lab

FAULTS = {
    "nic-firmware": ("storage2", "nic.fw.running"),
    "pfc-off": ("storage3", "qos.pfc.host"),
    "trust-pcp": ("gpu1", "qos.trust"),
    "lba-512": ("storage1", "nvme.lba"),
    "mtu": ("storage1", "net.mtu"),
}


def test_a_provisioned_lab_is_clean(lab):
    report = lab.json("check", ok=(0,))
    assert report["unreachable"] == []
    assert {f["node"] for f in report["findings"]} - {""} == {"gpu1", "storage1", "storage2", "storage3"}
    assert report["summary"]["pass"] > 100
    assert not [f for f in report["findings"] if f["bad"]]


def test_what_is_simulated_says_so(lab):
    findings = lab.json("check", ok=(0,))["findings"]
    evidence = {(f["check"], f["evidence"]) for f in findings if f["verdict"] == "pass"}
    assert ("nic.fw.running", "simulated") in evidence
    assert ("net.mtu", "read-back") in evidence


def test_a_second_converge_changes_nothing(lab):
    view = lab.json("provision", "--converge", "--yes", ok=(0,))
    assert view["changed"] == 0
    assert view["state"] == "finished"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_alone_and_fixed(lab, fault):
    node, check = FAULTS[fault]
    lab.kvctl("lab", "break", node, fault)
    assert lab.bad() == [(check, node)]
    assert lab.kvctl("check", ok=(3,)).returncode == 3
    plan = lab.json("plan", ok=(0,))["plan"]
    assert {s["node"] for s in plan["steps"]} == {node}
    # a firmware step is followed by the class, which the NIC's reset takes away
    assert {c["name"] for s in plan["steps"] for c in s["changes"]} - {"qos.class"} == {check}
    done = lab.json("provision", "--plan", plan["id"], "--yes", ok=(0,))
    assert done["state"] == "finished"
    assert done["changed"] >= 1
    assert lab.bad() == []


def test_dry_run_changes_nothing(lab):
    lab.kvctl("lab", "break", "storage3", "pfc-off")
    first = lab.kvctl("provision", "--dry-run", "--diff", "--detailed-exitcode", ok=(6,))
    assert "qos.pfc.host" in first.stdout
    assert lab.bad() == [("qos.pfc.host", "storage3")]
    lab.kvctl("provision", "--yes")
    assert lab.kvctl("provision", "--dry-run", "--detailed-exitcode", ok=(0,)).stdout.startswith("no changes")


def test_a_dead_node_does_not_hold_the_others_up(lab):
    lab.kvctl("lab", "break", "storage2", "pfc-off")
    lab.kvctl("lab", "break", "storage3", "off")
    try:
        report = lab.json("check", ok=(3,))
        assert [(u["node"], u["code"]) for u in report["unreachable"]] == [("storage3", "KV-SSH-001")]
        view = lab.json("provision", "--yes", ok=(5,))
        assert [s["state"] for s in view["steps_view"]] == ["done"]
        status = {n["node"]: n for n in lab.json("status", ok=(0,))["nodes"]}
        assert status["storage3"]["error"] == "KV-SSH-001"
        assert status["storage2"]["faults"] == 0
    finally:
        lab.kvctl("lab", "start", "storage3")
    lab.await_clean()  # kvnoded puts the class back after a boot


def test_a_stale_plan_is_refused(lab):
    lab.kvctl("lab", "break", "storage2", "pfc-off")
    plan = lab.json("plan")["plan"]["id"]
    lab.kvctl("lab", "break", "storage3", "mtu")
    refused = lab.kvctl("provision", "--plan", plan, "--yes", ok=(7,))
    assert "KV-PLAN-011" in refused.stderr
    assert lab.bad() == [("net.mtu", "storage3"), ("qos.pfc.host", "storage2")]
    lab.kvctl("provision", "--yes")


def test_a_drive_with_data_is_left_alone_until_it_is_named(lab):
    """A file system on a 512-byte drive: refused, and done only for the serial that was named."""
    lab.kvctl("lab", "break", "storage1", "lba-512")
    (found,) = [f for f in lab.json("check")["findings"] if f["check"] == "nvme.lba" and f["verdict"] == "fail"]
    serial = found["subject"]
    device = lab.on("storage1", f"realpath /dev/disk/by-id/nvme-*_{serial} | head -n 1").strip()
    lab.on("storage1", f"mkfs.ext4 -q -F {device}")
    plan = lab.json("plan")["plan"]
    assert [(r["code"], r["subject"]) for r in plan["refusals"]] == [("KV-PLAN-006", serial)]
    assert plan["steps"] == []
    plan = lab.json("plan", "--destroy", serial)["plan"]
    assert plan["steps"][0]["destroys_data"] == [serial]
    refused = lab.kvctl("provision", "--destroy", serial, ok=(2,))
    assert "KV-CLI-004" in refused.stderr
    lab.kvctl("provision", "--destroy", serial, "--yes")
    assert lab.bad() == []
