"""lldpad (Intel E810, ice): IEEE DCBX in software. Limits of the adapter as in Intel's ice README."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .kvctl_command import Command, argv, run
from .kvctl_refused import Refused
from .kvctl_roce import Observed, State, merged
from .tools import ToolOutputError, ethtool, lldptool

TOOL = "lldptool"
CLASSES = 4
TOS_PRIORITIES = (0, 2, 4, 6)
UNSUPPORTED = ("dcbx", "trust", "cable_len", "prio_buffer", "buffer_size")


def refuse(interface: Dict[str, Any], wanted: State) -> None:
    """What the hardware cannot do, before anything is asked of it."""
    netdev, pfc = interface["netdev"], wanted.get("pfc") or []
    if len(pfc) > 1:
        raise Refused("KV-ROCE-030", "%s: an E810 has one lossless class, not %s" % (netdev, pfc), "keep one priority")
    classes = sorted(set((wanted.get("prio_tc") or {}).values()))
    if classes and classes != list(range(len(classes))):
        raise Refused("KV-ROCE-031", "%s: traffic classes %s are not contiguous from 0" % (netdev, classes), "renumber")
    if len(classes) > CLASSES:
        raise Refused("KV-ROCE-031", "%s: an E810 has %d traffic classes at most" % (netdev, CLASSES), "use fewer")
    if interface.get("trust") == "dscp" and any(priority not in TOS_PRIORITIES for priority in pfc):
        raise Refused(
            "KV-ROCE-032",
            "%s: with ToS an E810 reaches priorities 0, 2, 4 and 6, not %s" % (netdev, pfc),
            "set fabric.lossless_priority to one of them for the whole fabric",
        )


def ask(netdev: str, tlv: str) -> str:
    words = [TOOL, "-t", "-i", netdev, "-V", tlv]
    output = run(words)
    if output.rc != 0:
        raise Refused("KV-ROCE-003", "%s: %s" % (" ".join(words), output.complaint), "start lldpad.service")
    return output.out


def read(interface: Dict[str, Any]) -> Observed:
    netdev = interface["netdev"]
    try:
        enabled = lldptool.parse_pfc(ask(netdev, "PFC")).priorities
        ets = lldptool.parse_tlvs(ask(netdev, "ETS-CFG")).ets
    except ToolOutputError as error:
        raise Refused("KV-ROCE-004", "lldptool on %s: %s" % (netdev, error), "check lldpad's version") from None
    output = run(["ethtool", "--show-priv-flags", netdev])
    agent = ethtool.parse_priv_flags(output.out).get("fw-lldp-agent") if output.rc == 0 else None
    return observed(enabled, ets, agent)


def observed(enabled: Any, ets: Any, agent: Optional[bool]) -> Observed:
    state: State = {
        "pfc": sorted(enabled) if enabled is not None else None,
        "prio_tc": dict(ets.prio_tc) if ets and ets.prio_tc else None,
        "tsa": dict(ets.tsa) if ets and ets.tsa else None,
        "bw": dict(enumerate(ets.tc_bw)) if ets and ets.tc_bw else None,
        "firmware_agent": agent,
    }
    unknown = dict.fromkeys(UNSUPPORTED, "lldpad does not set it")
    unknown["dscp_prio"] = "the E810 steers by its own fixed ToS table"
    return Observed(state, unknown)


def commands(interface: Dict[str, Any], now: Observed, after: State) -> List[Command]:
    netdev = interface["netdev"]
    calls: List[Command] = []
    if after and now.state.get("firmware_agent"):
        # Two agents on one port undo each other's settings.
        calls.append(argv("ethtool", "--set-priv-flags", netdev, "fw-lldp-agent", "off"))
    if after:
        calls.append(argv(TOOL, "-L", "-i", netdev, "adminStatus=rxtx"))
    if any(name in after for name in ("prio_tc", "tsa", "bw")):
        shares = merged(now, after, "bw")
        calls.append(
            argv(
                TOOL, "-T", "-i", netdev, "-V", "ETS-CFG", "willing=no",
                "tsa=" + ",".join("%d:%s" % pair for pair in sorted(merged(now, after, "tsa").items())),
                "up2tc=" + ",".join("%d:%d" % pair for pair in sorted(merged(now, after, "prio_tc").items())),
                "tcbw=" + ",".join(str(shares.get(tc) or 0) for tc in range(8)),
            )
        )  # fmt: skip
    if "pfc" in after:
        enabled = ",".join(map(str, after["pfc"])) or "none"
        calls.append(argv(TOOL, "-T", "-i", netdev, "-V", "PFC", "willing=no", "enabled=" + enabled))
    return calls
