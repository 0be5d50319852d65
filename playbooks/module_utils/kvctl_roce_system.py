"""The part of the class that is the same for every driver: MTU, pause, ECN, and the marking of RDMA traffic."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from .kvctl_command import Command, argv, find, run, write
from .kvctl_files import read_text
from .kvctl_refused import Refused
from .kvctl_roce import Observed, State
from .tools import ToolOutputError, cma_roce, ethtool

NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"
CONFIGFS = "/sys/kernel/config/rdma_cm"


def ecn_path(netdev: str, point: str, leaf: object) -> str:
    return "%s/%s/ecn/%s/%s" % (NET, netdev, point, leaf)


def tclass_path(device: str) -> str:
    return "%s/%s/tc/1/traffic_class" % (RDMA, device)


def tos_path(device: str) -> str:
    return "%s/%s/ports/1/default_roce_tos" % (CONFIGFS, device)


def read(interface: Dict[str, Any]) -> Observed:
    netdev, device, priority = interface["netdev"], interface.get("rdma") or "", interface["priority"]
    mtu = read_text("%s/%s/mtu" % (NET, netdev))
    if mtu is None:
        raise Refused("KV-ROCE-001", "there is no interface %s" % netdev, "check the inventory's rails")
    state: State = {"mtu": int(mtu)}
    unknown: Dict[str, str] = {}
    note(state, unknown, "pause", *read_pause(netdev))
    for point, name in (("roce_np", "ecn_np"), ("roce_rp", "ecn_rp")):
        value, why = read_number(ecn_path(netdev, point, "enable/%d" % priority))
        note(state, unknown, name, None if value is None else {priority: bool(value)}, why)
    note(state, unknown, "cnp_dscp", *read_number(ecn_path(netdev, "roce_np", "cnp_dscp")))
    note(state, unknown, "cnp_prio", *read_number(ecn_path(netdev, "roce_np", "cnp_802p_prio")))
    note(state, unknown, "cm_tos", *read_cm_tos(device))
    note(state, unknown, "tclass", *read_tclass(device))
    return Observed(state, unknown)


def note(state: State, unknown: Dict[str, str], name: str, value: Any, why: str) -> None:
    if why:
        unknown[name] = why
    else:
        state[name] = value


def read_number(path: str) -> Tuple[Optional[int], str]:
    text = read_text(path)
    if text is None:
        return None, "%s is not there (this driver has no such setting)" % path
    if not text.lstrip("-").isdigit():
        return None, "%s holds %r" % (path, text[:20])
    return int(text), ""


def read_pause(netdev: str) -> Tuple[Optional[Dict[str, bool]], str]:
    output = run(["ethtool", "-a", netdev])
    if output.rc != 0:
        return None, "ethtool -a: %s" % output.complaint
    try:
        seen = ethtool.parse_pause(output.out)
    except ToolOutputError as error:
        return None, "ethtool -a: %s" % error
    if seen.rx is None or seen.tx is None:
        return None, "ethtool -a does not say"
    return {"rx": seen.rx, "tx": seen.tx}, ""


def read_cm_tos(device: str) -> Tuple[Optional[int], str]:
    """The connection manager's ToS: from configfs when its group is there, else from the tool, which makes one."""
    if not device or not os.path.isdir("%s/%s" % (RDMA, device)):
        return None, "there is no RDMA device %s" % (device or "on this interface")
    if os.path.exists(tos_path(device)):
        return read_number(tos_path(device))
    if find("cma_roce_tos") is None:
        if os.path.isdir(CONFIGFS):
            return None, ""  # readable once the group is made, which setting it does
        return None, "neither cma_roce_tos nor %s is there" % CONFIGFS
    output = run(["cma_roce_tos", "-d", device])
    if output.rc != 0:
        return None, "cma_roce_tos: %s" % output.complaint
    try:
        return cma_roce.parse_tos(output.out), ""
    except ToolOutputError as error:
        return None, "cma_roce_tos: %s" % error


def read_tclass(device: str) -> Tuple[Optional[int], str]:
    """tc/1/traffic_class of NVIDIA's driver; an empty file means unset, which is not 0."""
    text = read_text(tclass_path(device)) if device else None
    if text is None:
        return None, "%s is not there (this driver has no such setting)" % tclass_path(device)
    try:
        return cma_roce.parse_traffic_class(text), ""
    except ToolOutputError as error:
        return None, "%s: %s" % (tclass_path(device), error)


def commands(interface: Dict[str, Any], after: State) -> List[Command]:
    """MTU and pause first: a driver may rebuild its receive buffers when they change."""
    netdev, device = interface["netdev"], interface.get("rdma") or ""
    calls: List[Command] = []
    if "mtu" in after:
        calls.append(argv("ip", "link", "set", "dev", netdev, "mtu", after["mtu"]))
    if "pause" in after:
        words = [word for side, on in sorted(after["pause"].items()) for word in (side, "on" if on else "off")]
        calls.append(argv("ethtool", "-A", netdev, *words))
    return calls + marking(netdev, device, after)


def marking(netdev: str, device: str, after: State) -> List[Command]:
    calls: List[Command] = []
    for point, name in (("roce_np", "ecn_np"), ("roce_rp", "ecn_rp")):
        for priority, on in sorted((after.get(name) or {}).items()):
            calls.append(write(ecn_path(netdev, point, "enable/%d" % priority), int(on)))
    for name, leaf in (("cnp_dscp", "cnp_dscp"), ("cnp_prio", "cnp_802p_prio")):
        if name in after:
            calls.append(write(ecn_path(netdev, "roce_np", leaf), after[name]))
    if "cm_tos" in after:
        if find("cma_roce_tos") is not None:
            calls.append(argv("cma_roce_tos", "-d", device, "-t", after["cm_tos"]))
        else:
            calls.append(argv("mkdir", "-p", "%s/%s" % (CONFIGFS, device)))
            calls.append(write(tos_path(device), after["cm_tos"]))
    if "tclass" in after:
        calls.append(write(tclass_path(device), after["tclass"]))
    return calls
