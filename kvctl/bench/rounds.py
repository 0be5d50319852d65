"""Interleaved rounds: every contestant once a round, each sample with its cost on the controller and on the nodes."""

from collections.abc import Sequence
from pathlib import Path

from kvctl.bench.contestants import Contestant
from kvctl.bench.hosts import say
from kvctl.bench.measures import Sample, rotated
from kvctl.bench.meter import failed, metered
from kvctl.bench.nodecpu import NodeCpu


def rounds(contestants: Sequence[Contestant], count: int, cpu: NodeCpu, directory: Path) -> list[Sample]:
    """One round that is not counted, which fills caches and proves that everything works, then `count` that are."""
    by_name = {one.name: one for one in contestants}
    idle = cpu.idle_rate()
    samples = []
    for turn in range(count + 1):
        for name in rotated(list(by_name), turn):
            taken = sample(by_name[name], turn, cpu, idle, directory)
            what = "warm-up" if turn == 0 else f"round {turn} of {count}"
            say(f"{what}: {name}: {taken.wall:.2f} s, CPU {taken.controller_cpu:.2f} + {taken.node_cpu:.2f} s")
            if turn:
                samples.append(taken)
    return samples


def sample(one: Contestant, turn: int, cpu: NodeCpu, idle: float, directory: Path) -> Sample:
    """Run a contestant once. KV-BENCH-002 when it failed or did not do its work."""
    before = cpu.total()
    cost = metered(one.argv, env=one.env, directory=directory, label=one.name)
    spent = cpu.settled(idle) - before
    if cost.exit not in one.ok:
        raise failed(one.argv, directory, one.name, f"it exited {cost.exit}")
    if why := one.proof((directory / f"{one.name}.out").read_text(errors="replace")):
        raise failed(one.argv, directory, one.name, why)
    return Sample(one.name, turn, cost.wall, cost.cpu, spent, cost.exit)
