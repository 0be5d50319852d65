"""Keeps a lab host away from the machine's own devices.

A host keeps CAP_SYS_ADMIN, so it can mount devtmpfs or a file system that holds device nodes. A BPF program on the
host's cgroup2 decides every open of a device node instead: the usual character devices and the host's own loop
devices, nothing else. The cgroup is above the one the host sees, so nothing inside can take the program away.
Kernel interface: bpf(2), BPF_PROG_TYPE_CGROUP_DEVICE, include/uapi/linux/bpf.h.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.types.errors import KvctlError

BLOCK, CHARACTER = 1, 2  # BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_DEV_CHAR
LOOP_MAJOR = 7
PTS_MAJORS = range(136, 144)  # Documentation/admin-guide/devices.txt: Unix98 pseudo terminals

PROG_LOAD, PROG_ATTACH = 5, 8
PROG_TYPE_CGROUP_DEVICE = 15
ATTACH_TYPE_DEVICE = 6
ALLOW_MULTI = 2
SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}


@dataclass(frozen=True, slots=True)
class Rule:
    """Allow one device; `minor` None means every minor of that major."""

    kind: int
    major: int
    minor: int | None = None


USUAL = (
    *(Rule(CHARACTER, 1, minor) for minor in (3, 5, 7, 8, 9)),  # null zero full random urandom
    *(Rule(CHARACTER, 5, minor) for minor in (0, 1, 2)),  # tty console ptmx
    *(Rule(CHARACTER, major) for major in PTS_MAJORS),
)


def rules(loop_minors: Sequence[int]) -> tuple[Rule, ...]:
    return (*USUAL, *(Rule(BLOCK, LOOP_MAJOR, minor) for minor in loop_minors))


def instruction(op: int, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One struct bpf_insn."""
    return struct.pack("<BBhi", op, (src << 4) | dst, offset, value)


def program(allowed: Sequence[Rule]) -> bytes:
    """Return 1 for a device that a rule allows, else 0. Input: struct bpf_cgroup_dev_ctx."""
    load, low_half, skip_unless, move, leave = 0x61, 0x54, 0x55, 0xB7, 0x95
    code = instruction(load, 2, 1, 0) + instruction(low_half, 2, 0, 0, 0xFFFF)  # r2 = kind
    code += instruction(load, 3, 1, 4) + instruction(load, 4, 1, 8)  # r3 = major, r4 = minor
    for rule in allowed:
        tests = [(2, rule.kind), (3, rule.major), *([(4, rule.minor)] if rule.minor is not None else [])]
        for number, (register, wanted) in enumerate(tests):
            code += instruction(skip_unless, register, 0, len(tests) - number + 1, wanted)
        code += instruction(move, 0, 0, 0, 1) + instruction(leave)
    return code + instruction(move, 0, 0, 0, 0) + instruction(leave)


def bpf(command: int, attributes: bytes) -> int:
    machine = platform.machine()
    if machine not in SYSCALL:
        raise refused(f"the number of bpf(2) on {machine} is not known")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = libc.syscall(SYSCALL[machine], command, buffer, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def load(code: bytes) -> int:
    """Load the program; returns its file descriptor. OSError carries the verifier's log."""
    text = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    log = ctypes.create_string_buffer(65536)
    attributes = struct.pack(
        "<IIQQIIQII", PROG_TYPE_CGROUP_DEVICE, len(code) // 8, ctypes.addressof(text), ctypes.addressof(licence),
        1, len(log), ctypes.addressof(log), 0, 0,
    )  # fmt: skip
    try:
        return bpf(PROG_LOAD, attributes + bytes(64))
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} {log.value.decode(errors='replace')}".strip()) from error


def attach(cgroup: Path, loop_minors: Sequence[int]) -> None:
    """Guard a host's cgroup2 before anything runs in it; KV-LAB-007 and no host when that fails."""
    try:
        prog = load(program(rules(loop_minors)))
        directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        try:
            bpf(PROG_ATTACH, struct.pack("<IIII", directory, prog, ATTACH_TYPE_DEVICE, ALLOW_MULTI) + bytes(16))
        finally:
            os.close(directory)
            os.close(prog)
    except OSError as error:
        raise refused(str(error)) from error


def refused(why: str) -> KvctlError:
    return KvctlError(
        "KV-LAB-007",
        "cannot keep lab hosts away from this machine's disks, so none is started",
        why=why,
        fix="use a kernel with CONFIG_CGROUP_BPF=y",
    )
