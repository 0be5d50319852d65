"""mlnx_qos (NVIDIA OFED and DOCA, mlx5): every DCB value of the port. Options as in mlnx-tools' mlnx_qos."""

from __future__ import annotations

from typing import Any, Dict, List

from .kvctl_command import Command, argv, run
from .kvctl_refused import Refused
from .kvctl_roce import Observed, State, listed, merged
from .tools import ToolOutputError
from .tools import mlnx_qos as parser

TOOL = "mlnx_qos"


def read(interface: Dict[str, Any]) -> Observed:
    netdev = interface["netdev"]
    output = run([TOOL, "-i", netdev, "-a"])  # without -a only the classes in use are shown
    if output.rc != 0:
        raise Refused("KV-ROCE-003", "mlnx_qos -i %s: %s" % (netdev, output.complaint), "is it an mlx5 port?")
    try:
        seen = parser.parse(output.out)
    except ToolOutputError as error:
        raise Refused("KV-ROCE-004", "mlnx_qos -i %s: %s" % (netdev, error), "check the tool's version") from None
    return observed(seen)


def observed(seen: Any) -> Observed:
    """The port's state from parsed output."""
    tsa = dict(seen.tsa or {})
    # A strict or vendor class prints no share, which is a share of 0 in the option's list.
    bw = {tc: (seen.tc_bw or {}).get(tc, 0 if how != "ets" else None) for tc, how in tsa.items()}
    state: State = {
        "dcbx": seen.dcbx,
        "trust": seen.trust,
        "dscp_prio": dict(seen.dscp_prio) if seen.dscp_prio is not None else None,
        "prio_tc": dict(seen.prio_tc) if seen.prio_tc else None,
        "tsa": tsa or None,
        "bw": bw or None,
        "cable_len": seen.cable_len,
        "pfc": sorted(seen.pfc) if seen.pfc is not None else None,
        "prio_buffer": dict(seen.prio_buffer) if seen.prio_buffer is not None else None,
        "buffer_size": dict(enumerate(seen.buffer_sizes)) if seen.buffer_sizes else None,
    }
    unknown: Dict[str, str] = {}
    if not seen.buffer_sizes:
        unknown["buffer_size"] = "this driver shows no receive buffers"
        unknown["prio_buffer"] = unknown["buffer_size"]
    return Observed(state, unknown, seen.max_buffer_size)


def commands(interface: Dict[str, Any], now: Observed, after: State) -> List[Command]:
    """One call for each subject, in the order the firmware wants: trust and map, classes, PFC, then buffers."""
    base = [TOOL, "-i", interface["netdev"]]
    calls: List[Command] = []
    if "dcbx" in after:
        calls.append(argv(*base, "--dcbx", {"os": "os", "firmware": "fw"}[after["dcbx"]]))
    if "trust" in after:
        calls.append(argv(*base, "--trust", after["trust"]))
    pairs = sorted((after.get("dscp_prio") or {}).items())
    if pairs:
        calls.append(argv(*base, *(word for d, p in pairs for word in ("--dscp2prio", "set,%d,%d" % (d, p)))))
    if any(name in after for name in ("prio_tc", "tsa", "bw")):
        calls.append(argv(*base, *ets_options(now, after)))
    if "cable_len" in after:
        calls.append(argv(*base, "--cable_len", after["cable_len"]))
    if "pfc" in after:
        calls.append(argv(*base, "--pfc", listed(dict.fromkeys(after["pfc"], 1), 0)))
    buffers = buffer_options(now, after)
    if buffers:
        calls.append(argv(*base, *buffers))
    return calls


def buffer_options(now: Observed, after: State) -> List[str]:
    """Both lists in one call: alone, either may leave a lossless buffer too small for the driver.

    Setting PFC lets the driver move priorities between buffers, so the map is set again after it.
    """
    options: List[str] = []
    if "prio_buffer" in after or ("pfc" in after and now.state.get("prio_buffer") and "buffer_size" in after):
        options += ["--prio2buffer", listed(merged(now, after, "prio_buffer"), 0)]
    if "buffer_size" in after:
        options += ["--buffer_size", listed(merged(now, after, "buffer_size"), 0)]
    return options


def ets_options(now: Observed, after: State) -> List[str]:
    options: List[str] = []
    if "prio_tc" in after:
        options += ["--prio_tc", listed(merged(now, after, "prio_tc"), 0)]
    if "tsa" in after or "bw" in after:
        tsa = merged(now, after, "tsa")
        shares = merged(now, after, "bw")
        shares = {tc: shares.get(tc) or 0 if how == "ets" else 0 for tc, how in tsa.items()}
        options += ["--tsa", listed(tsa, "vendor")]
        if "ets" in tsa.values():
            options += ["--tcbw", listed(shares, 0)]
    return options
