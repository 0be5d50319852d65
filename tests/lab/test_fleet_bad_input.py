"""What goes wrong on nodes and on the controller, each with its code and remedy, and nothing half-written."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

from kvctl.fleet.lab import host, layout

pytestmark = pytest.mark.lab

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@contextlib.contextmanager
def edited(lab, change):
    """A copy of the lab's inventory with an edit."""
    source = Path(lab.env["KVCTL_LAB_DIR"]) / "inventory.yaml"
    copy = source.with_name("edited.yaml")
    copy.write_text(change(source.read_text()))
    try:
        yield str(copy)
    finally:
        copy.unlink()


def inside(lab, node, script):
    """Run a script on a node past its sshd."""
    where = layout.from_environment(lab.env)
    host.run_inside(where, node, ["sh", "-ec", script])


def test_a_changed_host_key_is_refused_with_both_fingerprints(lab):
    inside(lab, "storage1", "mkdir /root/k; cp -p /etc/ssh/ssh_host_* /root/k; rm /etc/ssh/ssh_host_*; ssh-keygen -A")
    try:
        inside(lab, "storage1", "systemctl restart ssh")
        report = lab.json("check", "--limit", "storage1", ok=(4,))
        (dead,) = report["unreachable"]
        assert dead["code"] == "KV-SSH-003"
        assert dead["why"].count("SHA256:") == 2
    finally:
        inside(lab, "storage1", "cp -p /root/k/* /etc/ssh/; rm -r /root/k; systemctl restart ssh")
    assert lab.kvctl("check", "--limit", "storage1", ok=(0,)).returncode == 0


def test_an_unknown_host_key_names_the_verb_that_enrols_it(lab, tmp_path):
    known = Path(lab.env["KVCTL_LAB_DIR"]) / "known_hosts"
    with edited(lab, lambda text: text.replace(str(known), str(tmp_path / "none"))) as inventory:
        report = lab.json("check", "-i", inventory, "--limit", "storage1", ok=(4,))
        (dead,) = report["unreachable"]
        assert dead["code"] == "KV-SSH-002"
        assert "kvctl node trust storage1" in dead["fix"]
        shown = lab.kvctl("node", "trust", "storage1", "-i", inventory, "--yes")
        assert "SHA256:" in shown.stdout
        assert lab.kvctl("check", "-i", inventory, "--limit", "storage1", ok=(0,))


def test_a_user_without_sudo_is_said_so(lab):
    lab.on("storage2", "useradd -m plain && cp -r /root/.ssh /home/plain/ && chown -R plain: /home/plain/.ssh")
    try:
        with edited(lab, lambda text: text.replace("name: storage2", "name: storage2\n  user: plain")) as inventory:
            report = lab.json("check", "-i", inventory, "--limit", "storage2", ok=(4,))
            assert [u["code"] for u in report["unreachable"]] == ["KV-SSH-005"]
    finally:
        lab.on("storage2", "userdel -r plain", ok=False)


def test_a_full_disk_on_a_node_fails_the_step_and_leaves_nothing_half_written(lab):
    lab.kvctl("lab", "break", "storage2", "pfc-off")
    before = lab.on("storage2", "cat /etc/kvctl/class.json")
    lab.on(
        "storage2",
        "mount -t tmpfs -o size=4k full /var/lib/kvctl && head -c 4096 /dev/zero > /var/lib/kvctl/x",
        ok=False,
    )
    try:
        view = lab.json("provision", "--yes", ok=(1, 5))
        (step,) = view["steps_view"]
        assert step["state"] == "failed"
        assert "space" in step["why"].lower()
    finally:
        lab.on("storage2", "umount /var/lib/kvctl")
    assert lab.on("storage2", "cat /etc/kvctl/class.json") == before
    status = {n["node"]: n for n in lab.json("status")["nodes"]}
    assert status["storage2"]["state"] == "drained"
    lab.kvctl("provision", "--yes")
    assert lab.bad() == []
    assert {n["state"] for n in lab.json("status")["nodes"]} == {"in-service"}


def test_a_read_only_state_directory_is_refused_before_anything_is_done(lab, tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(tmp_path)], check=True)
    try:
        lab.env["KVCTL_STATE_DIR"], kept = str(tmp_path), lab.env["KVCTL_STATE_DIR"]
        done = lab.kvctl("provision", "--yes", ok=(1,))
        assert "KV-STATE-001" in done.stderr
    finally:
        lab.env["KVCTL_STATE_DIR"] = kept
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda t: t.replace("fabric:", "fabrik:"), "KV-INV-006"),
        (lambda t: t.replace("mtu: 9000", "mtu: many"), "KV-INV-007"),
        (lambda t: t.replace("name: storage2", "name: storage1"), "KV-INV-008"),
        (lambda t: BOMB + t, "KV-INV-004"),
    ],
    ids=["unknown key", "wrong type", "duplicate node", "YAML bomb"],
)  # fmt: skip
def test_a_bad_inventory_is_named_by_line(lab, edit, code):
    with edited(lab, edit) as inventory:
        done = lab.kvctl("check", "-i", inventory, ok=(2,))
        assert code in done.stderr
        assert "edited.yaml:" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_non_lab_site_refuses_lab_nodes(lab):
    with edited(lab, lambda text: text.replace("lab: true", "lab: false")) as inventory:
        report = lab.json("check", "-i", inventory, "--limit", "storage1", ok=(3,))
        assert ("host.lab", "storage1") in {(f["check"], f["node"]) for f in report["findings"] if f["bad"]}


def test_a_change_that_cuts_ssh_reverts_by_itself(lab):
    lab.kvctl("lab", "break", "storage3", "mtu")
    lab.kvctl("lab", "break", "storage3", "cut")
    try:
        view = lab.json(
            "provision",
            "--yes",
            ok=(1, 5),
        )
        (step,) = view["steps_view"]
        assert step["state"] == "failed"
        assert "KV-NET-020" in step["why"]
        status = {n["node"]: n for n in lab.json("status")["nodes"]}
        assert status["storage3"]["state"] == "drained"
        assert ("net.mtu", "storage3") in lab.bad()  # reachable again, with its old MTU
    finally:
        lab.kvctl("lab", "mend", "storage3")
    # what was put back is owned no longer, so that neither a boot nor kvnoded cuts the path again
    lab.kvctl("provision", "--converge", "--yes")
    assert lab.bad() == []


def test_lab_down_leaves_nothing(lab_base):
    """Its own small lab: up, down, and no process, mount, namespace, cgroup or loop device is left."""
    from tests.lab.conftest import Lab, environment

    made = Lab(environment(lab_base, "kvdown"), lab_base / "kvdown-state")
    made.kvctl("lab", "up", "--nodes", "storage=1", timeout=600)
    made.kvctl("lab", "down")
    assert "kvdown" not in Path("/proc/mounts").read_text()
    assert list(Path("/run/netns").glob("kvdown*")) == []
    assert list(Path("/sys/fs/cgroup").rglob("kvdown*")) == []
    assert "kvdown" not in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert b"kvdown" not in path.read_bytes()
    shutil.rmtree(lab_base / "kvdown", ignore_errors=True)
