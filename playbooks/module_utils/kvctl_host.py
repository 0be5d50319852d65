"""Kernel settings, modules and the fstrim timer of a node: what differs, and setting it live and for the next boot."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional

from .kvctl_command import Command, argv, execute, run
from .kvctl_files import locked, read_text, write_atomic
from .kvctl_refused import Refused

SYSCTL_FILE = "/etc/sysctl.d/90-kvctl.conf"
MODULES_FILE = "/etc/modules-load.d/kvctl.conf"
LOCK = "/run/kvctl/host.lock"
HEADER = "# Owned by kvctl (role host).\n"


class Now(NamedTuple):
    """The node as it is: live values, what the owned files say, loaded modules, the timer ("masked", "on", "off")."""

    sysctls: Dict[str, str]
    sysctl_file: Dict[str, str]
    modules: Dict[str, bool]
    modules_file: List[str]
    fstrim: Optional[str]


class Difference(NamedTuple):
    before: Dict[str, Any]
    after: Dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.after)


def sysctl_path(key: str) -> str:
    """/proc/sys path of a key; a key with a slash keeps its dots (sysctl.d(5))."""
    if not re.match(r"^[A-Za-z0-9_./-]+$", key) or ".." in key:
        raise Refused("KV-HOST-001", "%r is not a sysctl key" % key, "correct roles.ROLE.sysctls")
    return "/proc/sys/" + (key if "/" in key else key.replace(".", "/"))


def same(text: str) -> str:
    return " ".join(text.split())


def parse_sysctls(text: str) -> Dict[str, str]:
    pairs = [line.partition("=") for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#;"]
    return {key.strip().lstrip("-"): same(value) for key, _, value in pairs}


def difference(now: Now, wanted: Dict[str, Any]) -> Difference:
    """What differs, live and in the owned files. Values in the files that are not wanted now are left alone."""
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    for key, value in sorted((wanted.get("sysctls") or {}).items()):
        for name, have in (("sysctl " + key, now.sysctls.get(key)), ("file " + key, now.sysctl_file.get(key))):
            if have != same(value):
                before[name], after[name] = have, same(value)
    for module in wanted.get("modules") or []:
        if not now.modules.get(module):
            before["module " + module], after["module " + module] = "not loaded", "loaded"
        if module not in now.modules_file:
            before["boot " + module], after["boot " + module] = "not loaded at boot", "loaded at boot"
    timer = wanted.get("fstrim_timer")
    if timer is not None and now.fstrim != ("on" if timer else "off") and (timer or now.fstrim != "masked"):
        before["fstrim.timer"], after["fstrim.timer"] = now.fstrim, "on" if timer else "off"
    return Difference(before, after)


def read(wanted: Dict[str, Any]) -> Now:
    live = {}
    for key in wanted.get("sysctls") or {}:
        text = read_text(sysctl_path(key))
        if text is None:
            raise Refused("KV-HOST-002", "this kernel has no sysctl %s" % key, "load its module, or remove the key")
        live[key] = same(text)
    modules = {name: loaded(name) for name in wanted.get("modules") or []}
    listed = [line for line in (read_text(MODULES_FILE) or "").splitlines() if line and not line.startswith("#")]
    return Now(live, parse_sysctls(read_text(SYSCTL_FILE) or ""), modules, listed, fstrim_state())


def loaded(module: str) -> bool:
    """Loaded or built in: /sys/module has both."""
    return os.path.isdir("/sys/module/" + module.replace("-", "_"))


def fstrim_state() -> Optional[str]:
    enabled = run(["systemctl", "is-enabled", "fstrim.timer"]).out.strip()
    if enabled in ("masked", "masked-runtime"):
        return "masked"
    if enabled not in ("enabled", "enabled-runtime", "disabled", "static"):
        return None
    running = run(["systemctl", "is-active", "fstrim.timer"]).out.strip() == "active"
    if enabled.startswith("enabled"):
        return "on" if running else "enabled, not running"
    return "running, not enabled" if running else "off"


def refuse(now: Now, diff: Difference) -> None:
    """What cannot be done, before anything is changed."""
    for key in now.sysctls:
        if "sysctl " + key in diff.after and not os.access(sysctl_path(key), os.W_OK):
            raise Refused("KV-HOST-003", "sysctl %s is read-only here (a container?)" % key, "set it on the machine")
    if diff.after.get("fstrim.timer") == "on" and now.fstrim in ("masked", None):
        raise Refused("KV-HOST-005", "fstrim.timer is %s" % (now.fstrim or "not installed"), "unmask or install it")


def apply(wanted: Dict[str, Any], diff: Difference) -> None:
    """Live first, so that a value which the kernel refuses is never written for the next boot."""
    for key, value in sorted((wanted.get("sysctls") or {}).items()):
        if "sysctl " + key in diff.after:
            set_live(key, same(value))
    execute([argv("modprobe", name[7:]) for name in diff.after if name.startswith("module ")], "KV-HOST-004")
    with locked(LOCK, wait=30):
        write_files(wanted, diff)
    execute(timer_commands(diff), "KV-HOST-006")


def set_live(key: str, value: str) -> None:
    try:
        with open(sysctl_path(key), "w", encoding="ascii") as stream:
            stream.write(value + "\n")
    except OSError as error:
        raise Refused("KV-HOST-003", "sysctl %s = %s: %s" % (key, value, error.strerror), "correct the value") from None


def write_files(wanted: Dict[str, Any], diff: Difference) -> None:
    if any(name.startswith("file ") for name in diff.after):
        values = parse_sysctls(read_text(SYSCTL_FILE) or "")
        values.update({key: same(value) for key, value in wanted["sysctls"].items()})
        text = HEADER + "".join("%s = %s\n" % pair for pair in sorted(values.items()))
        write_atomic(SYSCTL_FILE, text.encode())
    if any(name.startswith("boot ") for name in diff.after):
        names = set(read(wanted).modules_file) | set(wanted["modules"])
        write_atomic(MODULES_FILE, (HEADER + "".join(name + "\n" for name in sorted(names))).encode())


def timer_commands(diff: Difference) -> List[Command]:
    verb = {"on": "enable", "off": "disable"}.get(diff.after.get("fstrim.timer", ""))
    return [argv("systemctl", verb, "--now", "--quiet", "fstrim.timer")] if verb else []


def remove(dry: bool) -> List[str]:
    """Take the owned files away; live values stay until the next boot. Returns the files that were there."""
    present = [path for path in (SYSCTL_FILE, MODULES_FILE) if os.path.exists(path)]
    if not dry:
        for path in present:
            os.unlink(path)
    return present
