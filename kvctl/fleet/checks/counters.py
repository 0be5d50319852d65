"""What only counters show: losses and pauses between two readings of a node."""

from collections.abc import Iterable

from kvctl.fleet.checks.growth import both_readings, elapsed
from kvctl.fleet.checks.outcome import Outcome, judged, not_known, unclear
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.facts import Fact, Nic
from kvctl.types.findings import Evidence, Remedy, Severity

# The facts hold per-priority counters of every driver under mlx5's names; {p} is the priority. A name that is not
# there is a counter that the driver does not have, not a zero.
DISCARDS = ("rx_prio{p}_discards", "rx_discards_phy")
TRANSPORT = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans",  # mlx5
    "to_retransmits", "seq_err_naks_rcvd",  # bnxt
)  # fmt: skip
PAUSES = ("rx_prio{p}_pause", "tx_prio{p}_pause")
DURATIONS = ("rx_prio{p}_pause_duration", "tx_prio{p}_pause_duration")  # microseconds
STORMS = ("tx_pause_storm_warning_events", "tx_pause_storm_error_events")

WARNING = Severity.WARNING
# Share of the time between the readings that a priority may be paused before it is called congestion.
PAUSED_SHARE = 0.05
MICROSECONDS = 1e-6


def for_priority(names: Iterable[str], priority: int) -> tuple[str, ...]:
    return tuple(name.format(p=priority) for name in names)


def growth(before: dict[str, int], now: dict[str, int], names: Iterable[str]) -> dict[str, int] | Outcome:
    """Growth of each name that both readings show; an outcome when the pair cannot be compared."""
    found: dict[str, int] = {}
    for name in names:
        if (name in before) != (name in now):
            return unclear(f"only one of the two readings shows {name}", severity=WARNING)
        if name in now:
            if now[name] < before[name]:
                why = f"{name} went down from {before[name]} to {now[name]}: the driver was reloaded or reset"
                return unclear(why, severity=WARNING)
            found[name] = now[name] - before[name]
    return found


def moved(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} +{n}" for name, n in counts.items() if n)


@check(
    id="cnt.lossless",
    severity=Severity.CRITICAL,
    title="Nothing was lost between two readings",
    reads=("nic.counters", "nic.rdma.hw_counters", "host.boot_id"),
    right="no growth of discards of priority {priority}, sequence errors, ack timeouts or retransmissions",
    remedy=Remedy(
        text="Find where the class breaks: qos.*, the switch port's PFC and headroom (sw.*), cable errors "
        "(ethtool -S {subject} | grep -i err), then repeat under load."
    ),
    after=("link.state", "qos.trust", "qos.dscpmap", "qos.pfc.host", "qos.buffer"),
    evidence=Evidence.EFFECT,
    notes="Needs two readings, best with load between them. A counter that the driver does not show is not a zero: "
    "unknown, as a warning, for few drivers show all of them.",
)
@each_port
def lossless(port: Port, fleet: Fleet) -> Outcome:
    before = both_readings(port, fleet)
    if isinstance(before, Outcome):
        return before
    facts = (port.nic.counters, before.counters, port.nic.rdma.hw_counters, before.rdma.hw_counters)
    known = [f.or_none() for f in facts]
    discards = transport = None
    if known[0] is not None and known[1] is not None:
        discards = growth(known[1], known[0], for_priority(DISCARDS, fleet.fabric.lossless_priority))
    if known[2] is not None and known[3] is not None:
        transport = growth(known[3], known[2], TRANSPORT)
    return loss(port.nic, facts, discards, transport)


def loss(
    nic: Nic,
    facts: tuple[Fact[dict[str, int]], ...],
    discards: dict[str, int] | Outcome | None,
    transport: dict[str, int] | Outcome | None,
) -> Outcome:
    """A loss in either half fails, whatever the other says; a pass needs both."""
    halves = (discards, transport)
    seen = {name: n for half in halves if isinstance(half, dict) for name, n in half.items()}
    if moved(seen):
        return judged(False, moved(seen), "no growth", *facts)
    for half in halves:
        if isinstance(half, Outcome):
            return half
    if discards is None or transport is None:
        return not_known(*facts, severity=WARNING)
    if not discards:
        return unclear("the driver shows no discard counter that is known", *facts, severity=WARNING)
    if not transport:
        return unclear("the RDMA device shows no transport error counter that is known", *facts, severity=WARNING)
    return judged(True, f"{len(seen)} counters did not move", "no growth", *facts)


@check(
    id="cnt.pause",
    severity=Severity.WARNING,
    title="The lossless priority was not paused for long",
    reads=("nic.counters", "host.boot_id"),
    right="no pause storm, and priority {priority} paused for less than 5 % of the time",
    remedy=Remedy(
        text="Look for the slow receiver: the port that sends pauses (tx). PCIe width, GPU or drive behind it, incast "
        "on the switch; DCQCN thresholds."
    ),
    after=("link.state", "qos.pause", "qos.pfc.host"),
    evidence=Evidence.EFFECT,
    notes="Needs two readings. Pause frames without a duration counter are reported as unknown: a number of frames "
    "does not say for how long.",
)
@each_port
def pause(port: Port, fleet: Fleet) -> Outcome:
    before = both_readings(port, fleet)
    if isinstance(before, Outcome):
        return before
    then, now = before.counters.or_none(), port.nic.counters.or_none()
    if then is None or now is None:
        return not_known(before.counters, port.nic.counters)
    priority = fleet.fabric.lossless_priority
    names = (STORMS, for_priority(PAUSES, priority), for_priority(DURATIONS, priority))
    parts = [growth(then, now, group) for group in names]
    void = next((part for part in parts if isinstance(part, Outcome)), None)
    if void is not None:
        return void
    storms, frames, durations = (part for part in parts if not isinstance(part, Outcome))
    seconds = elapsed(fleet.previous[port.host.node.name].at, port.host.facts.at) if fleet.previous else None
    return paused(port.nic.counters, frames, durations, storms, seconds)


def paused(
    source: Fact[dict[str, int]],
    frames: dict[str, int],
    durations: dict[str, int],
    storms: dict[str, int],
    seconds: float | None,
) -> Outcome:
    if moved(storms):
        return judged(False, moved(storms), "no pause storm", source)
    if not frames:
        return unclear("the driver shows no pause counter of this priority that is known", source)
    if not moved(frames):
        return judged(True, "no pause frames", "no pause frames", source)
    if not durations or seconds is None:
        return unclear("pause frames were seen, but not for how long", source, observed=moved(frames))
    share = max(durations.values()) * MICROSECONDS / seconds
    return judged(share < PAUSED_SHARE, f"paused {share:.1%} of {seconds:.0f} s", f"< {PAUSED_SHARE:.0%}", source)
