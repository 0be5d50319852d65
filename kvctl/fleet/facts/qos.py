"""Lossless-class state of one interface: the kernel's DCB first, mlnx_qos second, the dcb command third."""

from typing import Any

from kvctl.fleet.facts.raw import Raw, convert, field, first, integer
from kvctl.types.facts import Ecn, Fact, Qos, unknown

_DSCP_SELECTOR, _PCP_SELECTOR = 5, 255
_HOST_MANAGED = 0x01
# These drivers classify by DSCP exactly while the kernel's APP table holds a DSCP entry.
_TRUST_FOLLOWS_APP = ("mlx5_core", "ice")
_PRIORITIES = range(8)
# field of Qos -> which dcb command, and the field of its answer
_IN_DCB = {
    "pfc": ("pfc", "pfc"),
    "dscp_prio": ("app", "dscp_prio"),
    "prio_tc": ("ets", "prio_tc"),
    "tsa": ("ets", "tc_tsa"),
    "tc_bw": ("ets", "tc_bw"),
    "prio_buffer": ("buffer", "prio_buffer"),
    "buffer_size": ("buffer", "buffer_sizes"),
    "dcbx": ("dcbx", "host"),
}


def qos(raw: Raw, netdev: str, driver: str, pci: str) -> Qos:
    kernel = _Kernel(raw, netdev, driver)
    told = _Tools(raw, netdev, pci)

    def merged(what: str, first_choice: Fact[Any]) -> Fact[Any]:
        return raw.agreed(f"{netdev}: {what}", first_choice, told.of(what))

    dcbx = merged("dcbx", kernel.dcbx())
    return Qos(
        trust=merged("trust", kernel.trust()),
        pfc=merged("pfc", kernel.pfc("pfc")),
        dscp_prio=first(kernel.dscp_map(), told.of("dscp_prio")),
        prio_tc=merged("prio_tc", kernel.ets_map("prio_tc", 7)),
        tsa=merged("tsa", kernel.tsa()),
        tc_bw=first(kernel.ets_map("tc_bw", 100), told.of("tc_bw")),
        prio_buffer=merged("prio_buffer", kernel.buffer_map("prio", 7)),
        buffer_size=merged("buffer_size", kernel.buffer_map("size", 1 << 32)),
        cable_len=merged("cable_len", kernel.cable_length()),
        dcbx=dcbx,
        willing=_willing(raw, netdev, dcbx, kernel),
        peer_pfc=first(kernel.pfc("peer_pfc"), _lldp(raw, netdev, "peer_pfc", "priorities")),
    )


class _Tools:
    """The same state as commands print it: mlnx_qos, then dcb, then niccli."""

    def __init__(self, raw: Raw, netdev: str, pci: str) -> None:
        self._mlnx = raw.answer("mlnx_qos:" + netdev, "mlnx_qos", "parse", "mlnx_qos")
        self._nic = raw.answer("niccli.qos:" + pci, "niccli", "parse_qos", "niccli") if pci else None
        parts = ("pfc", "app", "ets", "buffer", "dcbx")
        self._dcb = {part: raw.answer(f"dcb.{part}:{netdev}", "dcb", "parse_" + part, "dcb") for part in parts}

    def of(self, what: str) -> Fact[Any]:
        mlnx = {"buffer_size": "buffer_sizes"}.get(what, what)
        answers = [convert(field(self._mlnx, mlnx), _filled)]
        part, name = _IN_DCB.get(what, ("", ""))
        if part:
            answers.append(convert(field(self._dcb[part], name), _from_dcb))
        if self._nic is not None and self._nic.known and what in ("pfc", "prio_tc", "tsa", "tc_bw"):
            answers.append(convert(field(self._nic, what), _filled))
        return first(*answers)


class _Kernel:
    """The kernel's answer to DCB_CMD_IEEE_GET and DCB_CMD_GDCBX."""

    def __init__(self, raw: Raw, netdev: str, driver: str) -> None:
        self._raw, self._netdev, self._driver = raw, netdev, driver
        self._app = convert(self._part("app"), _app_rows)

    def _part(self, key: str) -> Fact[Any]:
        """A part of the answer; the reason is the request's when the whole request failed."""
        if self._raw.at("net", self._netdev, "dcb", key) is not None:
            return self._raw.leaf("net", self._netdev, "dcb", key)
        whole = self._raw.leaf("net", self._netdev, "dcb", "ieee")
        return unknown("the driver does not report it through DCB", whole.source) if whole.known else whole

    def pfc(self, key: str) -> Fact[frozenset[int]]:
        return convert(self._part(key), _enabled)

    def cable_length(self) -> Fact[int]:
        """mlx5 keeps the cable's length in metres where the standard has the delay allowance."""
        if self._driver != "mlx5_core":
            return unknown("only mlx5 reports a cable length through DCB")
        return convert(self._part("pfc"), lambda value: integer(_member(value, "delay"), 1, 1000))

    def ets_map(self, key: str, most: int) -> Fact[dict[int, int]]:
        return convert(self._part("ets"), lambda value: _by_index(value, key, most))

    def tsa(self) -> Fact[dict[int, str]]:
        return convert(self._part("ets"), _tsa)

    def willing(self) -> Fact[bool]:
        return convert(self._part("ets"), _willing_bit)

    def buffer_map(self, key: str, most: int) -> Fact[dict[int, int]]:
        return convert(self._part("buffer"), lambda value: _by_index(value, key, most))

    def dcbx(self) -> Fact[str]:
        mode = self._raw.number("net", self._netdev, "dcb", "dcbx", high=255)
        return convert(mode, lambda bits: "os" if bits & _HOST_MANAGED else "firmware")

    def dscp_map(self) -> Fact[dict[int, int]]:
        def mapping(rows: list[tuple[int, int, int]]) -> dict[int, int] | None:
            found = {
                protocol: priority
                for selector, priority, protocol in rows
                if selector == _DSCP_SELECTOR and 0 <= protocol <= 63 and 0 <= priority <= 7
            }
            return found or None

        return convert(self._app, mapping, "the kernel's APP table has no DSCP entry")

    def trust(self) -> Fact[str]:
        order = self._raw.leaf("net", self._netdev, "dcb", "apptrust")
        if order.known and isinstance(order.value, list) and order.value:
            names = {str(_DSCP_SELECTOR): "dscp", str(_PCP_SELECTOR): "pcp"}
            return convert(order, lambda value: names.get(str(value[0])))
        if not self._app.known:
            return unknown(self._app.unknown, self._app.source)
        if self._driver not in _TRUST_FOLLOWS_APP:
            return unknown(f"the driver {self._driver or '?'} does not report what it trusts", self._app.source)
        return convert(self._app, lambda rows: "dscp" if any(row[0] == _DSCP_SELECTOR for row in rows) else "pcp")


def _app_rows(value: Any) -> list[tuple[int, int, int]] | None:
    """Rows (selector, priority, protocol)."""
    if not isinstance(value, list):
        return None
    found = []
    for row in value:
        if not isinstance(row, list) or len(row) != 3 or any(type(item) is not int for item in row):
            return None
        found.append((row[0], row[1], row[2]))
    return found


def _enabled(value: Any) -> frozenset[int] | None:
    bits = integer(_member(value, "enabled"), 0, 0xFF)
    return None if bits is None else frozenset(priority for priority in _PRIORITIES if bits >> priority & 1)


def _willing_bit(value: Any) -> bool | None:
    bit = integer(_member(value, "willing"), 0, 1)
    return None if bit is None else bool(bit)


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _willing(raw: Raw, netdev: str, dcbx: Fact[str], kernel: _Kernel) -> Fact[bool]:
    """Whether the neighbour may overwrite the class. Under firmware DCBX the kernel's bit says nothing about it."""
    lldp: Fact[bool] = _lldp(raw, netdev, "pfc", "willing")
    if dcbx.or_none() == "os":
        return first(lldp, kernel.willing())
    return (
        lldp if lldp.known else unknown(f"the kernel's bit counts only under its own DCBX; {lldp.unknown}", lldp.source)
    )


def _lldp(raw: Raw, netdev: str, which: str, name: str) -> Fact[Any]:
    return field(raw.answer(f"lldptool.{which}:{netdev}", "lldptool", "parse_pfc", "lldptool"), name)


def _by_index(value: Any, key: str, most: int) -> dict[int, int] | None:
    items = value.get(key) if isinstance(value, dict) else None
    if not isinstance(items, list) or len(items) != 8:
        return None
    if any(type(item) is not int or not 0 <= item <= most for item in items):
        return None
    return dict(enumerate(items))


def _tsa(ets: Any) -> dict[int, str] | None:
    items = ets.get("tsa") if isinstance(ets, dict) else None
    if not isinstance(items, list) or len(items) != 8 or not all(isinstance(item, str) for item in items):
        return None
    return dict(enumerate(items))


def _filled(value: Any) -> Any:
    """A table that is empty in a parser's answer was not in the output; an empty set of priorities was."""
    if isinstance(value, tuple):
        value = dict(enumerate(value))
    return value if value or not isinstance(value, dict) else None


def _from_dcb(value: Any) -> Any:
    if isinstance(value, bool):
        return "os" if value else "firmware"
    return _filled(value)


def ecn(raw: Raw, netdev: str) -> Ecn:
    """DCQCN switches that the vendor's driver shows in sysfs; drivers of the kernel itself have no such folder."""
    if not isinstance(raw.at("net", netdev, "ecn"), dict):
        none: Fact[Any] = unknown("the driver has no ecn folder", f"/sys/class/net/{netdev}/ecn")
        return Ecn(none, none, none, none)
    return Ecn(
        np=_switches(raw, netdev, "roce_np"),
        rp=_switches(raw, netdev, "roce_rp"),
        cnp_dscp=raw.number("net", netdev, "ecn", "cnp_dscp", high=63),
        cnp_prio=raw.number("net", netdev, "ecn", "cnp_prio", high=7),
    )


def _switches(raw: Raw, netdev: str, point: str) -> Fact[dict[int, bool]]:
    states = {priority: raw.flag("net", netdev, "ecn", point, str(priority)) for priority in _PRIORITIES}
    found = {priority: state.value for priority, state in states.items() if state.known and state.value is not None}
    if not found:
        return first(*states.values())  # type: ignore[arg-type]
    source = next(state.source for state in states.values() if state.known)
    return raw.fact(found, source.rpartition("/")[0])
