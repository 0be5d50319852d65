"""Stand-in for nvme (linux-nvme/nvme-cli 2.13): list, list-subsys, id-ctrl, id-ns, smart-log, format.

The data of a namespace is real: a loop device. `format` discards it and sets the loop's block size, as the drive would.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from typing import Any

from . import nvme_print, store

BLKDISCARD = 0x1277  # include/uapi/linux/fs.h
BLKGETSIZE64 = 0x80081272
LOOP_SET_BLOCK_SIZE = 0x4C09  # include/uapi/linux/loop.h
ALL_NAMESPACES = 0xFFFFFFFF
FORMAT_SECONDS = 10  # the tool waits this long for Ctrl-C unless --force is given
INVALID_OPCODE = (
    "NVMe status: Invalid Command Opcode: "
    "A reserved coded value or an unsupported value in the command opcode field(0x1)"
)
INVALID_NAMESPACE = (
    "NVMe status: Invalid Namespace or Format: The namespace or the format of that namespace is invalid(0xb)"
)
INVALID_FORMAT = "NVMe status: Invalid Format: The LBA Format specified is not supported(0x10a)"
USAGE = "nvme-2.13\nusage: nvme <command> [<device>] [<args>]\n"


class Refused(Exception):
    """The text goes to stderr; exit code 1."""


def parse(argv: list[str], valued: dict[str, str], flags: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Options as getopt_long takes them: --name=value, --name value, -n value, -nvalue."""
    values: dict[str, str] = {}
    devices: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in valued:
            values[valued[name]] = value if equals else next(words, "")
        elif word in flags:
            values[flags[word]] = "1"
        elif not word.startswith("-"):
            devices.append(word)
        elif word[:2] in valued and len(word) > 2 and not word.startswith("--"):
            values[valued[word[:2]]] = word[2:].lstrip("=")
        else:
            raise Refused("nvme: unrecognized option '%s'" % word)
    return values, devices


FORM = {"-o": "form", "--output-format": "form"}
HUMAN = {"-H": "human", "--human-readable": "human", "-v": "human", "--verbose": "human"}
NAMESPACE = {"-n": "nsid", "--namespace-id": "nsid"}


def form_of(values: dict[str, str]) -> str:
    form = values.get("form", "normal")
    if form not in ("normal", "json"):
        raise Refused("Invalid output format")
    return form


def device(state: dict[str, Any], devices: list[str]) -> dict[str, Any]:
    if not devices:
        raise Refused("Could not find the device. Please specify one.\n" + USAGE)
    drive = store.drive_named(state, devices[0])
    if drive is None or drive.get("gone"):
        raise Refused("%s: No such file or directory" % devices[0])
    return drive


def present(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [with_size(drive) for drive in state["drives"] if not drive.get("gone")]


def with_size(drive: dict[str, Any]) -> dict[str, Any]:
    """The drive with the size in blocks of its format, and how many of them the loop's file really holds."""
    lbaf = drive["formats"][drive["flbas"] & 0xF]
    size = drive["capacity"] >> lbaf["ds"]
    used = drive.get("used_bytes")
    return {**drive, "blocks": size, "used": size if used is None else used >> lbaf["ds"]}


def cmd_list(argv: list[str]) -> str:
    values, _ = parse(argv, FORM, {"-v": "verbose", "--verbose": "verbose"})
    state = store.load()
    if form_of(values) == "json":
        return nvme_print.list_json(state, present(state))
    return nvme_print.list_text(present(state))


def cmd_list_subsys(argv: list[str]) -> str:
    values, _ = parse(argv, FORM, {"-v": "verbose", "--verbose": "verbose"})
    state = store.load()
    if form_of(values) == "json":
        return nvme_print.subsystems_json(state, present(state))
    return nvme_print.subsystems_text(state, present(state))


def cmd_id_ctrl(argv: list[str]) -> str:
    values, devices = parse(argv, FORM, HUMAN)
    drive = device(store.load(), devices)
    return nvme_print.id_ctrl(drive, form_of(values) == "json")


def cmd_id_ns(argv: list[str]) -> str:
    values, devices = parse(argv, {**FORM, **NAMESPACE}, {**HUMAN, "-f": "force", "--force": "force"})
    drive = with_size(device(store.load(), devices))
    nsid = int(values.get("nsid", "0"), 0) or drive["nsid"]
    if nsid != drive["nsid"]:
        raise Refused(INVALID_NAMESPACE)
    if form_of(values) == "json":
        return nvme_print.id_ns_json(drive)
    return nvme_print.id_ns_text(drive, "human" in values)


def cmd_smart_log(argv: list[str]) -> str:
    values, devices = parse(argv, {**FORM, **NAMESPACE}, HUMAN)
    drive = device(store.load(), devices)
    return nvme_print.smart_log(drive, form_of(values) == "json", "human" in values)


def wanted_format(drive: dict[str, Any], values: dict[str, str]) -> int:
    if "lbaf" in values and "bs" in values:
        raise Refused("Invalid specification of both LBAF and Block Size, please specify only one")
    if "bs" in values:
        size = int(values["bs"])
        for index, lbaf in enumerate(drive["formats"]):
            if 1 << lbaf["ds"] == size and lbaf["ms"] == 0:
                return index
        text = "LBAF corresponding to given block size %d not found\n" % size
        raise Refused(text + "Please correct block size, or specify LBAF directly")
    return int(values["lbaf"], 0) if "lbaf" in values else int(drive["flbas"]) & 0xF


def open_exclusive(drive: dict[str, Any], force: bool) -> int:
    """A descriptor of the namespace's block device; refused while it is mounted or held."""
    path = "/dev/" + drive["namespace"]
    try:
        return os.open(path, os.O_RDWR | os.O_EXCL)
    except OSError as error:
        if error.errno == 16:
            text = "Failed to open %s.\nNamespace is currently busy." % drive["namespace"]
            raise Refused(text if force else text + "\nUse the force [--force] option to ignore that.") from None
        raise Refused("%s: %s" % (path, error.strerror)) from None


def format_data(drive: dict[str, Any], lba: int, force: bool) -> None:
    descriptor = open_exclusive(drive, force)
    try:
        size = struct.unpack("<Q", fcntl.ioctl(descriptor, BLKGETSIZE64, bytes(8)))[0]
        fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("<QQ", 0, size))
        fcntl.ioctl(descriptor, LOOP_SET_BLOCK_SIZE, lba)
    except OSError as error:
        raise Refused("format: %s" % error.strerror) from None
    finally:
        os.close(descriptor)


def cmd_format(argv: list[str]) -> str:
    valued = {**NAMESPACE, "-l": "lbaf", "--lbaf": "lbaf", "-s": "ses", "--ses": "ses"}
    valued.update({"-b": "bs", "--block-size": "bs", "-i": "pi", "--pi": "pi"})
    valued.update({"-p": "pil", "--pil": "pil", "-m": "ms", "--ms": "ms"})
    values, devices = parse(argv, valued, {"-f": "force", "--force": "force", "-r": "reset", "--reset": "reset"})
    drive = device(store.load(), devices)
    index, ses = wanted_format(drive, values), int(values.get("ses", "0"), 0)
    if ses > 7 or index > 63:
        raise Refused("invalid secure erase settings:%d" % ses if ses > 7 else "invalid lbaf:%d" % index)
    if not drive["id_ctrl"]["oacs"] & 2:
        raise Refused(INVALID_OPCODE)
    if index >= len(drive["formats"]) or ses > 2 or (ses == 2 and not drive["id_ctrl"]["fna"] & 4):
        raise Refused(INVALID_FORMAT)
    force = "force" in values
    if not force:
        name = os.path.basename(devices[0])
        sys.stderr.write("You are about to format %s, namespace %#x.\n" % (name, drive["nsid"]))
        sys.stderr.write("WARNING: Format may irrevocably delete this device's data.\n")
        sys.stderr.write("You have 10 seconds to press Ctrl-C to cancel this operation.\n\n")
        sys.stderr.write("Use the force [--force] option to suppress this warning.\n")
        time.sleep(FORMAT_SECONDS)
        sys.stderr.write("Sending format operation ...\n")
    with store.changing() as state:
        drive = device(state, devices)
        format_data(drive, 1 << drive["formats"][index]["ds"], force)
        drive["flbas"] = index
    return "Success formatting namespace:%x\n" % drive["nsid"]


COMMANDS = {
    "list": cmd_list,
    "list-subsys": cmd_list_subsys,
    "id-ctrl": cmd_id_ctrl,
    "id-ns": cmd_id_ns,
    "smart-log": cmd_smart_log,
    "format": cmd_format,
}


def main(argv: list[str]) -> int:
    if argv[:1] in (["version"], ["--version"]):
        print("nvme version 2.13 (git 2.13)\nlibnvme version 1.13 (git 1.13)")
        return 0
    command = COMMANDS.get(argv[0]) if argv else None
    if command is None:
        sys.stderr.write("ERROR: Invalid sub-command '%s'\n" % argv[0] if argv else USAGE)
        return 1
    try:
        sys.stdout.write(command(argv[1:]))
    except (Refused, ValueError) as refused:
        sys.stderr.write("%s\n" % refused)
        return 1
    return 0
