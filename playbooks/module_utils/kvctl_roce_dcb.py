"""dcb of iproute2 for inbox drivers: IEEE DCB through netlink. Cable length is not part of that interface."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .kvctl_command import Command, argv, run
from .kvctl_refused import Refused
from .kvctl_roce import Observed, State, merged
from .tools import ToolOutputError, dcb

TOOL = "dcb"


def ask(subject: str, netdev: str) -> Optional[str]:
    """The tool's answer, or None when the driver does not support the subject."""
    output = run([TOOL, "-N", subject, "show", "dev", netdev])
    if output.rc == 0:
        return output.out
    if "not supported" in output.err or "not supported" in output.out:
        return None
    raise Refused("KV-ROCE-003", "dcb %s show dev %s: %s" % (subject, netdev, output.complaint), "does it exist?")


def read(interface: Dict[str, Any]) -> Observed:
    answers = {name: ask(name, interface["netdev"]) for name in ("dcbx", "app", "ets", "pfc", "buffer", "apptrust")}
    try:
        return observed(answers)
    except ToolOutputError as error:
        raise Refused(
            "KV-ROCE-004", "dcb on %s: %s" % (interface["netdev"], error), "check iproute2's version"
        ) from None


FIELDS = {
    "dcbx": ("dcbx",),
    "app": ("trust", "dscp_prio"),
    "ets": ("prio_tc", "tsa", "bw"),
    "pfc": ("pfc",),
    "buffer": ("prio_buffer", "buffer_size"),
}


def observed(answers: Dict[str, Optional[str]]) -> Observed:
    """The port's state from the six texts; a subject that is None is not supported by the driver."""
    unknown = {"cable_len": "dcb has no cable length"}
    state: State = {}
    most: Optional[int] = None
    for subject, fields in FIELDS.items():
        text = answers.get(subject)
        if text is None:
            unknown.update(dict.fromkeys(fields, "the driver does not support dcb %s" % subject))
        elif subject == "app":
            state.update(application(text, answers.get("apptrust")))
        elif subject == "buffer":
            buffer = dcb.parse_buffer(text)
            sizes = dict(enumerate(buffer.buffer_sizes)) if buffer.buffer_sizes else None
            state.update({"prio_buffer": as_dict(buffer.prio_buffer), "buffer_size": sizes})
            most = buffer.total_size
        else:
            state.update(simple(subject, text))
    return Observed(state, unknown, most)


def simple(subject: str, text: str) -> State:
    if subject == "dcbx":
        return {"dcbx": "os" if dcb.parse_dcbx(text).host else "firmware"}
    if subject == "ets":
        ets = dcb.parse_ets(text)
        return {"prio_tc": as_dict(ets.prio_tc), "tsa": as_dict(ets.tc_tsa), "bw": as_dict(ets.tc_bw)}
    enabled = dcb.parse_pfc(text).pfc
    return {"pfc": sorted(enabled) if enabled is not None else None}


def as_dict(value: Any) -> Optional[Dict[int, Any]]:
    return dict(value) if value is not None else None


def application(app: str, apptrust: Optional[str]) -> State:
    """Trust and map. A driver without apptrust trusts DSCP exactly while it has a DSCP entry (mlx5)."""
    entries = dict(dcb.parse_app(app).dscp_prio or {})
    trusts = bool(entries)
    if apptrust is not None:
        order = dcb.parse_apptrust(apptrust).order
        trusts = bool(order) and order[0] == "dscp"
    return {"trust": "dscp" if trusts else "pcp", "dscp_prio": entries}


def pairs(values: Dict[int, Any]) -> List[str]:
    return ["%d:%s" % (key, value) for key, value in sorted(values.items()) if value is not None]


def commands(interface: Dict[str, Any], now: Observed, after: State) -> List[Command]:
    dev = ["dev", interface["netdev"]]
    calls: List[Command] = []
    if "dcbx" in after:
        modes = ["host", "ieee"] if after["dcbx"] == "os" else ["lld-managed", "ieee"]
        calls.append(argv(TOOL, "dcbx", "set", *dev, *modes))
    if after.get("dscp_prio"):
        calls.append(argv(TOOL, "app", "replace", *dev, "dscp-prio", *pairs(after["dscp_prio"])))
    if "trust" in after:
        calls += trust_commands(dev, now, after)
    if any(name in after for name in ("prio_tc", "tsa", "bw")):
        words: List[str] = []
        for name, option in (("tsa", "tc-tsa"), ("bw", "tc-bw"), ("prio_tc", "prio-tc")):
            if name in after or (name == "bw" and "tsa" in after):
                words += [option] + pairs(merged(now, after, name))
        calls.append(argv(TOOL, "ets", "set", *dev, *words))
    if "pfc" in after:
        states = {p: "on" if p in after["pfc"] else "off" for p in range(8)}
        calls.append(argv(TOOL, "pfc", "set", *dev, "prio-pfc", *pairs(states)))
    if "prio_buffer" in after:
        calls.append(argv(TOOL, "buffer", "set", *dev, "prio-buffer", *pairs(merged(now, after, "prio_buffer"))))
    if "buffer_size" in after:
        calls.append(argv(TOOL, "buffer", "set", *dev, "buffer-size", *pairs(merged(now, after, "buffer_size"))))
    return calls


def trust_commands(dev: List[str], now: Observed, after: State) -> List[Command]:
    if after["trust"] == "dscp":
        order = ["order", "dscp"]
    else:
        order = ["order", "pcp"]
    if run([TOOL, "-N", "apptrust", "show"] + dev).rc == 0:
        return [argv(TOOL, "apptrust", "set", *dev, *order)]
    if after["trust"] == "pcp":
        return [argv(TOOL, "app", "flush", *dev, "dscp-prio")]
    if not after.get("dscp_prio") and not now.state.get("dscp_prio"):
        raise Refused("KV-ROCE-015", "%s trusts DSCP only with a DSCP entry" % dev[1], "give dscp_prio")
    return []
