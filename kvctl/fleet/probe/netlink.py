"""Netlink over a raw socket: links, addresses and Data Center Bridging, as the kernel has them.

Formats: linux/rtnetlink.h, linux/if_link.h, linux/dcbnl.h. The `_socket` extension is used because importing `socket`
costs 12 to 18 ms of processor time on every node.
"""

from __future__ import annotations

import _socket
import os
import struct

from .tree import known, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .tree import Leaf

_AF_NETLINK, _SOCK_RAW_CLOEXEC = 16, 3 | 0o2000000
_ERROR, _DONE = 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_GETLINK, _GETADDR, _GETDCB = 18, 22, 78
_TIMEOUT = 5.0

_OPERSTATE = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_TSA = {0: "strict", 1: "cbs", 2: "ets", 255: "vendor"}

Attributes = dict[int, bytes]


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of each attribute; stops at the first one that does not fit."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


class Netlink:
    """One NETLINK_ROUTE socket."""

    def __init__(self) -> None:
        self._socket = _socket.socket(_AF_NETLINK, _SOCK_RAW_CLOEXEC, 0)
        self._socket.settimeout(_TIMEOUT)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """Payloads of the answers to one request. Raises OSError with the kernel's errno."""
        self._sequence += 1
        self._socket.send(struct.pack("IHHII", 16 + len(body), kind, _REQUEST | flags, self._sequence, 0) + body)
        answers: list[bytes] = []
        while True:
            data = self._socket.recv(1 << 18)
            at = 0
            while at + 16 <= len(data):
                length, answer, _flags, sequence, _pid = struct.unpack_from("IHHII", data, at)
                if length < 16:
                    break
                payload = data[at + 16 : at + length]
                at += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                if answer == _ERROR:
                    code = -struct.unpack_from("i", payload)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return answers
                if answer == _DONE:
                    return answers
                answers.append(payload)
                if not flags & _DUMP:
                    return answers

    def links(self) -> dict[str, dict[str, Any]]:
        """Every link by name. Plain values; a field that the kernel did not send is not there."""
        found: dict[str, dict[str, Any]] = {}
        for payload in self.ask(_GETLINK, _DUMP, struct.pack("BxHiII", 0, 0, 0, 0, 0)):
            if len(payload) < 16:
                continue
            index = struct.unpack_from("i", payload, 4)[0]
            link = _link(dict(attributes(payload[16:])))
            name = link.pop("name", "")
            if name:
                link["index"] = index
                found[name] = link
        return found

    def addresses(self) -> dict[int, list[str]]:
        """Addresses with prefix length ("10.0.0.1/24") by link index."""
        found: dict[int, list[str]] = {}
        for payload in self.ask(_GETADDR, _DUMP, struct.pack("BBBBI", 0, 0, 0, 0, 0)):
            if len(payload) < 8:
                continue
            family, prefix, _flags, _scope, index = struct.unpack_from("BBBBI", payload)
            fields = dict(attributes(payload[8:]))
            # IFA_LOCAL is this side of a point-to-point address, IFA_ADDRESS the other.
            raw = fields.get(2) or fields.get(1)
            if raw is not None and (family, len(raw)) in ((2, 4), (10, 16)):
                found.setdefault(index, []).append(_socket.inet_ntop(family, raw) + "/" + str(prefix))
        return found

    def dcb(self, name: str) -> dict[str, Leaf]:
        """The IEEE DCB state and the DCBX mode of one link, as leaves."""
        found = self._ieee(name)
        source = "netlink RTM_GETDCB DCB_CMD_GDCBX " + name
        try:
            mode = self._dcb_attributes(name, 22).get(14)
            found["dcbx"] = known(mode[0], source) if mode else unknown("the kernel did not say", source)
        except OSError as error:
            found["dcbx"] = unknown((error.strerror or "no answer").lower(), source)
        return found

    def _dcb_attributes(self, name: str, command: int) -> Attributes:
        encoded = name.encode() + b"\0"
        attribute = struct.pack("HH", 4 + len(encoded), 1) + encoded + b"\0" * (-len(encoded) % 4)
        for payload in self.ask(_GETDCB, 0, struct.pack("BBH", 0, command, 0) + attribute):
            return dict(attributes(payload[4:]))
        return {}

    def _ieee(self, name: str) -> dict[str, Leaf]:
        source = "netlink RTM_GETDCB DCB_CMD_IEEE_GET " + name
        try:
            fields = dict(attributes(self._dcb_attributes(name, 21).get(13, b"")))
        except OSError as error:
            return {"ieee": unknown((error.strerror or "no answer").lower(), source)}
        found = {"ieee": known(True, source)}
        for key, value in _decoded(fields).items():
            found[key] = known(value, source)
        return found


def _link(fields: Attributes) -> dict[str, Any]:
    link: dict[str, Any] = {}
    for key, kind in (("name", 3), ("parent", 56)):
        if kind in fields:
            link[key] = _string(fields[kind])
    for key, kind in (("mtu", 4), ("lower", 5), ("master", 10), ("carrier_changes", 35)):
        if len(fields.get(kind, b"")) == 4:
            link[key] = struct.unpack("I", fields[kind])[0]
    if len(fields.get(1, b"")) == 6:
        link["mac"] = fields[1].hex(":")
    if len(fields.get(16, b"")) == 1 and fields[16][0] < len(_OPERSTATE):
        link["operstate"] = _OPERSTATE[fields[16][0]]
    if len(fields.get(33, b"")) == 1:
        link["carrier"] = fields[33][0]
    kind_name = dict(attributes(fields.get(18, b""))).get(1)
    if kind_name:
        link["kind"] = _string(kind_name)
    return link


def _string(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _decoded(fields: Attributes) -> dict[str, Any]:
    """The structs of linux/dcbnl.h; one that is shorter than it must be is left out."""
    found: dict[str, Any] = {}
    ets = fields.get(1, b"")
    if len(ets) >= 59:
        found["ets"] = {
            "willing": ets[0],
            "tc_bw": list(ets[3:11]),
            "tsa": [_TSA.get(code, "reserved") for code in ets[19:27]],
            "prio_tc": list(ets[27:35]),
        }
    for key, kind in (("pfc", 2), ("peer_pfc", 5)):
        pfc = fields.get(kind, b"")
        if len(pfc) >= 6:
            found[key] = {"enabled": pfc[1], "delay": struct.unpack_from("H", pfc, 4)[0]}
    if 3 in fields:
        entries = [entry for kind, entry in attributes(fields[3]) if kind == 1 and len(entry) >= 4]
        found["app"] = [list(struct.unpack_from("BBH", entry)) for entry in entries]
    if 11 in fields:
        found["apptrust"] = [entry[0] for _, entry in attributes(fields[11]) if entry]
    if len(fields.get(10, b"")) >= 40:
        found["buffer"] = {"prio": list(fields[10][:8]), "size": list(struct.unpack_from("8I", fields[10], 8))}
    return found
