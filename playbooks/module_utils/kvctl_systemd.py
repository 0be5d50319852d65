"""The few things asked of systemd: transient units and timers, unit files, unit states."""

from __future__ import annotations

import os
from typing import Dict, List

from .kvctl_command import run
from .kvctl_files import read_text
from .kvctl_refused import Refused

UNITS = "/etc/systemd/system"


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id") or ""


def has_udev() -> bool:
    """Whether udevd runs here. Without it (containers) no .device unit ever appears."""
    return os.path.exists("/run/udev/control")


def has_net_devices() -> bool:
    """Whether systemd has .device units of interfaces, to which a unit can be bound."""
    words = ["systemctl", "list-units", "--type=device", "--plain", "--no-legend", "sys-subsystem-net-devices-*"]
    return bool(run(words).out.strip())


def properties(unit: str, *names: str) -> Dict[str, str]:
    output = run(["systemctl", "show", unit] + ["--property=" + name for name in names])
    if output.rc != 0:
        raise Refused("KV-UNIT-001", "systemctl show %s: %s" % (unit, output.complaint), "systemd must be running")
    return dict(line.split("=", 1) for line in output.out.splitlines() if "=" in line)


def active(unit: str) -> bool:
    return properties(unit, "ActiveState")["ActiveState"] in ("active", "activating", "deactivating", "reloading")


def systemctl(*words: str) -> None:
    output = run(["systemctl"] + list(words), timeout=90)
    if output.rc != 0:
        raise Refused("KV-UNIT-002", "systemctl %s: %s" % (" ".join(words), output.complaint), "see journalctl -xe")


def start_transient(unit: str, words: List[str], description: str, after: float = 0.0) -> None:
    """Start `words` as unit `unit`, now or `after` seconds from now; it outlives the session that started it."""
    timer = ["--on-active=%gs" % after, "--timer-property=AccuracySec=100ms"] if after else []
    output = run(
        ["systemd-run", "--quiet", "--collect", "--unit=" + unit, "--description=" + description]
        + timer
        + ["--property=KillMode=mixed", "--property=Nice=0"]
        + words
    )
    if output.rc != 0:
        raise Refused("KV-UNIT-003", "systemd-run %s: %s" % (unit, output.complaint), "systemd must be running")


def escape(text: str) -> str:
    """`systemd-escape`: an instance name from any text."""
    ordinary = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_."
    parts = []
    for index, byte in enumerate(text.encode()):
        char = chr(byte)
        if char == "/":
            parts.append("-")
        elif char in ordinary and not (char == "." and index == 0):
            parts.append(char)
        else:
            parts.append("\\x%02x" % byte)
    return "".join(parts)
