"""Which chunks of a scope an erasure takes, and their names on a mount in steps of one commit each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvctl.store.segments.layout import Entry
from kvctl.store.segments.mount import Mount
from kvctl.types.chunks import Scope

STEP = 1000  # chunks of one commit


@dataclass(frozen=True, slots=True)
class Chosen:
    names: Callable[[Mount, Scope], Iterator[Sequence[bytes]]]
    takes: Callable[[Entry], bool]
    whole: bool = False  # everything of the scope


def by_subject(subject: bytes) -> Chosen:
    def names(mount: Mount, scope: Scope) -> Iterator[Sequence[bytes]]:
        after = b""
        while keys := mount.index.of_subject(scope, subject, STEP, after):
            yield keys
            after = keys[-1]  # held ones are still there

    return Chosen(names, lambda entry: entry.record.meta.subject == subject)


def by_keys(keys: Sequence[bytes]) -> Chosen:
    wanted = frozenset(keys)

    def names(mount: Mount, scope: Scope) -> Iterator[Sequence[bytes]]:
        for at in range(0, len(keys), STEP):
            yield keys[at : at + STEP]

    return Chosen(names, lambda entry: entry.record.key in wanted)


def everything() -> Chosen:
    def names(mount: Mount, scope: Scope) -> Iterator[Sequence[bytes]]:
        step: list[bytes] = []
        for entry in mount.index.walk(scope):
            step.append(entry.record.key)
            if len(step) == STEP:
                yield step
                step = []
        if step:
            yield step

    return Chosen(names, lambda entry: True, whole=True)
