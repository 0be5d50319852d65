"""Interleaved rounds: for each cell every contestant once, each first equally often."""

from collections.abc import Iterator, Sequence

from kvctl.bench.hosts import say
from kvctl.bench.measures import rotated
from kvctl.bench.store.cells import Cell
from kvctl.bench.store.contestants import Contestant
from kvctl.bench.store.figures import GB, Sample
from kvctl.bench.store.stage import Entered, Stage
from kvctl.types.errors import KvctlError


def rounds(stage: Stage, contestants: Sequence[Contestant]) -> list[Sample]:
    """One round that is not counted, which proves that everything works, then those that are."""
    ready = [found for one in contestants if (found := stage.enter(one)) is not None]
    samples: list[Sample] = []
    for turn in range(stage.settings.rounds + 1):
        say("warm-up" if turn == 0 else f"round {turn} of {stage.settings.rounds}")
        for cell in stage.settings.cells():
            samples += of_cell(stage, ready, cell, turn)
    return [sample for sample in samples if sample.round and sample.contestant not in stage.failed]


def of_cell(stage: Stage, ready: Sequence[Entered], cell: Cell, turn: int) -> Iterator[Sample]:
    """Each contestant's sample of one cell; one that fails has no more samples."""
    taking = {one.contestant.name: one for one in ready if cell.op in one.contestant.ops}
    for name in rotated(list(taking), turn) if taking else ():
        if name in stage.failed:
            continue
        try:
            taken = taking[name].take(cell, turn)
        except KvctlError as error:
            stage.note(name, error)
            continue
        say(f"  {cell.label}: {name}: {taken.bytes / GB / taken.wall:.2f} GB/s, {taken.ops} in {taken.wall:.2f} s")
        yield Sample(name, cell, turn, taken)
