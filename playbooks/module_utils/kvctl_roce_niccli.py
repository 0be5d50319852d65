"""niccli (Broadcom, bnxt_en): ETS, PFC and application entries. Commands as in Broadcom's own bnxt_setupcc.sh."""

from __future__ import annotations

from typing import Any, Dict, List

from .kvctl_command import Command, argv, run
from .kvctl_refused import Refused
from .kvctl_roce import Observed, State, merged
from .tools import ToolOutputError, niccli

TOOL = "niccli"
DSCP_SELECTOR = 5  # IEEE 802.1Qaz APP TLV selector of DSCP
UNSUPPORTED = ("dcbx", "cable_len", "prio_buffer", "buffer_size")


def read(interface: Dict[str, Any]) -> Observed:
    device = interface["pci"]
    output = run([TOOL, "-dev", device, "getqos"])
    if output.rc != 0:
        raise Refused("KV-ROCE-003", "niccli -dev %s getqos: %s" % (device, output.complaint), "check niccli's version")
    try:
        return observed(niccli.parse_qos(output.out))
    except ToolOutputError as error:
        raise Refused("KV-ROCE-004", "niccli -dev %s getqos: %s" % (device, error), "check niccli's version") from None


def observed(seen: Any) -> Observed:
    entries = {app.dscp: app.priority for app in seen.apps if app.dscp is not None and app.priority is not None}
    state: State = {
        # Thor classifies by DSCP exactly while a DSCP entry is there.
        "trust": "dscp" if entries else "pcp",
        "dscp_prio": entries,
        "prio_tc": dict(seen.prio_tc) if seen.prio_tc else None,
        "tsa": dict(seen.tsa) if seen.tsa else None,
        "bw": dict(enumerate(seen.tc_bw)) if seen.tc_bw else None,
        "pfc": sorted(seen.pfc) if seen.pfc is not None else None,
    }
    return Observed(state, dict.fromkeys(UNSUPPORTED, "niccli does not set it"))


def only_shown_classes(now: Observed, wanted: State) -> State:
    """The wanted state without the traffic classes that this adapter does not have (some have 3 of 8)."""
    shown = set(now.state.get("tsa") or {})
    if not shown:
        return wanted
    missing = {tc for tc in (wanted.get("prio_tc") or {}).values() if tc not in shown}
    if missing:
        raise Refused("KV-ROCE-016", "the adapter has no traffic class %s" % sorted(missing), "map to fewer classes")
    kept = dict(wanted)
    for name in ("tsa", "bw"):
        if name in wanted:
            kept[name] = {tc: value for tc, value in wanted[name].items() if tc in shown}
    return kept


def commands(interface: Dict[str, Any], now: Observed, after: State) -> List[Command]:
    base = [TOOL, "-dev", interface["pci"]]
    calls: List[Command] = []
    if "trust" in after and after["trust"] == "pcp":
        old = sorted((now.state.get("dscp_prio") or {}).items())
        calls += [argv(*base, "apptlv", "-del", "-app", "%d,%d,%d" % (p, DSCP_SELECTOR, d)) for d, p in old]
    for dscp, priority in sorted((after.get("dscp_prio") or {}).items()):
        old_priority = (now.state.get("dscp_prio") or {}).get(dscp)
        if old_priority is not None:
            calls.append(argv(*base, "apptlv", "-del", "-app", "%d,%d,%d" % (old_priority, DSCP_SELECTOR, dscp)))
        calls.append(argv(*base, "apptlv", "-add", "-app", "%d,%d,%d" % (priority, DSCP_SELECTOR, dscp)))
    if any(name in after for name in ("prio_tc", "tsa", "bw")):
        tsa, shares = merged(now, after, "tsa"), merged(now, after, "bw")
        calls.append(
            argv(
                *base, "ets",
                "-tsa", ",".join("%d:%s" % pair for pair in sorted(tsa.items())),
                "-up2tc", ",".join("%d:%d" % pair for pair in sorted(merged(now, after, "prio_tc").items())),
                "-tcbw", ",".join(str(shares.get(tc) or 0) for tc, how in sorted(tsa.items()) if how == "ets"),
            )
        )  # fmt: skip
    if "pfc" in after:
        calls.append(argv(*base, "pfc", "-enable", ",".join(map(str, after["pfc"])) or "0xFF"))
    return calls
