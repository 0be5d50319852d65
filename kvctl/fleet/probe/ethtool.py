"""What the ethtool ioctl gives without the ethtool command: driver, pause, FEC, private flags, counters.

Formats: linux/ethtool.h. All of these requests are allowed without privileges.
"""

from __future__ import annotations

import _socket
import fcntl
import struct
from array import array

from .tree import known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tree import Leaf

_SIOCETHTOOL = 0x8946
_GDRVINFO, _GPAUSEPARAM, _GSTRINGS, _GSTATS, _GPFLAGS, _GSSET_INFO, _GFECPARAM = 3, 0x12, 0x1B, 0x1D, 0x27, 0x37, 0x50
_STATS_SET, _FLAGS_SET = 1, 2
_MOST_STRINGS = 20000
_FEC = ((0x2, "auto"), (0x4, "off"), (0x8, "rs"), (0x10, "baser"), (0x20, "llrs"))


class Ethtool:
    """One socket for ethtool requests; every answer is a leaf."""

    def __init__(self) -> None:
        self._socket = _socket.socket(2, 2 | 0o2000000, 0)

    def close(self) -> None:
        self._socket.close()

    def driver(self, name: str) -> Leaf:
        """{"driver", "version", "firmware", "bus"}; "bus" is the PCI address of a PCI device."""

        def read() -> Any:
            data = self._ask(name, struct.pack("I192x", _GDRVINFO))
            texts = struct.unpack_from("32s32s32s32s", data, 4)
            return {key: _string(texts[place]) for place, key in enumerate(("driver", "version", "firmware", "bus"))}

        return _leaf(read, "ioctl ETHTOOL_GDRVINFO " + name)

    def pause(self, name: str) -> Leaf:
        def read() -> Any:
            _command, negotiated, rx, tx = struct.unpack("4I", self._ask(name, struct.pack("I12x", _GPAUSEPARAM)))
            return {"autoneg": bool(negotiated), "rx": bool(rx), "tx": bool(tx)}

        return _leaf(read, "ioctl ETHTOOL_GPAUSEPARAM " + name)

    def fec(self, name: str) -> Leaf:
        """The active FEC encodings: "rs", "baser", "off" ..., joined by commas."""

        def read() -> Any:
            active = struct.unpack("4I", self._ask(name, struct.pack("I12x", _GFECPARAM)))[1]
            return ",".join(text for bit, text in _FEC if active & bit) or None

        return _leaf(read, "ioctl ETHTOOL_GFECPARAM " + name)

    def counters(self, name: str) -> Leaf:
        def read() -> Any:
            names = self._strings(name, _STATS_SET)
            request = struct.pack("II", _GSTATS, len(names)) + b"\0" * (8 * len(names))
            values = struct.unpack_from(f"{len(names)}Q", self._ask(name, request), 8)
            # A name that stands twice with different values tells nothing.
            found: dict[str, int] = {}
            doubtful = {one for place, one in enumerate(names) if found.setdefault(one, values[place]) != values[place]}
            return {one: value for one, value in found.items() if one not in doubtful} or None

        return _leaf(read, "ioctl ETHTOOL_GSTATS " + name)

    def private_flags(self, name: str) -> Leaf:
        def read() -> Any:
            names = self._strings(name, _FLAGS_SET)
            if not names:
                return {}
            bits = struct.unpack("II", self._ask(name, struct.pack("II", _GPFLAGS, 0)))[1]
            return {flag: bool(bits >> place & 1) for place, flag in enumerate(names)}

        return _leaf(read, "ioctl ETHTOOL_GPFLAGS " + name)

    def _strings(self, name: str, which: int) -> list[str]:
        answer = self._ask(name, struct.pack("IIQI", _GSSET_INFO, 0, 1 << which, 0))
        supported, count = struct.unpack("8xQI", answer)
        if not supported or not count:
            return []
        count = min(count, _MOST_STRINGS)
        answer = self._ask(name, struct.pack("III", _GSTRINGS, which, count) + b"\0" * (32 * count))
        return [_string(answer[12 + 32 * i : 44 + 32 * i]) for i in range(count)]

    def _ask(self, name: str, request: bytes) -> bytes:
        # The kernel writes through a pointer in struct ifreq; the array keeps the memory in place.
        buffer = array("B", request)
        address, _length = buffer.buffer_info()
        fcntl.ioctl(self._socket.fileno(), _SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
        return buffer.tobytes()


def _leaf(read: Any, source: str) -> Leaf:
    try:
        value = read()
    except OSError as error:
        return unknown(why_not(error), source)
    return unknown("the driver does not say", source) if value is None else known(value, source)


def _string(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")
