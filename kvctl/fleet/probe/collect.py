"""One document of everything the probe can see; see `collect`."""

from __future__ import annotations

import os
import time

from . import block, commands, host, net, nvme, pci, rdma
from .run import Job, run
from .tree import Tree, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SCHEMA = 1
LAB_MARKER = "/etc/kvctl-lab.json"
_READ_LIMIT = 5.0
_VPD_BYTES = 4096


def collect(sysroot: str = "/", run_tools: bool = True, budget: float = 20.0) -> dict[str, Any]:
    """The raw document of this node, or of a tree recorded below `sysroot`. It only reads and never raises OSError.

    Below another root no tool is run; instead `<sysroot>/tools/<key>.txt` may hold what a tool printed, with the keys
    of `commands`. `budget` bounds the tools, in seconds.
    """
    end = time.monotonic() + budget
    tree = Tree(sysroot)
    errors: list[str] = []
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sysroot": sysroot,
        "lab": None,
    }
    marker = tree.value(LAB_MARKER)
    if tree.exists(LAB_MARKER):
        document["lab"] = {"lab": True, "text": marker or ""}
    document["host"] = _part("host", lambda: host.host(tree), errors)
    document["net"] = _part("net", lambda: net.interfaces(tree, errors), errors)
    document["rdma"] = _part("rdma", lambda: rdma.devices(tree), errors)
    document["nvme"] = _part("nvme", lambda: nvme.controllers(tree), errors)
    document["block"] = _part("block", lambda: _blocks(tree, document["nvme"], errors), errors)
    document["md"] = _part("md", lambda: block.arrays(tree), errors)
    document["pci"] = _part("pci", lambda: _functions(tree, document), errors)
    document["acs"] = _part("acs", lambda: _acs(tree, document["pci"]), errors)
    if not tree.live:
        document["tools"] = _part("tools", lambda: _recorded(tree, document["pci"]), errors)
    elif run_tools:
        document["tools"] = _tools(tree, document, marker or "", end)
    else:
        document["tools"] = {}
    document["errors"] = errors
    return document


def _part(name: str, read: Callable[[], dict[str, Any]], errors: list[str]) -> dict[str, Any]:
    """One part; a device that goes away while it is read costs its part, and the document says so."""
    try:
        return read()
    except OSError as error:
        errors.append(name + ": " + why_not(error))
    except (ValueError, KeyError, TypeError) as error:
        errors.append(f"{name}: {type(error).__name__}: {error}")
    return {}


def _blocks(tree: Tree, controllers: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    mounts, why = block.mounts(tree)
    if why:
        errors.append("mounts: " + why)
    local = [one for one in controllers.values() if (one["transport"].get("v") or "pcie") == "pcie"]
    names = sorted({name for one in local for name in one["namespaces"]})
    found = {name: block.device(tree, name, mounts) for name in names}
    if why:
        for one in found.values():
            one["mounts"] = unknown(why, "/proc/self/mountinfo")
    return found


def _functions(tree: Tree, document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, interface in document["net"].items():
        if interface.get("device"):
            found[interface["device"]] = pci.function(tree, interface["device"], net.CLASS + "/" + name + "/device")
    for name, controller in document["nvme"].items():
        if controller["device"]:
            found[controller["device"]] = pci.function(tree, controller["device"], nvme.CLASS + "/" + name + "/device")
    for address in pci.with_class(tree, "0x10de", "0x03"):
        found[address] = pci.function(tree, address)
    return found


def _acs(tree: Tree, functions: dict[str, Any]) -> dict[str, Any]:
    """The ACS control of each bridge above a NIC or a GPU, by address."""
    above: set[str] = set()
    for function in functions.values():
        if (function["class"].get("v") or "")[:4] in ("0x02", "0x03"):
            above.update(function["bridges"])
    return {address: pci.acs_control(tree, address) for address in sorted(above)}


def _recorded(tree: Tree, functions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for address in functions:
        path = pci.DEVICES + "/" + address + "/vpd"
        if tree.exists(path):
            out = tree.bytes(path, _VPD_BYTES).hex()
            found["vpd_hex:" + address] = {"argv": ["read", path], "rc": 0, "out": out, "err": "", "seconds": 0.0}
    for name in tree.names("/tools"):
        if not name.endswith(".txt"):
            continue
        path = "/tools/" + name
        try:
            out = tree.bytes(path, 1 << 20).decode("utf-8", "replace")
        except OSError as error:
            found[name[:-4]] = {"argv": [path], "unknown": why_not(error)}
            continue
        found[name[:-4]] = {"argv": [path], "rc": 0, "out": out, "err": "", "seconds": 0.0}
    return found


def _tools(tree: Tree, document: dict[str, Any], marker: str, end: float) -> dict[str, Any]:
    first = commands.wanted(document, tree, marker)
    results: dict[str, Any] = dict(first.missing)
    results.update(run(first.jobs + _reads(document), end - time.monotonic()))
    second = commands.after(results)
    if second.jobs:
        results.update(run(second.jobs, end - time.monotonic()))
    return results


def _reads(document: dict[str, Any]) -> list[Job]:
    """Reads that a broken device can hang: the first blocks of drives, and the vital product data of NICs."""
    from .signature import describe

    jobs = []
    for name, device in document["block"].items():
        path = "/dev/" + name
        # When the udev database names the contents, the device is not blank, which is what a look would have to show.
        told = device["udev"].get("v") or {}
        if "ID_FS_TYPE" not in told and "ID_PART_TABLE_TYPE" not in told and os.access(path, os.R_OK):
            jobs.append(Job("signature:" + name, ["read", path], _READ_LIMIT, call=_bound(describe, path)))
    for address, function in document["pci"].items():
        path = pci.DEVICES + "/" + address + "/vpd"
        is_nic = (function["class"].get("v") or "").startswith("0x02")
        if is_nic and not function["virtual_function"].get("v") and os.access(path, os.R_OK):
            jobs.append(
                Job("vpd_hex:" + address, ["read", path], _READ_LIMIT, "card " + address[:-2], _bound(_hex, path))
            )
    return jobs


def _bound(function: Callable[[str], str], path: str) -> Callable[[], str]:
    return lambda: function(path)


def _hex(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(_VPD_BYTES).hex()
