"""The RDMA port of one interface."""

import ipaddress
import re
from typing import Any

from kvctl.fleet.facts.raw import Raw, convert, first, integer
from kvctl.types.facts import Fact, Gid, RdmaPort, unknown

_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec\b")
_NUMBERED = re.compile(r"\d+:\s*(\S.*)")


def rdma_port(raw: Raw, netdev: str, driver: str) -> RdmaPort:
    """The port that carries `netdev`; every field gives the reason when the interface has no RDMA device."""
    device = device_of(raw, netdev)
    if device is None:
        return _without(unknown("the interface has no RDMA device", f"/sys/class/net/{netdev}/device/infiniband"))
    port = _port_of(raw, device, netdev)
    if port is None:
        return _without(unknown(f"no port of {device} names {netdev}", f"/sys/class/infiniband/{device}"))
    where = ("rdma", device, "ports", port)
    layer = raw.text(*where, "link_layer")
    return RdmaPort(
        device=raw.fact(device, f"/sys/class/net/{netdev}/device/infiniband"),
        port=int(port),
        hca_type=raw.text("rdma", device, "hca_type"),
        state=convert(raw.text(*where, "state"), _after_number),
        phys_state=convert(raw.text(*where, "phys_state"), _after_number),
        link_layer=layer,
        rate=_rate(raw, where, driver),
        active_mtu=_active_mtu(raw, device, int(port)),
        gids=convert(raw.leaf(*where, "gids"), lambda rows: _gids(rows, layer.or_none())),
        tclass=_traffic_class(raw, where),
        cm_tos=first(raw.number(*where, "cm_tos", high=255), _cm(raw, device, "tos")),
        cm_mode=first(convert(raw.text(*where, "cm_mode"), _mode), _cm(raw, device, "mode")),
        node_guid=raw.text("rdma", device, "node_guid"),
        sys_image_guid=raw.text("rdma", device, "sys_image_guid"),
        hw_counters=raw.counters(*where, "hw_counters"),
    )


def device_of(raw: Raw, netdev: str) -> str | None:
    """The RDMA device of an interface: below its bus device, else the one whose GID table or tool row names it."""
    devices = raw.table("rdma")
    names = raw.at("net", netdev, "rdma")
    own = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    told = own + [
        name for name in sorted(devices) if any(_names_it(raw, name, port, netdev) for port in _ports(raw, name))
    ]
    links = raw.answer("rdma.link", "rdma", "parse_link", "rdma").or_none() or ()
    told += [link.device for link in links if link.netdev == netdev]
    pairs = raw.answer("ibdev2netdev", "ibdev2netdev", "parse", "ibdev2netdev").or_none() or ()
    told += [pair.rdma for pair in pairs if pair.netdev == netdev]
    return next((name for name in told if name in devices), None)


def _ports(raw: Raw, device: str) -> list[str]:
    return [port for port in raw.table("rdma", device, "ports") if port.isdecimal()]


def _names_it(raw: Raw, device: str, port: str, netdev: str) -> bool:
    rows = raw.leaf("rdma", device, "ports", port, "gids").or_none()
    return isinstance(rows, list) and any(isinstance(row, list) and len(row) == 4 and row[3] == netdev for row in rows)


def _without(why: Fact[Any]) -> RdmaPort:
    return RdmaPort(why, 1, *([why] * 13))


def _port_of(raw: Raw, device: str, netdev: str) -> str | None:
    """One device may have two ports (mlx4): the GID table names the interface of each, else dev_port counts from 0."""
    ports = _ports(raw, device)
    for port in ports:
        if _names_it(raw, device, port, netdev):
            return port
    if len(ports) == 1:
        return ports[0]
    index = raw.number("net", netdev, "sysfs", "dev_port", high=255).or_none()
    wanted = str(index + 1) if index is not None else ""
    return wanted if wanted in ports else None


def _after_number(text: str) -> str | None:
    match = _NUMBERED.fullmatch(text)
    return match.group(1) if match else None


def _rate(raw: Raw, where: tuple[str, ...], driver: str) -> Fact[float]:
    rate = raw.text(*where, "rate")
    if driver in ("ice", "i40e"):
        return unknown("irdma reports a rate that is not the link's", rate.source)

    def number(text: str) -> float | None:
        match = _RATE.match(text)
        return float(match.group(1)) if match else None

    return convert(rate, number)


def _active_mtu(raw: Raw, device: str, port: int) -> Fact[int]:
    """sysfs does not hold it; only a verbs query does."""
    answer = raw.answer("ibv_devinfo", "ibv_devinfo", "parse", "ibv_devinfo")

    def bytes_of(devices: Any) -> int | None:
        for one in devices if isinstance(devices, (tuple, list)) else ():
            if getattr(one, "name", None) != device:
                continue
            for entry in getattr(one, "ports", ()):
                if getattr(entry, "number", None) == port:
                    return integer(getattr(entry, "active_mtu", None), 256, 4096)
        return None

    return convert(answer, bytes_of, f"ibv_devinfo does not list port {port} of {device}")


def _gids(rows: Any, layer: str | None) -> tuple[Gid, ...] | None:
    if not isinstance(rows, list):
        return None
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 4 or not all(isinstance(item, str) for item in row[1:]):
            return None
        index, kind = integer(row[0], 0, 65535), _gid_type(row[2], layer)
        try:
            address = ipaddress.IPv6Address(row[1])
        except ValueError:
            return None
        if index is None or kind is None:
            return None
        mapped = address.ipv4_mapped
        found.append(Gid(index, f"::ffff:{mapped}" if mapped else str(address), kind, row[3]))
    return tuple(found)


def _gid_type(text: str, layer: str | None) -> str | None:
    if text == "RoCE v2":
        return text
    if text != "IB/RoCE v1":
        return None
    return {"Ethernet": "RoCE v1", "InfiniBand": "IB"}.get(layer or "")


def _traffic_class(raw: Raw, where: tuple[str, ...]) -> Fact[int]:
    leaf = raw.leaf(*where, "traffic_class")
    if leaf.known and leaf.value == "":
        return unknown("unset: each application's own class counts", leaf.source)

    return convert(raw.parsed(leaf, "cma_roce", "parse_traffic_class"), lambda value: integer(value, 0, 255))


def _mode(text: str) -> str | None:
    names = {"RoCE v2": "RoCE v2", "v2": "RoCE v2", "IB/RoCE v1": "RoCE v1", "RoCE v1": "RoCE v1", "v1": "RoCE v1"}
    return names.get(text)


def _cm(raw: Raw, device: str, what: str) -> Fact[Any]:
    answer = raw.answer(f"cma_roce.{what}:{device}", "cma_roce", "parse_" + what, "cma_roce_" + what)
    return convert(answer, _mode) if what == "mode" else convert(answer, lambda value: integer(value, 0, 255))
