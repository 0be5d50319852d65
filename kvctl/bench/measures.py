"""The arithmetic of a benchmark: samples, medians, ratios, targets. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

ORDER = ("kvctl-no-tools", "kvctl", "ansible", "pyinfra", "ansible-playbook")  # of rows in a report


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one contestant; times in seconds."""

    contestant: str
    round: int
    wall: float
    controller_cpu: float
    node_cpu: float
    exit: int

    @property
    def total_cpu(self) -> float:
        return self.controller_cpu + self.node_cpu


@dataclass(frozen=True, slots=True)
class Middle:
    """Medians of one contestant, each taken by itself; seconds."""

    wall: float
    controller_cpu: float
    node_cpu: float
    total_cpu: float


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio must reach. `ok` is judged on the measured number, not on the rounded one that is printed."""

    name: str
    measured: float
    required: str  # ">= 3.00"
    ok: bool


def medians(samples: Iterable[Sample]) -> dict[str, Middle]:
    """Contestant -> medians, in the order of `ORDER`; others follow as they appear."""
    groups: dict[str, list[Sample]] = {}
    samples = sorted(samples, key=lambda s: ORDER.index(s.contestant) if s.contestant in ORDER else len(ORDER))
    for sample in samples:
        groups.setdefault(sample.contestant, []).append(sample)
    return {
        name: Middle(
            median(s.wall for s in group),
            median(s.controller_cpu for s in group),
            median(s.node_cpu for s in group),
            median(s.total_cpu for s in group),
        )
        for name, group in groups.items()
    }


def ratio(numerator: float, denominator: float) -> float:
    """How many times; ValueError when nothing was measured to divide by."""
    if denominator <= 0:
        raise ValueError(f"cannot divide by {denominator} s")
    return numerator / denominator


def at_least(name: str, measured: float, limit: float) -> Target:
    return Target(name, measured, f">= {limit:.2f}", measured >= limit)


def at_most(name: str, measured: float, limit: float) -> Target:
    return Target(name, measured, f"<= {limit:.2f}", measured <= limit)


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """The order of one round: each goes first equally often, so that none gains by its place."""
    at = turn % len(names)
    return [*names[at:], *names[:at]]


def facts_document(hosts: int, samples: Sequence[Sample]) -> dict[str, Any]:
    found = medians(samples)
    fast, slow, other, whole = found["kvctl-no-tools"], found["ansible"], found["pyinfra"], found["kvctl"]
    return {
        "hosts": hosts,
        "medians": {name: asdict(middle) for name, middle in found.items()},
        "ratios": {
            "ansible wall / kvctl-no-tools wall": ratio(slow.wall, fast.wall),
            "kvctl-no-tools CPU / ansible CPU": ratio(fast.total_cpu, slow.total_cpu),
            "kvctl-no-tools wall / pyinfra wall": ratio(fast.wall, other.wall),
            "kvctl-no-tools CPU / pyinfra CPU": ratio(fast.total_cpu, other.total_cpu),
            "ansible wall / kvctl wall": ratio(slow.wall, whole.wall),
            "kvctl CPU / ansible CPU": ratio(whole.total_cpu, slow.total_cpu),
            "kvctl wall / pyinfra wall": ratio(whole.wall, other.wall),
        },
        "samples": [asdict(sample) for sample in samples],
    }


def startup_document(walls: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Wall seconds by command -> minima, medians and their ratios to bare Python's."""
    low = {name: min(times) for name, times in walls.items()}
    middle = {name: median(times) for name, times in walls.items()}
    return {
        "rounds": len(walls["python"]),
        "min": low,
        "median": middle,
        "ratios_of_min": {name: ratio(low[name], low["python"]) for name in walls if name != "python"},
        "ratios_of_median": {name: ratio(middle[name], middle["python"]) for name in walls if name != "python"},
        "samples": {name: list(times) for name, times in walls.items()},
    }


def converge_document(hosts: int, samples: Sequence[Sample]) -> dict[str, Any]:
    found = medians(samples)
    return {
        "hosts": hosts,
        "medians": {name: asdict(middle) for name, middle in found.items()},
        "ratios": {"kvctl wall / ansible-playbook wall": ratio(found["kvctl"].wall, found["ansible-playbook"].wall)},
        "samples": [asdict(sample) for sample in samples],
    }


def targets(
    facts: Mapping[str, Any], startup: Mapping[str, Any], converge: Sequence[Mapping[str, Any]]
) -> tuple[Target, ...]:
    """Every target of the parts that were measured."""
    ratios, starts = facts["ratios"], startup["ratios_of_median"]
    found = [
        at_least("check: ansible wall / kvctl wall", ratios["ansible wall / kvctl-no-tools wall"], 3.0),
        at_most("check: kvctl CPU / ansible CPU", ratios["kvctl-no-tools CPU / ansible CPU"], 1 / 3),
        at_most("check: kvctl wall / pyinfra wall", ratios["kvctl-no-tools wall / pyinfra wall"], 1.0),
        at_most("start-up: kvctl --help / python", starts["kvctl --help"], 4.5),
        at_most("start-up: kvctl status / python", starts["kvctl status"], 15.0),
    ]
    for part in converge:
        name = f"converge no-op, {part['hosts']} hosts: kvctl wall / ansible-playbook wall"
        found.append(at_most(name, part["ratios"]["kvctl wall / ansible-playbook wall"], 1.1))
    return tuple(found)
