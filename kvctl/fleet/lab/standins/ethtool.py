"""Stand-in for ethtool on the simulated card: -i, -S, -a, -A, --show-priv-flags. The rest goes to the real ethtool."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import store

REAL = "/usr/lib/kvctl-lab/real/ethtool"
OURS = {
    "-i": "driver", "--driver": "driver",
    "-S": "statistics", "--statistics": "statistics",
    "-a": "pause", "--show-pause": "pause",
    "-A": "set-pause", "--pause": "set-pause",
    "--show-priv-flags": "flags",
}  # fmt: skip
SUPPORTS = ("statistics", "test", "eeprom-access", "register-dump", "priv-flags")


def driver(nic: dict[str, Any]) -> str:
    about = nic["driver"]
    lines = ["driver: " + about["name"], "version: " + about["version"]]
    lines.append(("firmware-version: " + firmware(nic)).rstrip())
    if "expansion-rom-version" in about:
        lines.append("expansion-rom-version: " + about["expansion-rom-version"])
    lines.append("bus-info: " + nic["pci"])
    supported = about.get("supports", [])
    lines += ["supports-%s: %s" % (what, "yes" if what in supported else "no") for what in SUPPORTS]
    return "\n".join(lines) + "\n"


def firmware(nic: dict[str, Any]) -> str:
    running = nic["firmware"]["running"]
    return "%s (%s)" % (running, nic["psid"]) if running else ""


def statistics(nic: dict[str, Any]) -> str:
    if not nic["counters"]:
        return "no stats available\n"
    return "NIC statistics:\n" + "".join("     %s: %d\n" % item for item in nic["counters"].items())


def pause(nic: dict[str, Any]) -> str:
    settings = nic["pause"]
    lines = ["Pause parameters for %s:" % nic["netdev"]]
    names = (("Autonegotiate", "autoneg"), ("RX", "rx"), ("TX", "tx"))
    lines += ["%-16s%s" % (name + ":", settings[key]) for name, key in names]
    if settings["autoneg"] == "on":
        lines += ["RX negotiated:  %s" % settings["rx_negotiated"], "TX negotiated:  %s" % settings["tx_negotiated"]]
    return "\n".join(lines) + "\n"


def flags(nic: dict[str, Any]) -> str:
    width = max((len(name) for name in nic["priv_flags"]), default=0)
    rows = ["%-*s: %s" % (width, name, "on" if on else "off") for name, on in nic["priv_flags"].items()]
    return "\n".join(["Private flags for %s:" % nic["netdev"], *rows]) + "\n"


def set_pause(nic: dict[str, Any], words: list[str]) -> str | None:
    """None when done, else the complaint."""
    if not words or len(words) % 2:
        return "ethtool: bad command line argument(s)\nFor more information run ethtool -h"
    changes = dict(zip(words[::2], words[1::2]))  # noqa: B905
    if any(key not in ("autoneg", "rx", "tx") or value not in ("on", "off") for key, value in changes.items()):
        return "ethtool: bad command line argument(s)\nFor more information run ethtool -h"
    if changes.get("autoneg") == "on":
        return "Cannot set device pause parameters: Operation not supported"  # mlx5 has no pause negotiation
    nic["pause"].update(changes)
    return None


def main(argv: list[str]) -> int:
    action = OURS.get(argv[0]) if len(argv) > 1 else None
    if action is None:
        os.execv(REAL, ["ethtool", *argv])
    if action == "set-pause":
        with store.changing() as state:
            nic = next((nic for nic in state["nics"] if nic["netdev"] == argv[1]), None)
            if nic is not None:
                complaint = set_pause(nic, argv[2:])
                if complaint:
                    sys.stderr.write(complaint + "\n")
                return 1 if complaint else 0
    nic = next((nic for nic in store.load()["nics"] if nic["netdev"] == argv[1]), None)
    if nic is None or action == "set-pause" or len(argv) > 2:
        os.execv(REAL, ["ethtool", *argv])
    sys.stdout.write({"driver": driver, "statistics": statistics, "pause": pause, "flags": flags}[str(action)](nic))
    return 0
