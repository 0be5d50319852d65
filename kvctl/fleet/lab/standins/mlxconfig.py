"""Stand-in for mlxconfig and mstconfig (Mellanox/mstflint, mlxconfig/mlxcfg_ui.cpp): query, set."""

from __future__ import annotations

import re
import sys
from typing import Any

from . import store

NAMED = re.compile(r"(?P<name>.*)\((?P<number>\d+)\)$")
FOOTER = "The '*' shows parameters with next value different from default/current value."


class Refused(Exception):
    """Printed after -E-; exit code 1."""


def columns(cells: list[str]) -> str:
    return ("%-45s" % cells[0] + "".join("%-16s" % cell for cell in cells[1:])).rstrip()


def parameter(name: str, value: dict[str, Any], extended: bool) -> str:
    differs = value["next"] not in (value["default"],) or value["next"] != value["current"]
    shown = [value["default"], value["current"], value["next"]] if extended else [value["next"]]
    return columns([("*" if differs and extended else " ") + " " * 8 + name, *shown])


def query(number: int, nic: dict[str, Any], extended: bool, names: list[str]) -> str:
    unknown = [name for name in names if name not in nic["nvconfig"]]
    if unknown:
        raise Refused("The Device doesn't support %s parameter" % unknown[0])
    chosen = {name: value for name, value in nic["nvconfig"].items() if not names or name in names}
    lines = ["Device #%d:" % number, "----------", "", "%-16s%s" % ("Device type:", nic["config_type"])]
    if chosen:
        heads = ["Default", "Current", "Next Boot"] if extended else ["Next Boot"]
        lines.append(columns(["Configurations:", *heads]))
        rows = [parameter(name, value, extended) for name, value in chosen.items()]
        lines += rows
        if any(row.startswith("*") for row in rows):
            lines.append(FOOTER)
    return "\n".join(lines) + "\n"


def choice(name: str, value: dict[str, Any], wanted: str) -> str:
    """What the tool stores for the text after NAME=: a number, a name, or NAME(number) of a known choice."""
    choices = value.get("choices")
    if not choices:
        if not wanted.isdecimal():
            raise Refused('Bad value "%s" for parameter %s' % (wanted, name))
        return wanted
    for text in choices:
        match = NAMED.match(text)
        if match and wanted.upper() in (text.upper(), match["name"].upper(), match["number"]):
            return str(text)
    raise Refused('Bad value "%s" for parameter %s' % (wanted, name))


def apply(nic: dict[str, Any], assignments: list[str], yes: bool) -> str:
    lines = ["", "Device #1:", "----------", "", "%-16s%s" % ("Device type:", nic["config_type"])]
    lines.append(columns(["Configurations:", "Next Boot", "New"]))
    changes = {}
    for text in assignments:
        name, sign, wanted = text.partition("=")
        if not sign or name not in nic["nvconfig"]:
            raise Refused("The Device doesn't support %s parameter" % name)
        changes[name] = choice(name, nic["nvconfig"][name], wanted)
        lines.append(columns([" " * 9 + name, nic["nvconfig"][name]["next"], changes[name]]))
    if not yes:
        raise Refused("Aborted")
    for name, new in changes.items():
        nic["nvconfig"][name]["next"] = new
    lines += ["", " Apply new Configuration? (y/n) [n] : y", "Applying... Done!"]
    return "\n".join([*lines, "-I- Please reboot machine to load new configurations."]) + "\n"


def run(argv: list[str]) -> str:
    device, extended, yes, command = "", False, False, ""
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ("-d", "--dev"):
            device = next(words, "")
        elif word in ("-e", "--show_default"):
            extended = True
        elif word in ("-y", "--yes"):
            yes = True
        elif word.startswith("-"):
            raise Refused("Invalid switch: %s" % word)
        elif not command:
            command = {"q": "query", "s": "set"}.get(word, word)
        else:
            rest.append(word)
    if command not in ("query", "set"):
        raise Refused("No command was specified" if not command else "invalid command: %s" % command)
    with store.changing() as state:
        nics = state["nics"]
        if device:
            nic = store.nic_named(state, device)
            if nic is None:
                raise Refused("Failed to open device: %s. No such file or directory" % device)
            nics = [nic]
        if command == "query":
            return "\n".join(query(i, nic, extended, rest) for i, nic in enumerate(nics, 1))
        if len(nics) != 1 or not rest:
            raise Refused("set command requires a device and at least one parameter")
        return apply(nics[0], rest, yes)


def main(argv: list[str]) -> int:
    try:
        sys.stdout.write(run(argv))
    except Refused as refused:
        print("-E- %s" % refused)
        return 1
    return 0
