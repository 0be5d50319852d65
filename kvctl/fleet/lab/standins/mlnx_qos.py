"""Stand-in for mlnx_qos 1.2 (Mellanox/mlnx-tools, python/mlnx_qos): DCB class of a mlx5 interface.

The driver's part is simulated too: without a mapping the trust state is pcp, adding one makes it dscp, and PFC moves
its priorities to a buffer of their own until buffers are set by hand (drivers/net/ethernet/mellanox/mlx5/core).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from . import store

TSA = ("strict", "ets", "vendor")
LOSSY_BUFFER = 19872  # what is left for the lossy priorities when PFC takes its buffer


class Refused(Exception):
    """The tool ends with exit code 1 after printing this."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write("Usage: mlnx_qos -i <interface> [options]\n\nmlnx_qos: error: " + message + "\n")
        sys.exit(2)


def parser() -> Parser:
    options = Parser(prog="mlnx_qos", add_help=False, allow_abbrev=False)
    options.add_argument("-i", "--interface", dest="intf")
    options.add_argument("-f", "--pfc")
    options.add_argument("-p", "--prio_tc")
    options.add_argument("-s", "--tsa")
    options.add_argument("-t", "--tcbw", dest="tc_bw")
    options.add_argument("-r", "--ratelimit")
    options.add_argument("-d", "--dcbx")
    options.add_argument("--trust")
    options.add_argument("--dscp2prio", action="append")
    options.add_argument("--cable_len")
    options.add_argument("--prio2buffer")
    options.add_argument("--buffer_size")
    options.add_argument("-a", action="store_true", dest="printall")
    options.add_argument("args", nargs="*")
    return options


def numbers(text: str, low: int, high: int, what: str, short: str) -> list[int]:
    """Exactly eight numbers from a comma separated list, with the tool's own complaints."""
    values = []
    for item in text.split(","):
        try:
            value = int(item)
        except ValueError:
            raise Refused("Bad value for %s: invalid literal for int() with base 10: %r" % (what, item)) from None
        if not low <= value <= high:
            raise Refused("Bad value for %s: %d is not in the range %d..%d" % (what, value, low, high))
        values.append(value)
    if len(values) > 8:
        raise Refused("Too many items for " + what)
    if len(values) < 8:
        raise Refused(short + " list must have 8 items")
    return values


def set_pfc(qos: dict[str, Any], text: str) -> None:
    qos["pfc"] = numbers(text, 0, 1, "PFC", "pfc")
    if qos.get("manual_buffer"):
        return
    # The driver gives the lossless priorities buffer 1 and leaves the rest in buffer 0.
    total = sum(qos["buffer_size"])
    lossless = any(qos["pfc"])
    qos["prio_buffer"] = list(qos["pfc"])
    qos["buffer_size"] = [LOSSY_BUFFER, total - LOSSY_BUFFER] + [0] * 6 if lossless else [total] + [0] * 7


def set_trust(qos: dict[str, Any], trust: str) -> None:
    if trust not in ("dscp", "pcp"):
        raise Refused("Invalid trust state command. Refer to the help.")
    if trust == "pcp":
        qos["app"] = []
    elif not qos["app"]:
        # The tool adds dscp 0 to 63 in turn; the kernel lists the newest first.
        qos["app"] = [[dscp, dscp >> 3] for dscp in range(63, -1, -1)]


def set_mapping(qos: dict[str, Any], commands: list[str]) -> None:
    changes = []
    for command in commands:
        if command == "flush":
            changes.append(("flush", 0, 0))
            continue
        try:
            action, dscp, prio = command.split(",")
            change = (action, int(dscp), int(prio))
        except ValueError:
            raise Refused("Invalid dscp2prio command. Refer to the help.") from None
        if action not in ("set", "del") or not 0 <= change[1] <= 63 or not 0 <= change[2] <= 7:
            raise Refused("")
        changes.append(change)
    for action, number, priority in changes:
        if action == "flush":
            qos["app"] = []
        elif action == "set" and [number, priority] not in qos["app"]:
            qos["app"] = [[number, priority]] + [row for row in qos["app"] if row[0] != number]
        elif action == "del":
            if [number, priority] not in qos["app"]:
                raise Refused("dscp2prio command failed")
            qos["app"].remove([number, priority])


def set_buffers(qos: dict[str, Any], prio2buffer: str | None, buffer_size: str | None) -> None:
    total = sum(qos["buffer_size"])
    buffers = list(qos["prio_buffer"])
    sizes = list(qos["buffer_size"])
    if prio2buffer:
        for i, value in enumerate(part_list(prio2buffer, "prio2buffer", 7)):
            buffers[i] = value
    if buffer_size:
        for i, value in enumerate(part_list(buffer_size, "buffer_size", 1 << 31)):
            sizes[i] = value
    lossless = {buffers[p] for p in range(8) if qos["pfc"][p]}
    # The driver refuses more than the port has, and a lossless buffer below its xoff threshold.
    if sum(sizes) > qos.get("total_buffer", total) or any(sizes[b] < LOSSY_BUFFER for b in lossless):
        raise Refused("Buffers commands error")
    qos["prio_buffer"], qos["buffer_size"], qos["manual_buffer"] = buffers, sizes, True


def part_list(text: str, what: str, high: int) -> list[int]:
    items = text.split(",")
    if len(items) > 8:
        raise Refused("Too many items for " + what)
    try:
        values = [int(item) for item in items]
    except ValueError:
        raise Refused("Buffers commands error") from None
    if any(not 0 <= value <= high for value in values):
        raise Refused("Bad value for %s" % what)
    return values


def set_ets(qos: dict[str, Any], tsa: str | None, tc_bw: str | None, prio_tc: str | None) -> None:
    algorithms, shares = list(qos["tsa"]), list(qos["tc_bw"])
    if tsa:
        algorithms = tsa.split(",")
        if any(name not in TSA for name in algorithms):
            raise Refused("('Bad TSA value: ', %r)" % next(name for name in algorithms if name not in TSA))
        if len(algorithms) > 8:
            raise Refused("Too many items for TSA")
        if len(algorithms) < 8:
            raise Refused("tsa list must have 8 items")
    if tc_bw:
        shares = numbers(tc_bw, 0, 100, "ETS BW", "tcbw")
        if any(share and algorithms[i] != "ets" for i, share in enumerate(shares)):
            raise Refused("ETS BW for a strict/vendor TC must be 0")
    if prio_tc:
        qos["prio_tc"] = numbers(prio_tc, 0, 7, "UP => TC mapping", "prio_tc")
    shares = [share if algorithms[i] == "ets" else 0 for i, share in enumerate(shares)]
    if "ets" in algorithms and sum(shares) != 100:
        raise Refused("Netlink error: Bad value. see dmesg.")  # mlx5e: "Failed to validate ETS: BW sum is illegal"
    qos["tsa"], qos["tc_bw"] = algorithms, shares


def change(qos: dict[str, Any], options: argparse.Namespace) -> None:
    """Apply the options in the tool's own order."""
    if options.dcbx is not None:
        if options.dcbx not in ("os", "fw", "get"):
            raise Refused("Invalid dcbx mode command. Refer to the help.")
        if options.dcbx != "get":
            qos["dcbx"] = {"os": "OS", "fw": "Firmware"}[options.dcbx]
    if options.cable_len:
        if not options.cable_len.isdecimal() or int(options.cable_len) > 0xFFFF:
            raise Refused("Bad value for cable_len: %s" % options.cable_len)
        qos["cable_len"] = int(options.cable_len)
    if options.pfc:
        set_pfc(qos, options.pfc)
    if options.dscp2prio and options.trust:
        raise Refused("trust and dscp2prio commands cannot be used at the same time.")
    if options.dscp2prio:
        set_mapping(qos, options.dscp2prio)
    if options.trust:
        set_trust(qos, options.trust)
    if options.prio2buffer or options.buffer_size:
        set_buffers(qos, options.prio2buffer, options.buffer_size)
    if options.ratelimit:
        qos["ratelimit"] = numbers(options.ratelimit, 0, 1000000, "ratelimit", "ratelimit")
    if options.tsa or options.tc_bw or options.prio_tc:
        set_ets(qos, options.tsa, options.tc_bw, options.prio_tc)


def mapping_rows(app: list[list[int]]) -> list[str]:
    """Eight DSCPs a row; a priority with more has more rows."""
    rows = []
    for priority in range(8):
        codes = ["%02d," % dscp for dscp, prio in app if prio == priority]
        rows += ["\tprio:%d dscp:%s" % (priority, "".join(codes[i : i + 8])) for i in range(0, len(codes), 8)]
    return rows


def show(qos: dict[str, Any], printall: bool = False) -> str:
    lines = ["DCBX mode: %s controlled" % qos["dcbx"], "Priority trust state: " + ("dscp" if qos["app"] else "pcp")]
    if qos["app"]:
        lines += ["dscp2prio mapping:", *mapping_rows(qos["app"])]
    total = "" if qos.get("max_buffer_size") is None else "max_buffer_size=%d" % qos["max_buffer_size"]
    lines.append("Receive buffer size (bytes): " + "".join("%d," % size for size in qos["buffer_size"]) + total)
    lines += ["Cable len: %d" % qos["cable_len"], "PFC configuration:"]
    lines.append("\tpriority    0   1   2   3   4   5   6   7")
    lines.append("\tenabled     " + "".join("%d   " % on for on in qos["pfc"]))
    lines.append("\tbuffer      " + "".join("%d   " % buffer for buffer in qos["prio_buffer"]))
    used = range(8) if printall else sorted(set(qos["prio_tc"]))
    for tc in used:
        limit = qos["ratelimit"][tc]
        rate = "%.1f Gbps" % limit if limit > 0 else "unlimited"
        share = ", bw: %d%%" % qos["tc_bw"][tc] if qos["tsa"][tc] == "ets" else ""
        lines.append("tc: %d ratelimit: %s, tsa: %s%s" % (tc, rate, qos["tsa"][tc], share))
        lines += ["\t priority:  %d" % prio for prio in range(8) if qos["prio_tc"][prio] == tc]
    text = "\n".join(lines) + "\n"
    return text.replace("\t", " " * 8) if qos.get("tabs_expanded") else text


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    if options.args or options.intf is None:
        print("Bad arguments" if options.args else "Interface name is required")
        print("Usage: mlnx_qos -i <interface> [options]\n")
        return 1
    try:
        with store.changing() as state:
            nic = next((nic for nic in state["nics"] if nic["netdev"] == options.intf), None)
            if nic is None:
                raise Refused("Netlink error: No such device")
            change(nic["qos"], options)
            text = show(nic["qos"], options.printall)
    except Refused as refused:
        if str(refused):
            print(refused)
        return 1
    sys.stdout.write(text)
    return 0
