"""Asking several stores at once, and the next ones for what was not found."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from kvctl.connector.breaker import Health
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import DeadlineExceeded, StoreError
from kvctl.connector.member import Member

T = TypeVar("T")


@dataclass(frozen=True)
class Question(Generic[T]):
    """One thing to be asked of whoever owns each chunk of a chain; chunks are positions in it."""

    ask: Callable[[Sequence[int], float, StoreClient], list[T]]  # positions, deadline, store -> an answer each
    take: Callable[[int, T], bool]  # position, answer -> whether nobody else need be asked
    judge: Callable[[list[T]], Health] | None = None  # of reading chunks: how a store is that answers so


def ask_in_turn(
    question: Question[T], owners: Mapping[int, Sequence[str]], members: Mapping[str, Member], until: float
) -> list[int]:
    """Ask each chunk's first owner, all stores at once; for what is not found the second, and so on.

    While further turns are left, a turn gets an equal part of the time that is. What nobody had is returned.
    """
    waiting = dict(owners)
    turns = max(map(len, owners.values()), default=0)
    for turn in range(turns):
        asked: defaultdict[str, list[int]] = defaultdict(list)
        for position, names in waiting.items():
            if turn < len(names):
                asked[names[turn]].append(position)
        now = time.monotonic()
        for positions, answers in ask_all(question, asked, members, now + (until - now) / (turns - turn)):
            for position, answer in zip(positions, answers, strict=True):
                if question.take(position, answer):
                    del waiting[position]
    return list(waiting)


def ask_all(
    question: Question[T], asked: Mapping[str, Sequence[int]], members: Mapping[str, Member], until: float
) -> list[tuple[Sequence[int], list[T]]]:
    """What each store that answered said. The first is asked in this thread, the others in threads of theirs."""
    calls = [
        (members[name], positions, partial(question.ask, positions, until))
        for name, positions in asked.items()
        if name in members  # a newer map may have dropped it meanwhile
    ]
    others = [(positions, member.start(call, question.judge)) for member, positions, call in calls[1:]]
    answers: list[tuple[Sequence[int], list[T]]] = []
    try:
        for member, positions, call in calls[:1]:
            with suppress(StoreError):
                answers.append((positions, member.ask(call, question.judge)))
        for positions, future in others:
            with suppress(StoreError):
                answers.append((positions, outcome(future, until)))
    finally:
        leave(future for _, future in others)
    return answers


def run_all(work: Sequence[tuple[Member, Callable[[], None]]], until: float) -> None:
    """Store by pieces of work, each in a thread of the store that it is about.

    None in this one: however many callers store, they take no more connections of a node than it has such threads.
    """
    pieces = [member.write(piece) for member, piece in work]
    try:
        for future in pieces:
            with suppress(StoreError):
                outcome(future, until)
    finally:
        leave(pieces)


def outcome(future: "Future[T]", until: float) -> T:
    """A call's answer. One that still waits for a thread at the deadline is called off: DeadlineExceeded."""
    try:
        return future.result(max(until - time.monotonic(), 0))
    except TimeoutError:
        if future.cancel():
            raise DeadlineExceeded("every thread of this store was at work") from None
        return future.result()  # at work, and held to the deadline by itself


def leave(futures: "Iterable[Future[T]]") -> None:
    """Return when none of the calls will touch the caller's memory any more."""
    wait([future for future in futures if not future.cancel()])
