"""Stand-ins for cma_roce_tos and cma_roce_mode (Mellanox/mlnx-tools, sbin): defaults of RDMA_CM, in configfs files."""

from __future__ import annotations

import getopt
import os
import sys

from . import store

FOLDER = "/sys/kernel/config/rdma_cm/%s/ports/%s"
MODES = {"1": "IB/RoCE v1", "2": "RoCE v2"}


def run(argv: list[str], program: str) -> int:
    letter, name = ("t", "default_roce_tos") if program == "cma_roce_tos" else ("m", "default_roce_mode")
    try:
        options = dict(getopt.getopt(argv, "hd:p:%s:" % letter)[0])
    except getopt.GetoptError as error:
        sys.stderr.write("/usr/bin/%s: illegal option -- %s\n" % (program, error.opt))
        return 1
    device, port = options.get("-d", "mlx5_0"), options.get("-p", "1")
    folder = FOLDER % (device, port)
    if not os.path.isdir(store.sys_path(folder)):
        print("Device %s port %s does not exist" % (device, port))
        return 1
    wanted = options.get("-" + letter)
    if wanted is not None:
        text = wanted if letter == "t" else MODES.get(wanted, "")
        if letter == "t" and (not wanted.isdecimal() or int(wanted) > 255):
            sys.stderr.write("/usr/bin/%s: line 103: echo: write error: Invalid argument\n" % program)
        elif text:
            store.write_sys(folder + "/" + name, text + "\n")
    prefix = store.load().get("cma_roce_mode_prefix", "") if letter == "m" else ""  # some versions name what they print
    sys.stdout.write(prefix + (store.read_sys(folder + "/" + name) or ""))
    return 0


def tos(argv: list[str]) -> int:
    return run(argv, "cma_roce_tos")


def mode(argv: list[str]) -> int:
    return run(argv, "cma_roce_mode")
