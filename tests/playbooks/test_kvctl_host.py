"""Kernel settings: live and in the owned files."""

import pytest
from ansible.module_utils import kvctl_host
from ansible.module_utils.kvctl_host import Now
from ansible.module_utils.kvctl_refused import Refused

WANTED = {
    "sysctls": {"net.ipv4.tcp_rmem": "4096\t131072  6291456"},
    "modules": ["nvidia_peermem"],
    "fstrim_timer": True,
}
RIGHT = Now({"net.ipv4.tcp_rmem": "4096 131072 6291456"}, {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
            {"nvidia_peermem": True}, ["nvidia_peermem"], "on")  # fmt: skip


def test_nothing_to_change():
    assert not kvctl_host.difference(RIGHT, WANTED)


def test_live_and_file_are_two_differences():
    diff = kvctl_host.difference(RIGHT._replace(sysctls={"net.ipv4.tcp_rmem": "4096 87380 6291456"}), WANTED)
    assert list(diff.after) == ["sysctl net.ipv4.tcp_rmem"]
    diff = kvctl_host.difference(RIGHT._replace(sysctl_file={}), WANTED)
    assert list(diff.after) == ["file net.ipv4.tcp_rmem"]


def test_a_module_that_is_loaded_must_be_loaded_at_boot_too():
    assert list(kvctl_host.difference(RIGHT._replace(modules_file=[]), WANTED).after) == ["boot nvidia_peermem"]


@pytest.mark.parametrize(
    ("wanted", "state", "after"),
    [(None, "off", None), (True, "on", None), (True, "off", "on"), (False, "on", "off"), (False, "masked", None),
     (True, "enabled, not running", "on")],
)  # fmt: skip
def test_fstrim(wanted, state, after):
    diff = kvctl_host.difference(RIGHT._replace(fstrim=state), {**WANTED, "fstrim_timer": wanted})
    assert diff.after.get("fstrim.timer") == after


def test_a_masked_timer_is_not_turned_on():
    now = RIGHT._replace(fstrim="masked")
    with pytest.raises(Refused, match="KV-HOST-005"):
        kvctl_host.refuse(now, kvctl_host.difference(now, WANTED))


def test_an_unknown_sysctl_is_refused():
    with pytest.raises(Refused, match="KV-HOST-002"):
        kvctl_host.read({"sysctls": {"net.no.such.key": "1"}})


@pytest.mark.parametrize("key", ["net.ipv4;reboot", "../../etc/passwd", "a b", ""])
def test_a_key_cannot_leave_proc_sys(key):
    with pytest.raises(Refused, match="KV-HOST-001"):
        kvctl_host.sysctl_path(key)


def test_an_interface_with_dots_keeps_them():
    assert kvctl_host.sysctl_path("net/ipv4/conf/eth0.100/forwarding") == "/proc/sys/net/ipv4/conf/eth0.100/forwarding"


def test_the_files_syntax():
    text = "# comment\n; other\n\nnet.ipv4.tcp_ecn=1\n-vm.swappiness = 1\n"
    assert kvctl_host.parse_sysctls(text) == {"net.ipv4.tcp_ecn": "1", "vm.swappiness": "1"}
