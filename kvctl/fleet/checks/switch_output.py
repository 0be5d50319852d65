"""From the text of a switch's show commands to its ports. One text may hold the outputs of several commands."""

from collections.abc import Callable
from typing import TypeVar

from kvctl.fleet.checks.readings import SwitchPort
from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.switch import cumulus, eos, nxos, sonic
from kvctl.types.facts import Fact, known, unknown

T = TypeVar("T")


def read_ports(text: str, vendor: str) -> tuple[SwitchPort, ...] | str:
    """The ports, or why there are none. `vendor` "none" tries the output of every known operating system."""
    reasons = []
    for os in (vendor,) if vendor in READERS else READERS:
        try:
            ports = READERS[os](text)
        except ToolOutputError as error:
            reasons.append(f"{os}: {error}")
            continue
        if ports:
            return ports
        reasons.append(f"{os}: the output lists no port")
    return "not the output of a switch that is known: " + "; ".join(reasons)


def fact(value: T | None, command: str, why: str = "the output does not say") -> Fact[T]:
    return unknown(why, command) if value is None else known(value, command)


def optional(parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except ToolOutputError:
        return None


def of_sonic(text: str) -> tuple[SwitchPort, ...]:
    """`show pfc priority`, and when they are there `show pfcwd config` and `show pfcwd stats`."""
    lossless = sonic.parse_pfc_priority(text).ports
    config, stats = optional(sonic.parse_pfcwd_config, text), optional(sonic.parse_pfcwd_stats, text)
    return tuple(
        SwitchPort(
            os="sonic",
            port=port,
            pfc=known(priorities, "show pfc priority"),
            watchdog=fact(None if config is None else port in config.ports, "show pfcwd config", "it was not given"),
            storm=fact(stormed(stats, port), "show pfcwd stats", "it was not given or does not say"),
        )
        for port, priorities in lossless.items()
    )


def stormed(stats: sonic.PfcwdStats | None, port: str) -> bool | None:
    """True when a queue of the port is stormed now; None when no queue says so and one does not say."""
    states = [queue.stormed for queue in stats.queues if queue.port == port] if stats else []
    if True in states:
        return True
    return False if states and None not in states else None


def of_cumulus(text: str) -> tuple[SwitchPort, ...]:
    """`nv show qos roce` speaks of the whole switch."""
    roce, command = cumulus.parse_qos_roce(text), "nv show qos roce"
    mode = {True: "lossless", False: "lossy", None: None}[roce.lossless]
    return (
        SwitchPort(
            os="cumulus",
            port="qos roce",
            whole=True,
            pfc=fact(roce.pfc_priorities, command),
            mode=fact("off" if roce.enabled is False else mode, command),
        ),
    )


def of_nxos(text: str) -> tuple[SwitchPort, ...]:
    command = "show interface priority-flow-control"
    return tuple(
        SwitchPort(
            os="nxos",
            port=name,
            pfc=fact(port.priorities, command),
            mode=fact(port.mode, command),
            oper=fact(port.oper, command),
        )
        for name, port in nxos.parse_pfc(text).ports.items()
    )


def of_eos(text: str) -> tuple[SwitchPort, ...]:
    """A port runs PFC when it is enabled and active; the watchdog works when its flag is set."""
    command = "show priority-flow-control"
    return tuple(
        SwitchPort(
            os="eos",
            port=name,
            pfc=fact(port.priorities, command),
            oper=fact(False if not port.enabled else port.active, command),
            watchdog=fact(port.watchdog, command),
        )
        for name, port in eos.parse_pfc(text).ports.items()
    )


READERS: dict[str, Callable[[str], tuple[SwitchPort, ...]]] = {
    "sonic": of_sonic,
    "cumulus": of_cumulus,
    "nxos": of_nxos,
    "eos": of_eos,
}
