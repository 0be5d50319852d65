"""The lossless class of one interface: what is wanted, what differs, and which commands close the gap. Pure.

A state is a dict by name. Values that belong to priorities, DSCPs, traffic classes or buffers are dicts by number:
mtu bytes, dcbx "os"|"firmware", trust "dscp"|"pcp", dscp_prio {dscp: priority}, pfc [priorities], tsa {tc: text},
bw {tc: percent}, prio_tc {priority: tc}, prio_buffer {priority: buffer}, buffer_size {buffer: bytes}, cable_len metres,
pause {"rx": bool, "tx": bool}, ecn_np and ecn_rp {priority: bool}, cnp_dscp, cnp_prio, cm_tos, tclass.
None means that the tool does not show the value; a name in `unknown` cannot be read or set here, with the reason.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from .kvctl_refused import Refused

State = Dict[str, Any]
BY_NUMBER = ("dscp_prio", "tsa", "bw", "prio_tc", "prio_buffer", "buffer_size", "ecn_np", "ecn_rp")
ORDER = (
    "mtu", "pause", "dcbx", "trust", "dscp_prio", "prio_tc", "tsa", "bw", "cable_len", "pfc", "prio_buffer",
    "buffer_size", "ecn_np", "ecn_rp", "cnp_dscp", "cnp_prio", "cm_tos", "tclass",
)  # fmt: skip


class Observed(NamedTuple):
    """What one interface has now."""

    state: State
    unknown: Dict[str, str]  # name -> why it is neither compared nor set
    max_buffer: Optional[int] = None  # bytes of receive buffer that the port has in all, when the tool says so


class Difference(NamedTuple):
    """Exactly what differs; both sides have the same names and, inside, the same numbers."""

    before: State
    after: State

    def __bool__(self) -> bool:
        return bool(self.after)


def numbered(state: State) -> State:
    """The same state with integer keys again, after a trip through JSON."""
    return {
        name: {int(k): v for k, v in value.items()} if name in BY_NUMBER and isinstance(value, dict) else value
        for name, value in state.items()
    }


def desired_state(interface: Dict[str, Any]) -> State:
    """The wanted state from one element of the role's `interfaces`. What is null or "any" is not compared."""
    ets = interface.get("ets") or {}
    priority = interface["priority"]
    ecn = interface.get("ecn")
    pause = interface.get("pause")
    wanted: State = {
        "mtu": interface.get("mtu"),
        "pause": None if pause is None else {"rx": pause, "tx": pause},
        "dcbx": None if interface.get("dcbx") in (None, "any", "") else interface["dcbx"],
        "trust": interface.get("trust"),
        "dscp_prio": interface.get("dscp_prio") if interface.get("trust") == "dscp" else None,
        "prio_tc": ets.get("prio_tc"),
        "tsa": ets.get("tsa"),
        "bw": ets.get("bw"),
        "cable_len": interface.get("cable_length"),
        "pfc": None if interface.get("pfc") is None else sorted(interface["pfc"]),
        "prio_buffer": interface.get("prio_buffer"),
        "ecn_np": None if ecn is None else {priority: ecn},
        "ecn_rp": None if ecn is None else {priority: ecn},
        "cnp_dscp": interface.get("cnp_dscp"),
        "cnp_prio": interface.get("cnp_priority"),
        "cm_tos": interface.get("cm_tos"),
        "tclass": interface.get("tclass"),
    }
    return numbered({name: value for name, value in wanted.items() if value is not None and value != {}})


def buffers_wanted(observed: Observed, wanted: State, priority: int, least: int) -> Optional[Dict[int, int]]:
    """Receive buffer sizes that give the lossless priority at least `least` bytes, or None when it has them.

    What it lacks is taken from buffer 0, the lossy one, which keeps at least as much as the lossless one gets.
    """
    sizes = observed.state.get("buffer_size")
    buffer = {**(observed.state.get("prio_buffer") or {}), **(wanted.get("prio_buffer") or {})}.get(priority)
    if not sizes or buffer is None or not least:
        return None
    if buffer == 0:
        raise Refused(
            "KV-ROCE-013", "priority %d would share buffer 0 with lossy traffic" % priority, "give it a buffer"
        )
    if sizes.get(buffer, 0) >= least:
        return None
    free = max(0, (observed.max_buffer or 0) - sum(sizes.values()))
    taken = max(0, least - sizes.get(buffer, 0) - free)
    left = sizes.get(0, 0) - taken
    if left < least:
        raise Refused(
            "KV-ROCE-014",
            "buffer %d needs %d bytes and buffer 0 has only %d" % (buffer, least, sizes.get(0, 0)),
            "lower fabric.buffer_min, or free a buffer of another priority",
        )
    return {**sizes, buffer: least, 0: left}


def difference(observed: Observed, wanted: State) -> Difference:
    """Before and after of every value that is known to differ, or that the tool does not show."""
    before: State = {}
    after: State = {}
    for name in ORDER:
        if name not in wanted or name in observed.unknown:
            continue
        have, want = observed.state.get(name), wanted[name]
        if not isinstance(want, dict):
            if have != want:
                before[name], after[name] = have, want
            continue
        changed = {key: value for key, value in want.items() if (have or {}).get(key) != value}
        if changed:
            before[name] = {key: (have or {}).get(key) for key in changed}
            after[name] = changed
    return Difference(before, after)


def wanted_with_buffers(observed: Observed, interface: Dict[str, Any]) -> State:
    wanted = desired_state(interface)
    if "buffer_size" not in observed.unknown:
        sizes = buffers_wanted(observed, wanted, interface["priority"], interface.get("buffer_min") or 0)
        if sizes is not None:
            wanted["buffer_size"] = sizes
    return wanted


def merged(observed: Observed, after: State, name: str) -> Any:
    """The full value of `name` once `after` holds; dicts keep the numbers that do not change."""
    have, want = observed.state.get(name), after.get(name)
    if isinstance(want, dict) or isinstance(have, dict):
        return {**(have or {}), **(want or {})}
    return have if name not in after else want


def listed(values: Dict[int, Any], default: Any, size: int = 8) -> str:
    """Comma separated values of 0..size-1, as mlnx_qos takes them."""
    return ",".join(str(values.get(index, default)) for index in range(size))


def undo(diff: Difference) -> State:
    """The state that puts back what `diff` changed; what was not known before cannot be put back."""
    back: State = {}
    for name, value in diff.before.items():
        if isinstance(value, dict):
            value = {key: old for key, old in value.items() if old is not None}
        if value not in (None, {}):
            back[name] = value
    return back


def refuse_unreadable(netdev: str, wanted: State, observed: Observed, needed: List[str]) -> None:
    """KV-ROCE-012 when a value that makes the class lossless can neither be read nor set."""
    for name in needed:
        if name in wanted and name in observed.unknown:
            raise Refused(
                "KV-ROCE-012",
                "%s: %s cannot be set here: %s" % (netdev, name, observed.unknown[name]),
                "install the vendor's tools, or take the interface off the rails",
            )
