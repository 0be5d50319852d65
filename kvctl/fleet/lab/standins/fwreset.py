"""Stand-in for mstfwreset and mlxfwreset (Mellanox/mstflint, small_utils/mstfwreset.py): query and reset."""

from __future__ import annotations

import sys
from typing import Any

from . import store
from .restart import restart

LEVELS = (
    ("0", 'Driver, PCI link, network link will remain up ("live-Patch")', "Not Supported"),
    ("1", 'Only ARM side will not remain up ("Immediate reset").', "Not Supported"),
    ("3", "Driver restart and PCI reset", "Supported"),
    ("4", "Warm Reboot", "Supported"),
)
TYPES = (
    ("0", "Full chip reset", "Supported"),
    ("1", "Phy-less reset (keep network port active during reset)", "Not Supported"),
    ("2", "NIC only reset (for SoC devices)", "Not Supported"),
    ("3", "ARM only reset", "Not Supported"),
    ("4", "ARM OS shut down", "Not Supported"),
)
VALUED = {"-d": "d", "-l": "l", "-t": "t", "-m": "m", "--sync": "s"}
VALUED.update({"--device": "d", "--level": "l", "--type": "t", "--method": "m"})


class Refused(Exception):
    """Printed after -E-; exit code 1."""


def parse(argv: list[str]) -> tuple[dict[str, str], bool, str]:
    values: dict[str, str] = {}
    yes, command = False, ""
    words = iter(argv)
    for word in words:
        if word in VALUED:
            values[VALUED[word]] = next(words, "")
        elif word in ("-y", "--yes"):
            yes = True
        elif word in ("query", "q", "reset", "r") and not command:
            command = {"q": "query", "r": "reset"}.get(word, word)
        else:
            raise Refused("unrecognized arguments: %s." % word)
    if "d" not in values or not command:
        raise Refused("the following arguments are required: -d/--device, command.")
    return values, yes, command


def query_text() -> str:
    lines = ["Reset-levels:"]
    for number, text, supported in LEVELS:
        lines.append("%s: %-62s-%-14s%s" % (number, text, supported, "(default)" if number == "3" else ""))
    lines += ["", "Reset-types (relevant only for reset-levels 1,3,4):"]
    for number, text, supported in TYPES:
        lines.append("%s: %-62s-%-14s%s" % (number, text, supported, "(default)" if number == "0" else ""))
    lines += ["", "Reset-sync (relevant only for reset-level 3):"]
    lines.append("%s: %-62s-%-14s%s" % ("0", "Tool is the owner", "Supported", "(default)"))
    lines.append("%s: %-62s-%-14s%s" % ("1", "Driver is the owner", "Supported", ""))
    return "\n".join(lines) + "\n"


def reset(nic: dict[str, Any], values: dict[str, str], yes: bool) -> str:
    level = values.get("l", "3")
    found = next((entry for entry in LEVELS if entry[0] == level), None)
    if found is None or found[2] != "Supported":
        raise Refused("Reset-level '%s' is not supported in the current state of this device." % level)
    lines = ["The reset level for device, %s is:\n" % values["d"], "%s: %s" % (found[0], found[1])]
    if not yes:
        raise Refused("Aborted by user.")
    lines.append("Continue with reset?[y/N] y")
    if level == "4":
        lines.append("-I- %-40s-Done" % "Sending Reset Command To Fw")
        return "\n".join([*lines, "-I- Please reboot machine."]) + "\n"
    for stage in ("Sending Reset Command To Fw", "Stopping Driver", "Resetting PCI", "Starting Driver"):
        lines.append("-I- %-40s-Done" % stage)
    restart(nic)
    return "\n".join([*lines, "-I- FW was loaded successfully."]) + "\n"


def main(argv: list[str]) -> int:
    try:
        values, yes, command = parse(argv)
        with store.changing() as state:
            nic = store.nic_named(state, values["d"])
            if nic is None:
                raise Refused("Device '%s' doesn't exist." % values["d"])
            text = query_text() if command == "query" else reset(nic, values, yes)
    except Refused as refused:
        print("-E- %s" % refused)
        return 1
    sys.stdout.write(text)
    return 0
