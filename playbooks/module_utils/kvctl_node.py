"""kvnoded on a node: its archive, its unit, its class; and what it answers."""

from __future__ import annotations

import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Dict, List, Optional

from . import kvctl_class
from .kvctl_files import read_text, write_atomic
from .kvctl_refused import Refused
from .kvctl_systemd import UNITS, active, systemctl

ARCHIVE = "/usr/lib/kvctl/kvnoded.pyz"
UNIT = "kvnoded.service"
ADDRESS = "http://127.0.0.1:9780"
# It sets network and RDMA settings through sysfs, configfs and the vendor's tools, hence no ProtectKernelTunables
# and the devices; files it may write are its own state and nothing else.
UNIT_TEXT = (
    """\
[Unit]
Description=kvctl node watch
After=network-pre.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 %s serve
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
TimeoutStopSec=10
StateDirectory=kvctl
RuntimeDirectory=kvctl
RuntimeDirectoryPreserve=yes
UMask=0077
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
LockPersonality=yes
MemoryDenyWriteExecute=no
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""
    % ARCHIVE
)


def digest_of(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return None


def ask(path: str, timeout: float = 5.0) -> Optional[Dict[str, Any]]:
    """kvnoded's JSON answer, also a 503's; None when it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(ADDRESS + path, timeout=timeout) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        return dict(json.loads(error.read()))
    except (OSError, ValueError):
        return None


def gaps(sha256: str, interfaces: List[Dict[str, Any]], entry: str) -> Dict[str, str]:
    """What is not as it must be, by subject, with what is there now."""
    found = {}
    have = digest_of(ARCHIVE)
    if have != sha256:
        found["archive"] = have or "absent"
    if (read_text(UNITS + "/" + UNIT) or "") != UNIT_TEXT.strip():
        found["unit"] = "other content" if os.path.exists(UNITS + "/" + UNIT) else "absent"
    if not os.path.islink("%s/multi-user.target.wants/%s" % (UNITS, UNIT)):
        found["enabled"] = "no"
    health = ask("/healthz") if active(UNIT) else None
    if health is None:
        found["running"] = "no"
    elif health.get("archive") != sha256 and "archive" not in found:
        found["running"] = "an older archive"
    found.update(kvctl_class.missing(interfaces, entry) if interfaces else {})
    return found


def refuse_unsettled(interfaces: List[Dict[str, Any]]) -> None:
    """Only a class that holds already is handed to kvnoded; anything else would change the network unconfirmed."""
    for interface in interfaces:
        planned = kvctl_class.plan(interface)
        if planned.diff:
            raise Refused(
                "KV-NODE-002", "%s differs from its class: %s" % (planned.netdev, planned.diff.after),
                "run the roce role first; it confirms the change",
            )  # fmt: skip


def install(archive: bytes, interfaces: List[Dict[str, Any]], found: Dict[str, str], entry: str) -> None:
    """Close the gaps and wait until kvnoded answers with this archive."""
    restart = bool({"archive", "unit", "running"} & set(found))
    if "archive" in found:
        write_atomic(ARCHIVE, archive)
    if "unit" in found:
        write_atomic(UNITS + "/" + UNIT, UNIT_TEXT.encode())
        systemctl("daemon-reload")
    if interfaces and kvctl_class.missing(interfaces, entry):
        kvctl_class.own(interfaces, entry)
        restart = True
    systemctl("enable", "--quiet", UNIT)
    if restart:
        systemctl("restart", UNIT)
    await_answer(hashlib.sha256(archive).hexdigest() if archive else "")


def await_answer(sha256: str, seconds: float = 30.0) -> Dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        health = ask("/healthz")
        if health is not None and health.get("archive") == (sha256 or health.get("archive")):
            return health
        if time.monotonic() > deadline:
            raise Refused("KV-NODE-003", "kvnoded does not answer on %s" % ADDRESS, "see journalctl -u kvnoded")
        time.sleep(0.1)


def remove(interfaces: List[Dict[str, Any]], dry: bool) -> List[str]:
    """Stop and uninstall kvnoded and disown the interfaces; returns what was there."""
    present = [path for path in (ARCHIVE, UNITS + "/" + UNIT) if os.path.exists(path)]
    owned = [interface["netdev"] for interface in interfaces if interface["netdev"] in kvctl_class.owned()]
    if not dry and (present or owned):
        if UNITS + "/" + UNIT in present:
            systemctl("disable", "--now", "--quiet", UNIT)
        for path in present:
            os.unlink(path)
        kvctl_class.disown(owned)
        systemctl("daemon-reload")
    return present + owned
