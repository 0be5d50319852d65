"""Stand-in for mstflint and flint (Mellanox/mstflint, flint/subcommands.cpp): query, burn, verify.

A lab image is a small file: the line MAGIC, one line of JSON, then padding whose SHA-256 that line names.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from . import store

MAGIC = b"KVCTL-LAB-FIRMWARE 1\n"
VALUED = ("-d", "--device", "-i", "--image")
SILENT = ("-y", "--yes", "-qq", "-q", "-s", "--silent", "-ocr", "--override_cache_replacement")
COMMANDS = {"q": "query", "query": "query", "b": "burn", "burn": "burn", "v": "verify", "verify": "verify"}


class Refused(Exception):
    """Printed after -E-; exit code 1."""


def image(path: str) -> dict[str, Any]:
    """What an image says of itself: psid, version, product, date, rom."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise Refused("Cannot open Image: %s. %s." % (path, error.strerror)) from None
    head, _, body = content[len(MAGIC) :].partition(b"\n")
    try:
        if not content.startswith(MAGIC):
            raise ValueError
        header: dict[str, Any] = json.loads(head)
        if hashlib.sha256(body).hexdigest() != header["sha256"]:
            raise ValueError
    except (ValueError, KeyError):
        why = "Failed to get the FW image type: unknown image signature."
        raise Refused("Cannot open Image: %s. %s" % (path, why)) from None
    return header


def parse(argv: list[str]) -> tuple[dict[str, str], set[str], str]:
    values: dict[str, str] = {}
    flags: set[str] = set()
    command = ""
    words = iter(argv)
    for word in words:
        if word in VALUED:
            values[word.lstrip("-")[0]] = next(words, "")
        elif word in SILENT:
            flags.add(word)
        elif word.startswith("-"):
            raise Refused("Invalid switch: %s. For more information please refer to the tool's help." % word)
        elif not command:
            if word not in COMMANDS:
                raise Refused('Command "%s" is unknown.' % word)
            command = COMMANDS[word]
        elif not (command == "query" and word == "full"):
            raise Refused('Command "%s" does not take the argument %s.' % (command, word))
    if not command:
        raise Refused("No command found in command line.")
    return values, flags, command


def row(name: str, value: str) -> str:
    return "%-23s%s" % (name + ":", value)


def query(nic: dict[str, Any]) -> str:
    """The running version has a row only while it differs from the one on flash."""
    firmware = nic["firmware"]
    lines = [row("Image type", nic["image_type"]), row("FW Version", firmware["stored"])]
    if firmware["running"] != firmware["stored"]:
        lines.append(row("FW Version(Running)", firmware["running"]))
    lines += [row("FW Release Date", firmware["date"]), row("Product Version", firmware["stored"])]
    for i, (kind, version, cpu) in enumerate(firmware["rom"]):
        text = "type=%s version=%s cpu=%s" % (kind, version, cpu)
        lines.append(row("Rom Info", text) if i == 0 else " " * 23 + text)
    lines.append(row("Description", "UID                GuidsNumber"))
    lines.append(row("Base GUID", "%-24s%d" % (nic["base_guid"], nic["uid_count"])))
    lines.append(row("Base MAC", "%-24s%d" % (nic["base_mac"], nic["uid_count"])))
    lines += [row("Image VSD", "N/A"), row("Device VSD", "N/A"), row("PSID", nic["psid"])]
    lines.append(row("Security Attributes", nic["security"]))
    return "\n".join(lines) + "\n"


def version_key(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdecimal()]


def burn(nic: dict[str, Any], path: str, yes: bool) -> str:
    """Put an image on flash; it runs after a reset or a reboot. Never across PSIDs."""
    new = image(path)
    firmware = nic["firmware"]
    lines = ["", "    Current FW version on flash:  " + firmware["stored"]]
    lines.append("    New FW version:               " + new["version"])
    sys.stdout.write("\n".join(lines) + "\n")
    if new["psid"] != nic["psid"]:
        sys.stdout.write("\n")
        text = "PSID mismatch. The PSID on flash (%s) differs from the PSID in the given image (%s)."
        raise Refused(text % (nic["psid"], new["psid"]))
    if version_key(firmware["stored"]) >= version_key(new["version"]):
        word = "the same as" if firmware["stored"] == new["version"] else "older than"
        print("\n    Note: The new FW version is %s the current FW version on flash." % word)
        if not yes:
            raise Refused("Aborted by user")
        print("\n Do you want to continue ? (y/n) [n] : y")
    firmware.update(stored=new["version"], date=new["date"], rom=new["rom"])
    done = ["", "FSMST_INITIALIZE -   OK", "Writing Boot image component -   OK"]
    return "\n".join([*done, "-I- To load new FW run mstfwreset or reboot machine."]) + "\n"


def verify(name: str, path: str) -> str:
    if path:
        image(path)
    return "\n     %s image is OK (%s)\n\n-I- FW image verification succeeded. Image is bootable.\n\n" % ("FS4", name)


def run(argv: list[str]) -> str:
    values, flags, command = parse(argv)
    device, path = values.get("d", ""), values.get("i", "")
    if command == "query" and path and not device:
        header = image(path)
        rows = (("Image type", "FS4"), ("FW Version", header["version"]), ("PSID", header["psid"]))
        return "".join(row(*pair) + "\n" for pair in rows)
    if command == "burn" and not path:
        raise Refused('Command "burn" requires both image and device to be specified.')
    if not device:
        if command == "verify" and path:
            return verify(path, path)
        raise Refused("Please specify Device.")
    with store.changing() as state:
        nic = store.nic_named(state, device)
        if nic is None:
            raise Refused("Cannot open Device: %s. No such file or directory. MFE_CR_ERROR" % device)
        if command == "query":
            return query(nic)
        if command == "verify":
            return verify(device, "")
        return burn(nic, path, bool(flags & {"-y", "--yes"}))


def main(argv: list[str]) -> int:
    try:
        text = run(argv)
    except Refused as refused:
        print("-E- %s" % refused)
        return 1
    sys.stdout.write(text)
    return 0
