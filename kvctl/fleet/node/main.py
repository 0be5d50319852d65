"""kvnoded: one loop that turns events into checks of the owned class.

After a boot, a flap, a driver reload or a hot-plug the class is put back, since the device forgot it. A setting that
somebody changed on a live link is drift: it is remembered and shown, and left for `kvctl check` and a reviewed change.

`kvnoded serve` is the service. SIGTERM ends it at once, SIGHUP reads class.json again and checks everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from kvctl import __version__
from kvctl.fleet.node import metrics as prometheus
from kvctl.fleet.node import reapply, watch
from kvctl.fleet.node.store import History, StoreBusyError

SETTLE_SECONDS = 1.0  # a link that comes up reports several times; one check is enough
BUSY_SECONDS = 3.0
RETRY_SECONDS = 30.0
PERIOD_SECONDS = 300.0  # settings that others change make no event, so the class is read again now and then
FACTS_SECONDS = 60.0
USAGE = "usage: kvnoded [serve | facts | --version]\n"


class Node:
    """The state of the loop: which interfaces are due for a check, and what the last check of each gave."""

    def __init__(self, history: History, numbers: prometheus.Metrics) -> None:
        self.events: SimpleQueue[Any] = SimpleQueue()
        self.sources = watch.Sources()
        self.history = history
        self.numbers = numbers
        self.started = time.time()
        self.up: dict[str, bool] = {}
        self.due: dict[str, float] = {}
        self.lost: set[str] = set()  # due interfaces whose device may have forgotten its class
        self.outcomes: dict[str, reapply.Outcome] = {}
        self.problem = ""
        self.next_period = 0.0
        self.facts_lock = threading.Lock()
        self.facts_at = float("-inf")
        self.facts_cache: dict[str, Any] = {}

    def reload(self) -> None:
        """Read class.json again; every owned interface becomes due. A broken file is a problem that /healthz tells."""
        try:
            owned = reapply.owned()
            self.problem = ""
        except Exception as error:  # noqa: BLE001  told by /healthz; kvnoded goes on with what it knows
            self.problem = str(error)
            return
        for gone in set(self.outcomes) - set(owned):
            del self.outcomes[gone]
            self.lost.discard(gone)
            self.numbers.forget("kvctl_class_ok", interface=gone)
        self.due = dict.fromkeys(owned, time.monotonic())
        self.next_period = time.monotonic() + PERIOD_SECONDS
        for netdev in owned:
            self.numbers.add("kvctl_link_flaps_total", 0, interface=netdev)
            self.numbers.add("kvctl_class_drift_total", 0, interface=netdev)
            self.note_link(watch.read_link(netdev))

    def begin(self, boot: str) -> None:
        """Remember this start. The first one after a boot finds devices that forgot their class."""
        before = [event.get("boot") for event in self.history.read() if event["kind"] == "start"]
        if before and before[-1] != boot:
            self.lost.update(self.due)
        self.history.add("start", version=__version__, boot=boot)

    def touch(self, netdev: str, delay: float = SETTLE_SECONDS, *, lost: bool = False) -> None:
        self.due[netdev] = time.monotonic() + delay
        if lost:
            self.lost.add(netdev)

    def is_owned(self, netdev: str) -> bool:
        return netdev in self.due or netdev in self.outcomes

    def note_link(self, link: watch.Link) -> None:
        """Count a flap when a link that was up is not; an owned link that changed in any way is due for a check.

        A link that comes up again may come with the driver's defaults.
        """
        netdev = link.netdev
        physical = (watch.NET / netdev / "device").exists()
        if not (physical or self.is_owned(netdev) or netdev in self.up):
            return
        was, now = self.up.get(netdev), bool(link.up)
        self.up[netdev] = now
        self.numbers.set("kvctl_link_up", now, interface=netdev)
        if was and not now:
            self.numbers.add("kvctl_link_flaps_total", interface=netdev)
            self.history.add("flap", interface=netdev, gone=link.up is None)
        elif was is False and now:
            self.history.add("up", interface=netdev)
        if self.is_owned(netdev) and link.up is not None:
            self.touch(netdev, lost=was is False and now)

    def note_device(self, device: watch.Device) -> None:
        self.numbers.add("kvctl_device_events_total", subsystem=device.subsystem, action=device.action)
        if device.subsystem != "block":
            self.history.add("device", subsystem=device.subsystem, action=device.action, name=device.name)
        if device.subsystem in ("net", "infiniband") and device.action in ("add", "bind", "move"):
            for netdev in set(self.outcomes) | set(self.due):
                self.touch(netdev, lost=True)

    def check(self, netdev: str) -> None:
        outcome = reapply.ensure(netdev) if netdev in self.lost else reapply.look(netdev)
        del self.due[netdev]
        if outcome.state == "busy":
            self.touch(netdev, BUSY_SECONDS)
            return
        if outcome.ok:
            self.lost.discard(netdev)
        before = self.outcomes.get(netdev)
        self.outcomes[netdev] = outcome
        self.numbers.set("kvctl_class_ok", outcome.ok, interface=netdev)
        self.numbers.set("kvctl_class_last_check_timestamp_seconds", time.time(), interface=netdev)
        self.numbers.set("kvctl_class_check_duration_seconds", outcome.seconds, interface=netdev)
        known = outcome.state == "drifted" and before is not None and before.drift == outcome.drift
        if outcome.drift and not known:
            self.numbers.add("kvctl_class_drift_total", interface=netdev)
            if outcome.state != "drifted":
                self.numbers.add("kvctl_class_reapplied_total", interface=netdev, result=outcome.state)
            self.history.add("drift", interface=netdev, drift=outcome.drift, result=outcome.state, why=outcome.why)
        elif not outcome.ok and (before is None or before.why != outcome.why):
            self.history.add("failed", interface=netdev, why=outcome.why)
        if outcome.state == "failed":
            self.touch(netdev, RETRY_SECONDS)

    def health(self) -> dict[str, Any]:
        """What /healthz says; not ok when the class of an owned interface is not there or a watcher ended."""
        bad = {netdev: outcome.why for netdev, outcome in self.outcomes.items() if not outcome.ok}
        return {
            "ok": not (bad or self.problem or self.sources.lost),
            "version": __version__,
            "archive": archive_digest(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "links": self.sources.links,
            "devices": self.sources.devices,
            "class": {netdev: outcome.state for netdev, outcome in sorted(self.outcomes.items())},
            "problems": [f"{netdev}: {why}" for netdev, why in sorted(bad.items())]
            + [self.problem] * bool(self.problem),
        }

    def facts(self) -> dict[str, Any]:
        """The probe's raw document, at most FACTS_SECONDS old; one collection at a time."""
        from kvctl.fleet.probe.collect import collect

        with self.facts_lock:
            if time.monotonic() - self.facts_at > FACTS_SECONDS:
                self.facts_cache = collect()
                self.facts_at = time.monotonic()
            return self.facts_cache

    def step(self) -> bool:
        """Wait for the next event or due check and deal with it; False after a stop."""
        now = time.monotonic()
        if now >= self.next_period:
            self.reload()
        wake = min([self.next_period, *self.due.values()])
        try:
            event = self.events.get(timeout=max(0.0, wake - now)) if wake > now else self.events.get_nowait()
        except Empty:
            ready = [netdev for netdev, at in self.due.items() if at <= time.monotonic()]
            for netdev in ready:
                self.check(netdev)
            self.numbers.set("kvctl_history_events", self.history.lines)
            return True
        if isinstance(event, watch.Link):
            self.note_link(event)
        elif isinstance(event, watch.Device):
            self.note_device(event)
        elif event.name == "reload":
            self.reload()
        return not (isinstance(event, watch.Signal) and event.name == "stop")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def archive_digest() -> str:
    """SHA-256 of the archive that runs, read once; empty when kvnoded does not run from one."""
    global _digest
    if _digest is None:
        path = Path(sys.argv[0])
        _digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix == ".pyz" and path.is_file() else ""
    return _digest


_digest: str | None = None


def serve(address: tuple[str, int]) -> int:
    archive_digest()  # before an update can replace the file
    try:
        state = Path(os.environ.get("STATE_DIRECTORY", "/var/lib/kvctl"))  # systemd gives it
        node = Node(History(state / "flaps.jsonl"), prometheus.Metrics())
    except StoreBusyError as busy:
        sys.stderr.write(f"kvnoded: {busy}\n")
        return 1
    node.numbers.set("kvctl_noded_info", 1, version=__version__, archive=archive_digest()[:12])
    node.numbers.set("kvctl_noded_start_time_seconds", node.started)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing is open that a kill could break
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, lambda *_: node.events.put(watch.Signal("reload")))
    node.reload()
    node.begin(boot_id())
    prometheus.server(node.numbers, node.health, node.facts, address)
    watch.start(node.events, node.sources)
    while node.step():
        pass
    return 0


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words == ["--version"]:
        sys.stdout.write(f"kvnoded {__version__}\n")
        return 0
    if words == ["facts"]:
        from kvctl.fleet.probe.collect import collect

        sys.stdout.write(json.dumps(collect()) + "\n")
        return 0
    if words not in ([], ["serve"]):
        sys.stderr.write(USAGE)
        return 2
    host, _, port = os.environ.get("KVNODED_LISTEN", "127.0.0.1:9780").rpartition(":")
    return serve((host, int(port)))
