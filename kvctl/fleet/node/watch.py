"""Where events come from: links through pyroute2, devices through pyudev, each in a thread that feeds one queue.

Both libraries are the node's own packages and optional: what cannot be watched is said in `Sources`, and links are
then read from sysfs at an interval.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

NET = Path("/sys/class/net")
POLL_SECONDS = 2.0
AF_BRIDGE = 7
DEVICE_SUBSYSTEMS = ("net", "infiniband", "nvme", "block")


@dataclass(frozen=True)
class Link:
    """An interface as the kernel just reported it; `up` None when the interface is gone."""

    netdev: str
    up: bool | None
    mtu: int | None = None


@dataclass(frozen=True)
class Device:
    action: str  # add, remove, change, bind ...
    subsystem: str
    name: str


@dataclass(frozen=True)
class Signal:
    name: str  # "stop" | "reload"


@dataclass
class Sources:
    """What is watched, in words for /healthz."""

    links: str = "not started"
    devices: str = "not started"
    lost: list[str] = field(default_factory=list)


def start(events: Any, sources: Sources) -> None:
    """Start both watchers. They are daemon threads: a stop never waits for a kernel event."""
    guarded("links", watch_links, events, sources)
    guarded("devices", watch_devices, events, sources)


def guarded(name: str, watch: Callable[[Any, Sources], None], events: Any, sources: Sources) -> None:
    def body() -> None:
        try:
            watch(events, sources)
        except Exception as error:  # noqa: BLE001  a watcher that ends is reported by /healthz, never silently gone
            setattr(sources, name, f"stopped: {type(error).__name__}: {error}")
            sources.lost.append(name)

    threading.Thread(target=body, daemon=True, name=name).start()


def watch_links(events: Any, sources: Sources) -> None:
    try:
        from pyroute2 import IPRoute  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        sources.links = f"read every {POLL_SECONDS:g} s, because pyroute2 is not installed ({error})"
        poll_links(events)
        return
    with IPRoute() as route:
        route.bind()
        sources.links = "watched"
        while True:
            for message in route.get():
                link = link_of(message)
                if link is not None:
                    events.put(link)


def link_of(message: Any) -> Link | None:
    """A link message (rtnetlink(7)) as an event; None for any other, such as a bridge's about one of its ports."""
    kind = message.get("event")
    if kind not in ("RTM_NEWLINK", "RTM_DELLINK") or message.get("family") == AF_BRIDGE:
        return None
    attributes = dict(message.get("attrs", ()))
    name = attributes.get("IFLA_IFNAME")
    if not name:
        return None
    if kind == "RTM_DELLINK":
        return Link(name, None)
    return Link(name, attributes.get("IFLA_OPERSTATE") == "UP", attributes.get("IFLA_MTU"))


def poll_links(events: Any) -> None:
    known: dict[str, Link] = {}
    while True:
        seen = {path.name: read_link(path.name) for path in NET.iterdir()}
        for name, link in seen.items():
            if known.get(name) != link:
                events.put(link)
        for name in set(known) - set(seen):
            events.put(Link(name, None))
        known = seen
        time.sleep(POLL_SECONDS)


def read_link(netdev: str) -> Link:
    """The interface's state from sysfs; `up` None when it is not there."""
    try:
        state = (NET / netdev / "operstate").read_text().strip()
        mtu = int((NET / netdev / "mtu").read_text())
    except (OSError, ValueError):
        return Link(netdev, None)
    return Link(netdev, state == "up", mtu)


def watch_devices(events: Any, sources: Sources) -> None:
    try:
        import pyudev  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        sources.devices = f"not watched, because pyudev is not installed ({error})"
        return
    if not Path("/run/udev/control").exists():
        sources.devices = "not watched, because udevd does not run here (a container?)"
        return
    monitor = pyudev.Monitor.from_netlink(pyudev.Context())
    for subsystem in DEVICE_SUBSYSTEMS:
        monitor.filter_by(subsystem)
    monitor.start()
    sources.devices = "watched"
    for device in iter(monitor.poll, None):
        if device.action != "change":
            events.put(Device(device.action, device.subsystem, device.sys_name))
