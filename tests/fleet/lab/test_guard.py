"""The device program, run as the kernel would run it: an interpreter for the six instructions it uses."""

import struct

import pytest

from kvctl.fleet.lab import guard


def verdict(code: bytes, kind: int, major: int, minor: int) -> int:
    context = struct.pack("<III", 2 << 16 | kind, major, minor)  # a read
    registers = [0] * 11
    at = 0
    while True:
        op, pair, offset, value = struct.unpack_from("<BBhi", code, at * 8)
        dst, at = pair & 15, at + 1
        if op == 0x61:
            registers[dst] = struct.unpack_from("<I", context, offset)[0]
        elif op == 0x54:
            registers[dst] &= value
        elif op == 0x55:
            at += offset if registers[dst] != value else 0
        elif op == 0xB7:
            registers[dst] = value
        elif op == 0x95:
            return registers[0]
        else:
            raise AssertionError(f"unexpected instruction {op:#x}")


@pytest.fixture(scope="module")
def code():
    return guard.program(guard.rules([3, 4]))


@pytest.mark.parametrize(
    "device", [(2, 1, 3), (2, 1, 5), (2, 1, 8), (2, 5, 2), (2, 136, 0), (2, 137, 9), (1, 7, 3), (1, 7, 4)]
)
def test_usual_devices_and_own_loops_open(code, device):
    assert verdict(code, *device) == 1


@pytest.mark.parametrize(
    "device",
    [
        (1, 7, 0),  # another lab's loop
        (1, 8, 0), (1, 254, 0), (1, 259, 0),  # sda, vda, nvme0n1
        (1, 1, 3),  # the numbers of null, as a block device
        (2, 7, 3),  # the numbers of a loop, as a character device
        (2, 10, 237),  # loop-control
        (2, 1, 1), (2, 1, 2),  # mem, kmem
        (2, 10, 232), (2, 240, 0),  # kvm, nvme0
    ],
)  # fmt: skip
def test_everything_else_is_refused(code, device):
    assert verdict(code, *device) == 0
