"""The host: operating system, kernel, clock, modules, services."""

import re
from typing import Any

from kvctl.fleet.facts.raw import Raw, convert
from kvctl.types.facts import Fact, HostFacts, Service, absent, unknown

_ACS_REDIRECT = 0x04 | 0x08 | 0x10  # request redirect, completion redirect, upstream forwarding
_DMABUF_KERNEL = (5, 12)


def host_facts(raw: Raw) -> HostFacts:
    release = convert(raw.text("host", "os_release"), _release)
    kernel = raw.text("host", "kernel")
    return HostFacts(
        hostname=raw.text("host", "hostname"),
        os_id=convert(release, lambda rows: rows.get("ID"), "os-release has no ID"),
        os_version=convert(release, lambda rows: rows.get("VERSION_ID"), "os-release has no VERSION_ID"),
        kernel=kernel,
        arch=raw.text("host", "arch"),
        python=raw.text("host", "python"),
        boot_id=raw.text("host", "boot_id"),
        machine_id=raw.text("host", "machine_id"),
        uptime=convert(raw.text("host", "uptime"), _seconds),
        clock_offset=convert(raw.leaf("host", "clock_offset"), _offset),  # added by whoever collects
        cpus=raw.number("host", "cpus", low=1, high=1 << 20),
        memory=raw.number("host", "memory", low=1),
        cmdline=raw.text("host", "cmdline"),
        modules=convert(raw.leaf("host", "modules"), _set_of_texts),
        peermem_registered=convert(raw.leaf("host", "peer_memory"), _registered),
        dmabuf=_dmabuf(raw, kernel),
        acs_redirect=_acs_redirect(raw),
        sysctls=convert(raw.leaf("host", "sysctls"), _texts),
        services=convert(raw.output("systemctl"), _services, "systemctl listed no unit"),
        md_arrays=_md_arrays(raw),
        root_free=raw.number("host", "root_free"),
    )


def _release(text: str) -> dict[str, str]:
    rows = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([A-Z_]+)=(?:\"([^\"]*)\"|'([^']*)'|(\S*))", line.strip())
        if match:
            rows[match.group(1)] = next((value for value in match.groups()[1:] if value), "")
    return {key: value for key, value in rows.items() if value}


def _seconds(text: str) -> float | None:
    match = re.match(r"(\d+\.\d+) ", text + " ")
    return float(match.group(1)) if match else None


def _offset(value: Any) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)


def _set_of_texts(value: Any) -> frozenset[str] | None:
    return (
        frozenset(value) if isinstance(value, list) and value and all(isinstance(one, str) for one in value) else None
    )


def _registered(value: Any) -> bool | None:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return None
    return any("nv" in one for one in value)


def _dmabuf(raw: Raw, kernel: Fact[str]) -> Fact[bool]:
    """The open NVIDIA modules export GPU memory as dma-buf from Linux 5.12 on; the proprietary ones do not."""
    driver = raw.text("host", "nvidia_version")
    if not driver.known:
        return unknown("the NVIDIA driver is not loaded: " + driver.unknown, driver.source)
    match = re.match(r"(\d+)\.(\d+)", kernel.or_none() or "")
    if match is None:
        return unknown("the kernel's version is not known", kernel.source)
    new_enough = (int(match.group(1)), int(match.group(2))) >= _DMABUF_KERNEL
    return convert(driver, lambda text: "Open Kernel Module" in text and new_enough)


def _acs_redirect(raw: Raw) -> Fact[tuple[str, ...]]:
    if not isinstance(raw.at("acs"), dict):
        return absent()
    found = []
    for address in sorted(raw.table("acs")):
        control = raw.number("acs", address, high=0xFFFF)
        if not control.known or control.value is None:
            return unknown(f"{address}: {control.unknown}", control.source)
        if control.value & _ACS_REDIRECT:
            found.append(address)
    return raw.fact(tuple(found), "/sys/bus/pci/devices/*/config")


def _texts(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    return {str(key): text for key, text in value.items() if isinstance(text, str)} or None


def _services(text: str) -> dict[str, Service] | None:
    """Blocks of KEY=value of `systemctl show`; a unit that is not on the node is not in the result."""
    found = {}
    for block in text.split("\n\n"):
        rows = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if rows.get("Id") and rows.get("LoadState") not in (None, "not-found"):
            found[rows["Id"]] = Service(
                rows.get("ActiveState", ""), rows.get("SubState", ""), rows.get("UnitFileState", "")
            )
    return found if "LoadState=" in text else None


def _md_arrays(raw: Raw) -> Fact[dict[str, str]]:
    if not isinstance(raw.at("md"), dict):
        return absent()
    actions = {}
    for name in sorted(raw.table("md")):
        action = raw.text("md", name)
        # An array without redundancy (RAID 0) has no such file and nothing to synchronise.
        if not action.known and action.unknown != "no such file":
            return unknown(f"{name}: {action.unknown}", action.source)
        actions[name] = action.or_none() or "none"
    return raw.fact(actions, "/sys/block/md*/md/sync_action")
