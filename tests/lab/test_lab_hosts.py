"""A lab host from the inside: what is real works, what is simulated looks real, the machine's disks are away."""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvctl.fleet.lab import access, layout, lifecycle, loops
from kvctl.fleet.probe.bundle import bootstrap_command, zip_bytes

pytestmark = pytest.mark.lab
RAIL = "enp65s0f0np0"
Sh = Callable[..., str]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[layout.Layout]:
    """A lab of its own name, so that it can stand beside another one."""
    found = layout.from_environment({"KVCTL_LAB_NAME": "kvhosts", "KVCTL_LAB_DIR": str(tmp_path_factory.mktemp("lab"))})
    try:
        lifecycle.up(found, "gpu=1,storage=2", clean=True, timeout=120, say=print)
        yield found
    finally:
        lifecycle.down(found, print)


@pytest.fixture(scope="module")
def sh(lab: layout.Layout) -> Sh:
    """Run a shell script on a node over SSH; its output, or a failed test."""

    def run(node: str, script: str, *, ok: bool = True, stdin: bytes = b"") -> str:
        argv = access.ssh_argv(lab, node, ["bash", "-c", script])
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=120, check=False)
        if ok and done.returncode != 0:
            pytest.fail(f"{script}\nexit {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()

    return run


def test_systemd_is_healthy(sh: Sh) -> None:
    for node in ("gpu1", "storage1"):
        assert sh(node, "systemctl is-system-running --wait").strip() == "running"


def test_each_host_has_its_own_identity(sh: Sh, lab: layout.Layout) -> None:
    seen = {
        sh(node, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub; hostname")
        for node in ("gpu1", "storage1", "storage2")
    }
    assert len(seen) == 3
    assert lab.identity.stat().st_mode & 0o777 == 0o600
    assert lab.known_hosts.stat().st_mode & 0o777 == 0o600


def test_hosts_reach_each_other_at_full_mtu_on_the_rail(sh: Sh) -> None:
    rail = lifecycle.node_named(layout.from_environment({"KVCTL_LAB_NAME": "kvhosts"}), "storage2").rail_address
    sh("storage1", f"ping -c1 -W2 -M do -s 8972 {rail}")


def test_the_machine_s_own_namespace_is_untouched(lab: layout.Layout) -> None:
    management, rail = lab.subnets()
    routes = subprocess.run(["ip", "route", "show"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert management not in routes
    assert rail not in routes
    assert "storage1" not in links


def test_the_rail_is_a_pci_function_and_live(sh: Sh) -> None:
    folder = f"/sys/class/net/{RAIL}"
    facts = f"cat {folder}/device/vendor {folder}/device/device; readlink -f {folder}"
    assert sh("storage1", facts).split() == [
        "0x15b3", "0x101d", f"/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/net/{RAIL}",
    ]  # fmt: skip
    read = f"ip link set {RAIL} mtu $1; cat /sys/class/net/{RAIL}/mtu"
    assert sh("storage1", f"set -- 4200; {read}").strip() == "4200"
    assert sh("storage1", f"set -- 9000; {read}").strip() == "9000"


def test_only_what_a_real_host_lets_root_write_is_writable(sh: Sh) -> None:
    path = f"/sys/class/net/{RAIL}/ecn/roce_np/enable/3"
    assert sh("storage1", f"echo 0 > {path}; cat {path}; echo 1 > {path}; cat {path}").split() == ["0", "1"]
    assert sh("storage1", "echo x > /sys/class/infiniband/mlx5_0/fw_ver || echo refused").strip() == "refused"


def test_traffic_class_reads_as_the_driver_shows_it(sh: Sh) -> None:
    path = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    wait = f"for i in $(seq 100); do grep -q Global {path} && break; sleep 0.05; done"
    assert (
        sh("storage1", f"echo 96 > {path}; {wait}; cat {path}; echo 106 > {path}; {wait}").strip() == "Global tclass=96"
    )


def test_a_probe_sees_a_whole_node(sh: Sh) -> None:
    payload = zip_bytes()
    raw = json.loads(sh("storage1", bootstrap_command(len(payload)), stdin=payload))
    assert raw["errors"] == []
    assert raw["lab"]["lab"] is True
    assert set(raw["nvme"]) == {"nvme0", "nvme1"}
    assert raw["net"][RAIL]["device"] == "0000:41:00.0"
    assert raw["tools"][f"mlnx_qos:{RAIL}"]["rc"] == 0
    gpu = json.loads(sh("gpu1", bootstrap_command(len(payload)), stdin=payload))
    assert "0000:61:00.0" in gpu["pci"]
    assert gpu["tools"]["nvidia_smi.xml"]["rc"] == 0


def test_a_drive_formats_mounts_and_comes_back_after_a_reboot(sh: Sh, lab: layout.Layout) -> None:
    sh("storage1", "mkfs.xfs -q -f /dev/nvme0n1")
    busy = (
        "mkdir -p /mnt/x; mount /dev/nvme0n1 /mnt/x; nvme format /dev/nvme0n1 --lbaf 0 --force; echo $?; umount /mnt/x"
    )
    assert sh("storage1", busy).strip() == "1"
    sh("storage1", "nvme format /dev/nvme0n1 --lbaf 0 --force")
    seen = sh("storage1", "cat /sys/block/nvme0n1/queue/logical_block_size; blkid -p /dev/nvme0n1 || echo empty")
    assert seen.split() == ["512", "empty"]
    sh("storage1", "nvme format /dev/nvme0n1 --block-size 4096 --force; mkfs.xfs -q /dev/nvme0n1; mkdir -p /srv/a")
    boot = sh("storage1", "cat /proc/sys/kernel/random/boot_id")
    line = 'echo "UUID=$(blkid -p -s UUID -o value /dev/nvme0n1) /srv/a xfs nofail 0 0" > /etc/fstab'
    sh(
        "storage1",
        f"{line}; systemctl daemon-reload; mount /srv/a; echo kept > /srv/a/file; sync; systemctl reboot",
        ok=False,
    )
    await_reboot(lab, sh, boot)
    wait = "systemctl is-system-running --wait >/dev/null; cat /srv/a/file; findmnt -no SOURCE /srv/a"
    assert sh("storage1", wait).split() == ["kept", "/dev/nvme0n1"]
    sh("storage1", "umount /srv/a; : > /etc/fstab; systemctl daemon-reload; nvme format /dev/nvme0n1 --lbaf 1 --force")


def await_reboot(lab: layout.Layout, sh: Sh, boot: str) -> None:
    for _ in range(60):
        lifecycle.power_on(lab, "storage1", timeout=60, say=print)
        if sh("storage1", "cat /proc/sys/kernel/random/boot_id", ok=False) not in ("", boot):
            return
    pytest.fail("the host did not boot again")


def test_device_units_exist_for_the_rail_and_the_drives(sh: Sh) -> None:
    units = f"sys-subsystem-net-devices-{RAIL}.device dev-nvme0n1.device"
    assert sh("storage1", f"systemctl is-active {units}").split() == ["active", "active"]


def test_a_burnt_image_runs_after_a_reset(sh: Sh, lab: layout.Layout) -> None:
    lifecycle.break_node(lab, "storage2", "nic-firmware")
    assert sh("storage2", "cat /sys/class/infiniband/mlx5_0/fw_ver").strip() == "22.33.1048"
    image = next(lab.images.glob("*22_41_1000-MT_0000000359.bin")).read_bytes()
    sh("storage2", "cat > /tmp/fw.bin; mstflint -d 0000:41:00.0 -i /tmp/fw.bin -y burn", stdin=image)
    assert "FW Version(Running):   22.33.1048" in sh("storage2", "mstflint -d 0000:41:00.0 query")
    sh("storage2", "mstfwreset -d 0000:41:00.0 -y reset")
    assert sh("storage2", "cat /sys/class/infiniband/mlx5_0/fw_ver").strip() == "22.41.1000"
    lifecycle.mend_node(lab, "storage2", "", timeout=60, say=print)


OPEN_ALL = """
import os, sys
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    if os.path.isdir(path) or os.path.islink(path):
        continue
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, mode | os.O_NONBLOCK))
            print("opened", name)
        except OSError:
            print("refused", name)
"""


def machine_disks(lab: layout.Layout) -> dict[str, tuple[int, int]]:
    """Every block device of this machine that is not a loop of this lab: name -> numbers."""
    own = {Path(loop.device).name for loop in loops.attached(lab.directory)}
    found = {}
    for entry in Path("/sys/class/block").iterdir():
        if entry.name not in own:
            major, _, minor = (entry / "dev").read_text().partition(":")
            found[entry.name] = (int(major), int(minor))
    return found


def test_root_cannot_make_a_device_node(sh: Sh, lab: layout.Layout) -> None:
    disks = machine_disks(lab).values()
    script = "".join(f"mknod /tmp/d{i} b {m} {n} 2>/dev/null && echo made\n" for i, (m, n) in enumerate(disks))
    assert sh("storage1", script + "true") == ""


def test_devtmpfs_shows_disks_but_opens_none(sh: Sh, lab: layout.Layout) -> None:
    attempt = f"python3 -c {shlex.quote(OPEN_ALL)} /tmp/dev"
    script = f"mkdir -p /tmp/dev; mount -t devtmpfs none /tmp/dev; {attempt}; umount /tmp/dev"
    rows = {tuple(line.split()) for line in sh("storage1", script).splitlines()}
    opened = {name for verdict, name in rows if verdict == "opened"}
    disks = machine_disks(lab)
    assert rows  # devtmpfs was really there
    assert not opened & set(disks)
    assert opened <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"} | {
        Path(loop.device).name for loop in loops.attached(lab.node_dir("storage1"))
    }


def test_nodes_in_a_crafted_file_system_open_nothing(sh: Sh, lab: layout.Layout) -> None:
    """debugfs(8) writes device nodes into an image past the kernel's checks; mounting it makes them real."""
    disks = machine_disks(lab)
    nodes = "".join(f"mknod d{i} b {major} {minor}\n" for i, (major, minor) in enumerate(disks.values()))
    own = loops.attached(lab.node_dir("storage1"))[0]
    script = (
        "mkfs.ext4 -q -F /dev/nvme1n1; debugfs -w -f - /dev/nvme1n1 >/dev/null 2>&1; mkdir -p /tmp/planted;"
        "mount -o dev /dev/nvme1n1 /tmp/planted; ls /tmp/planted;"
        f"python3 -c {shlex.quote(OPEN_ALL)} /tmp/planted; umount /tmp/planted"
    )
    out = sh("storage1", script, stdin=(nodes + f"mknod own b 7 {own.minor}\n").encode())
    assert "d0" in out.split()
    assert "opened own" in out
    assert [line for line in out.splitlines() if line.startswith("opened d")] == []


def test_own_drives_open(sh: Sh) -> None:
    assert (
        sh(
            "storage1", "head -c 4096 /dev/nvme0n1 | wc -c; dd if=/dev/zero of=/dev/nvme1n1 bs=4096 count=1 status=none"
        ).strip()
        == "4096"
    )


def test_the_machine_s_disks_are_not_listed(sh: Sh, lab: layout.Layout) -> None:
    assert set(sh("storage1", "lsblk -dno NAME").split()) == {"nvme0n1", "nvme1n1"}
