"""The roles on a real host: real sshd, systemd and Ansible; simulated adapter and drives."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.lab import cards, layout, lifecycle
from kvctl.fleet.lab.nodes import LabNode
from kvctl.fleet.lab.standins import mstflint

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

REPO = Path(__file__).parents[2]
NETDEV, PCI, SIMULATED = layout.RAIL, "0000:41:00.0", "/usr/local/sbin/nvme"
CLASS: dict[str, Any] = {
    "netdev": NETDEV, "pci": PCI, "rdma": "mlx5_0", "mtu": 9000, "priority": 3, "dscp": 26, "trust": "dscp",
    "dscp_prio": {"26": 3, "48": 6}, "pfc": [3], "dcbx": "os", "buffer_min": 65536, "cable_length": 7, "pause": False,
    "ets": {"tsa": {str(tc): "strict" if tc == 6 else "ets" for tc in range(8)},
            "bw": {str(tc): 50 if tc in (0, 3) else 0 for tc in range(8)}, "prio_tc": {str(p): p for p in range(8)}},
    "prio_buffer": {str(p): int(p == 3) for p in range(8)}, "ecn": True, "cnp_dscp": 48, "cnp_priority": 6,
    "cm_tos": 106, "tclass": 106,
}  # fmt: skip
ROCE = {"interfaces": [CLASS]}
NODE = {"interfaces": [CLASS], "version": "0.1.0"}
HOST = {"sysctls": {"net.ipv4.tcp_mtu_probing": "1"}, "modules": [], "fstrim_timer": True}
NO_PFC = f"mlnx_qos -i {NETDEV} --pfc 0,0,0,0,0,0,0,0 >/dev/null"
READ_METRICS = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9780/metrics').read().decode())"
# Takes the place of a tool: nvme whose format waits for /run/go, mlnx_qos that cannot enable PFC.
SLOW_NVME = """#!/bin/sh
if [ "$1" = format ]; then echo x >> /run/formats; while [ ! -e /run/go ]; do sleep 0.1; done; fi
exec /usr/bin/env PATH=/usr/sbin:/usr/bin nvme "$@"
"""
REFUSES_PFC = """#!/bin/sh
case "$*" in *"--pfc 0,0,0,1"*) echo Netlink error: Operation not permitted; exit 1;; esac
exec /usr/bin/env PATH=/usr/sbin:/usr/bin mlnx_qos "$@"
"""
STATE = (
    f"mlnx_qos -i {NETDEV} -a; ip -o link show {NETDEV}; mstflint -d {PCI} -qq query;"
    " cat /sys/block/nvme*/queue/logical_block_size; sysctl net.ipv4.tcp_mtu_probing;"
    " find /etc /usr/lib/kvctl /var/lib/kvctl -newer /run/reference -type f 2>/dev/null || true"
)


@dataclass(frozen=True)
class Done:
    """One playbook run."""

    rc: int
    text: str

    @property
    def changed(self) -> int:
        return int(re.search(r"changed=(\d+)", self.text)[1])  # type: ignore[index]


@dataclass
class Host:
    lab: layout.Layout
    node: LabNode
    work: Path
    runs: Any = field(default_factory=lambda: count(1))

    def ssh(self) -> list[str]:
        known = f"UserKnownHostsFile={self.lab.known_hosts}"
        return [
            "ssh",
            "-i",
            str(self.lab.identity),
            "-o",
            known,
            "-o",
            "ConnectTimeout=10",
            f"root@{self.node.address}",
        ]

    def inside(self, *argv: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.lab.name}", *argv]

    def sh(self, command: str, check: bool = True) -> str:
        done = subprocess.run(self.inside(*self.ssh(), command), capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def cut_connections(self) -> None:
        """End the ssh masters that Ansible left, as a controller that died would."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if b"ssh" in words and f"{self.work}/".encode() in words:
                os.kill(int(path.parent.name), signal.SIGKILL)

    def put(self, path: str, text: str) -> None:
        command = f"cat > {path} && chmod +x {path}"
        subprocess.run(self.inside(*self.ssh(), command), input=text, text=True, check=True, timeout=60)

    def argv(self, name: str, variables: dict[str, Any], *options: str, rail: bool = False) -> list[str]:
        inventory, path = self.work / f"{name}.ini", self.work / f"{name}.json"
        address = self.node.rail_address if rail else self.node.address
        known = "StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null" if rail else (
            f"UserKnownHostsFile={self.lab.known_hosts}")  # fmt: skip
        inventory.write_text(
            f"storage1 ansible_host={address} ansible_user=root ansible_python_interpreter=/usr/bin/python3"
            f" ansible_ssh_private_key_file={self.lab.identity}"
            f' ansible_ssh_common_args="-o {known} -o ControlPath={self.work}/%C -o ConnectTimeout=10"\n'
        )
        path.write_text(json.dumps(variables))
        play = "converge.yml" if "kvctl_desired" in variables else "step.yml"
        playbook = str(Path(sys.executable).with_name("ansible-playbook"))
        return self.inside(playbook, "-i", str(inventory), str(REPO / "playbooks" / play), "-e", f"@{path}", *options)

    def environment(self) -> dict[str, str]:
        modules = f"{REPO}/playbooks/module_utils:{REPO}/kvctl/fleet/probe"
        return os.environ | {
            "ANSIBLE_LIBRARY": f"{REPO}/playbooks/library", "ANSIBLE_MODULE_UTILS": modules, "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCAL_TEMP": str(self.work / "tmp"), "PYTHONPATH": str(REPO),
        }  # fmt: skip

    def variables(self, role: str, args: dict[str, Any], verb: str = "apply", run: str = "") -> dict[str, Any]:
        return {"kvctl_run": run or f"r-{next(self.runs)}", "kvctl_step": "s01", "kvctl_role": role,
                "kvctl_verb": verb, "kvctl_args": args, "kvctl_hosts": ["storage1"]}  # fmt: skip

    def step(self, role: str, args: dict[str, Any], *options: str, verb: str = "apply", run: str = "",
             rail: bool = False) -> Done:  # fmt: skip
        variables = self.variables(role, args, verb, run)
        return self.play(self.argv(variables["kvctl_run"], variables, *options, rail=rail))

    def play(self, argv: list[str]) -> Done:
        done = subprocess.run(argv, env=self.environment(), capture_output=True, text=True, timeout=400, cwd="/")
        return Done(done.returncode, done.stdout + done.stderr)

    def serials(self) -> list[str]:
        return sorted(self.sh("cat /sys/class/nvme/*/serial").split())

    def drives(self, *serials: str, **changes: Any) -> dict[str, Any]:
        drive = {"pci": "", "lba": 4096, "layout": "raw", "mount": "", "discard": "none", **changes}
        return {"drives": [{"serial": serial, **drive} for serial in serials]}

    def firmware(self, version: str, psid: str = cards.PSID, image_psid: str = cards.PSID) -> dict[str, Any]:
        body = b"\xff" * 4096
        head = {"psid": image_psid, "version": version, "product": version, "date": "1.1.2024", "rom": [],
                "sha256": hashlib.sha256(body).hexdigest()}  # fmt: skip
        image = self.work / f"{version}-{image_psid}.bin"
        image.write_bytes(mstflint.MAGIC + json.dumps(head).encode() + b"\n" + body)
        return {"devices": [{"netdev": NETDEV, "pci": PCI, "psid": psid, "version": version, "image": str(image),
                             "sha256": hashlib.sha256(image.read_bytes()).hexdigest()}]}  # fmt: skip

    def metric(self, name: str) -> float:
        text = self.sh(f'python3 -c "{READ_METRICS}"')
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])  # type: ignore[index]


@pytest.fixture(scope="module")
def host(lab_base: Path) -> Iterator[Host]:
    """One storage node in a lab of its own."""
    directory = lab_base / "kvroletest"
    kept = {key: value for key, value in os.environ.items() if key == "KVCTL_LAB_CACHE"}
    lab = layout.from_environment({**kept, "KVCTL_LAB_NAME": "kvroletest", "KVCTL_LAB_DIR": str(directory)})
    lifecycle.down(lab, print)
    (node,) = lifecycle.up(lab, "storage=1", clean=True, timeout=180, say=print)
    work = lab_base / "roles"
    work.mkdir(exist_ok=True)
    try:
        yield Host(lab, node, work)
    finally:
        lifecycle.down(lab, print)


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.1)


CASES = {
    "host": (lambda h: HOST, "sysctl -qw net.ipv4.tcp_mtu_probing=0", '+  "sysctl net.ipv4.tcp_mtu_probing": "1"'),
    "nic_firmware": (lambda h: h.firmware(cards.OLD_FIRMWARE), "true", f'+    "running": "{cards.OLD_FIRMWARE}"'),
    "roce": (lambda h: ROCE, f"{NO_PFC}; ip link set {NETDEV} mtu 1500", '+    "mtu": 9000'),
    "nvme": (lambda h: h.drives(h.serials()[0], lba=512), "true", '+    "lba": 512'),
    "node": (lambda h: NODE, "systemctl disable -q --now kvnoded 2>/dev/null || true", '+  "running": "this archive"'),
}


@pytest.mark.parametrize("role", CASES)
def test_check_changes_nothing_apply_does_and_a_second_apply_does_not(host: Host, role: str) -> None:
    args, drift, shown = CASES[role]
    args = args(host)
    host.sh(f"{drift}; touch /run/reference")
    before = host.sh(STATE)
    checked = host.step(role, args, "--check", "--diff")
    assert checked.rc == 0, checked.text
    assert shown in checked.text
    assert host.sh(STATE) == before, "check mode changed something"
    applied = host.step(role, args)
    assert applied.rc == 0, applied.text
    assert applied.changed >= 1
    again = host.step(role, args)
    assert (again.rc, again.changed) == (0, 0), again.text


def test_converge_twice(host: Host) -> None:
    desired = {"host": HOST, "nic_firmware": host.firmware(cards.FIRMWARE), "roce": ROCE,
               "nvme": host.drives(*host.serials()), "node": NODE}  # fmt: skip
    first = host.play(host.argv("c1", {"kvctl_run": "r-c1", "kvctl_desired": desired}))
    assert first.rc == 0, first.text
    second = host.play(host.argv("c2", {"kvctl_run": "r-c2", "kvctl_desired": desired}))
    assert (second.rc, second.changed) == (0, 0), second.text


def test_a_change_that_would_cut_ssh_is_put_back(host: Host) -> None:
    """A switch that drops jumbo frames: the handshake passes, full segments do not."""
    host.step("node", NODE, verb="revert")
    host.sh(f"{NO_PFC}; ip link set {NETDEV} mtu 1500")
    port = f"r-{host.node.name}"
    subprocess.run(host.inside("ip", "link", "set", port, "mtu", "1500"), check=True)
    try:
        cut = host.step("roce", ROCE, "-e", "roce_confirm_timeout=25", rail=True)
    finally:
        subprocess.run(host.inside("ip", "link", "set", port, "mtu", "9216"), check=True)
    assert cut.rc != 0
    assert "KV-NET-020" in cut.text
    assert "mtu 1500" in host.sh(f"ip -o link show {NETDEV}")
    assert "enabled     0   0   0   0" in host.sh(f"mlnx_qos -i {NETDEV}")
    assert json.loads(host.sh("cat /etc/kvctl/class.json"))["interfaces"] == {}, "it would come back at the next boot"
    mended = host.step("roce", ROCE)
    assert mended.rc == 0, mended.text


def test_a_command_that_fails_leaves_nothing_half_set(host: Host) -> None:
    host.sh(f"{NO_PFC}; ip link set {NETDEV} mtu 1500")
    host.put("/usr/local/sbin/mlnx_qos", REFUSES_PFC)
    try:
        failed = host.step("roce", ROCE)
        assert "KV-ROCE-020" in failed.text, failed.text[-1500:]
        assert "mtu 1500" in host.sh(f"ip -o link show {NETDEV}")
        assert "enabled     0   0   0   0" in host.sh(f"mlnx_qos -i {NETDEV}")
    finally:
        host.sh("rm /usr/local/sbin/mlnx_qos")
    assert host.step("roce", ROCE).rc == 0


def test_the_boot_unit_sets_the_class(host: Host) -> None:
    host.step("roce", ROCE)
    host.sh(f"systemctl stop kvnoded; {NO_PFC}; systemctl restart kvctl-class@{NETDEV}", check=False)
    assert "enabled     0   0   0   1" in host.sh(f"mlnx_qos -i {NETDEV}")


def slow_format(host: Host) -> None:
    host.sh("rm -f /run/go /run/formats")
    host.put(SIMULATED, SLOW_NVME)


def test_a_format_outlives_its_session_and_is_attached_to(host: Host) -> None:
    args, run = host.drives(host.serials()[0], lba=512), "r-killed"
    slow_format(host)
    try:
        argv = host.argv(run, host.variables("nvme", args, run=run))
        session = subprocess.Popen(argv, env=host.environment(), start_new_session=True, stdout=subprocess.DEVNULL)
        until(lambda: "x" in host.sh("cat /run/formats", check=False), 60)
        os.killpg(session.pid, signal.SIGKILL)
        session.wait()
        host.cut_connections()
        assert host.sh(f"systemctl is-active kvctl-{run}-s01").strip() == "active"
        host.sh("touch /run/go")
        attached = host.step("nvme", args, run=run)
        assert attached.rc == 0, attached.text
        assert attached.changed == 1
        assert host.sh("cat /run/formats").split() == ["x"], "the drive was formatted twice"
    finally:
        host.sh(f"rm -f {SIMULATED}; touch /run/go")
    assert host.sh("cat /sys/block/nvme0n1/queue/logical_block_size").strip() == "512"


def test_a_killed_unit_is_reported_and_not_repeated(host: Host) -> None:
    args, run = host.drives(host.serials()[0]), "r-dead"
    slow_format(host)
    try:
        argv = host.argv(run, host.variables("nvme", args, run=run))
        session = subprocess.Popen(argv, env=host.environment(), stdout=subprocess.PIPE, text=True)
        until(lambda: "x" in host.sh("cat /run/formats", check=False), 60)
        host.sh(f"systemctl kill -s KILL kvctl-{run}-s01")
        text = session.communicate(timeout=120)[0]
        assert "KV-JOB-006" in text
        again = host.step("nvme", args, run=run)
        assert "KV-JOB-006" in again.text
        assert host.sh("cat /run/formats").split() == ["x"]
    finally:
        host.sh(f"rm -f {SIMULATED}; touch /run/go")
    assert host.step("nvme", args).rc == 0, "a new run puts it right"


def test_two_at_once_are_one_job(host: Host) -> None:
    host.sh(f"systemctl stop kvnoded 2>/dev/null; {NO_PFC}")
    variables = host.variables("roce", ROCE, run="r-both")
    both = [
        subprocess.Popen(host.argv(f"both{i}", variables), env=host.environment(), stdout=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    texts = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert host.sh("ls /var/lib/kvctl/pending | grep -c '^r-both.*json'").strip() == "1"


def test_somebodys_file_system_is_refused_and_kept(host: Host) -> None:
    serial = host.serials()[1]
    host.sh("mkfs.ext4 -q -F -L theirs /dev/nvme1n1")
    refused = host.step("nvme", host.drives(serial, lba=512))
    assert "KV-NVME-010" in refused.text
    assert "theirs" in host.sh("blkid -p /dev/nvme1n1")
    allowed = host.step("nvme", host.drives(serial, lba=512, may_format=True))
    assert allowed.rc == 0, allowed.text


def test_a_file_system_by_uuid_mounted_and_taken_away(host: Host) -> None:
    """ext4, because the kernel of this machine refuses a second XFS of one UUID, which another lab may have mounted."""
    serial = host.serials()[1]
    args = host.drives(serial, layout="ext4", mount=f"/srv/kvctl/{serial}", discard="fstrim", may_mkfs=True)
    made = host.step("nvme", args)
    assert made.rc == 0, made.text
    assert f"/srv/kvctl/{serial} type ext4 (rw,noatime" in host.sh("mount")
    host.sh(f"echo kept > /srv/kvctl/{serial}/file")
    again = host.step("nvme", args)
    assert (again.rc, again.changed) == (0, 0), again.text
    assert "KV-NVME-011" in host.step("nvme", host.drives(serial, lba=512, may_format=True)).text
    assert host.step("nvme", args, verb="revert").rc == 0
    assert serial not in host.sh("cat /etc/fstab")
    assert host.step("nvme", args).rc == 0
    assert host.sh(f"cat /srv/kvctl/{serial}/file") == "kept\n"
    host.step("nvme", args, verb="revert")


def test_xfs_has_the_serials_own_uuid(host: Host) -> None:
    args = host.drives(host.serials()[1], layout="xfs", may_format=True)
    assert host.step("nvme", args).rc == 0
    uuid = host.sh("blkid -p -s UUID -o value /dev/nvme1n1")
    host.sh("mkfs.ext4 -q -F /dev/nvme1n1")
    assert host.step("nvme", args).rc == 0
    assert host.sh("blkid -p -s UUID -o value /dev/nvme1n1") == uuid
    again = host.step("nvme", args)
    assert (again.rc, again.changed) == (0, 0), again.text


def test_sanitize_leaves_a_record(host: Host) -> None:
    serial = host.serials()[1]
    args = host.drives(serial)
    assert "KV-NVME-030" in host.step("nvme", {**args, "approved": []}, verb="sanitize").text
    done = host.step("nvme", {**args, "approved": [serial]}, verb="sanitize")
    record = json.loads(host.sh(f"cat /var/lib/kvctl/sanitize/{serial}.json", check=False) or "{}")
    assert record["state"] == ("done" if done.rc == 0 else "failed"), done.text
    assert record["method"]


def test_an_image_of_another_psid_is_never_burnt(host: Host) -> None:
    stored = host.sh(f"mstflint -d {PCI} -qq query")
    crossed = host.step("nic_firmware", host.firmware(cards.OLD_FIRMWARE, image_psid=cards.OTHER_PSID))
    assert "KV-FW-007" in crossed.text
    assert "KV-FW-004" in host.step("nic_firmware", host.firmware(cards.OLD_FIRMWARE, psid=cards.OTHER_PSID)).text
    wrong = host.firmware(cards.OLD_FIRMWARE)
    wrong["devices"][0]["sha256"] = "0" * 64
    assert "KV-FW-006" in host.step("nic_firmware", wrong).text
    assert host.sh(f"mstflint -d {PCI} -qq query") == stored


def test_a_sysctl_that_is_read_only_is_a_failure(host: Host) -> None:
    failed = host.step("host", {"sysctls": {"vm.swappiness": "7", "net.ipv4.tcp_ecn": "1"}})
    assert "KV-HOST-003" in failed.text
    assert "tcp_ecn" not in host.sh("cat /etc/sysctl.d/90-kvctl.conf", check=False)


def test_kvnoded_remembers_drift_and_puts_the_class_back_after_a_flap(host: Host) -> None:
    assert host.step("roce", ROCE).rc == 0
    assert host.step("node", NODE).rc == 0
    drifts = host.metric(f'kvctl_class_drift_total{{interface="{NETDEV}"}}')
    host.sh("ip link set eth0 mtu 1400")
    host.sh(f"{NO_PFC}; ip link set {NETDEV} mtu 1500")
    until(lambda: host.metric(f'kvctl_class_drift_total{{interface="{NETDEV}"}}') == drifts + 1)
    assert host.metric(f'kvctl_class_ok{{interface="{NETDEV}"}}') == 0
    assert "mtu 1500" in host.sh(f"ip -o link show {NETDEV}"), "a live setting is left for a reviewed change"
    for state in ("down", "up"):
        subprocess.run(host.inside("ip", "link", "set", f"r-{host.node.name}", state), check=True)
        until(lambda up=state == "up": host.metric(f'kvctl_link_up{{interface="{NETDEV}"}}') == up)
    until(lambda: host.metric(f'kvctl_class_ok{{interface="{NETDEV}"}}') == 1)
    assert "enabled     0   0   0   1" in host.sh(f"mlnx_qos -i {NETDEV}")
    assert "mtu 9000" in host.sh(f"ip -o link show {NETDEV}")
    assert "mtu 1400" in host.sh("ip -o link show eth0"), "it is not in class.json"
    host.sh("ip link set eth0 mtu 1500")


def test_kvnoded_counts_and_remembers_a_flap(host: Host) -> None:
    flaps = host.metric(f'kvctl_link_flaps_total{{interface="{NETDEV}"}}')
    for state in ("down", "up"):
        subprocess.run(host.inside("ip", "link", "set", f"r-{host.node.name}", state), check=True)
        until(lambda up=state == "up": host.metric(f'kvctl_link_up{{interface="{NETDEV}"}}') == up)
    assert host.metric(f'kvctl_link_flaps_total{{interface="{NETDEV}"}}') == flaps + 1
    assert '"kind": "flap"' in host.sh("cat /var/lib/kvctl/flaps.jsonl")


def test_kvnoded_stops_at_once(host: Host) -> None:
    begun = time.monotonic()
    host.sh("systemctl stop kvnoded")
    assert time.monotonic() - begun < 5
    assert host.sh("systemctl is-failed kvnoded", check=False).strip() == "inactive"
