"""Servers and clients of a run, ready to be measured. What cannot start is noted and left out."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from kvctl.bench.hosts import say
from kvctl.bench.store.cells import Cell, Op, Settings
from kvctl.bench.store.contestants import Contestant
from kvctl.bench.store.fio import Fio
from kvctl.bench.store.jobs import Job, Setup, Taken
from kvctl.bench.store.kvstored import ram_share
from kvctl.bench.store.processes import Child, await_line, module, running
from kvctl.bench.store.services import Service
from kvctl.bench.store.starters import STARTERS
from kvctl.types.errors import KvctlError

FILLERS = 2  # lanes that fill a set
UNLIMITED = 3600.0  # seconds: a set is filled however long it takes


@dataclass(frozen=True, slots=True)
class Entered:
    """A contestant that is ready; `take` measures a cell in a round."""

    contestant: Contestant
    take: Callable[[Cell, int], Taken]


@dataclass(slots=True)
class Stage:
    """A context: everything that was started in it is ended with it. `failed`: contestant -> why."""

    settings: Settings
    failed: dict[str, str] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    _broken: dict[str, KvctlError] = field(default_factory=dict)  # services that did not start
    _stack: ExitStack = field(default_factory=ExitStack)
    _keys: tuple[str, str] = field(default_factory=lambda: (token_hex(16), token_hex(32)))  # epoch, seal key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def enter(self, one: Contestant) -> Entered | None:
        """Start what a contestant needs and fill its sets; None when that failed."""
        say(f"start {one.name}")
        try:
            return self._fio(one) if one.lane == "fio" else self.client(one)
        except KvctlError as error:
            self.note(one.name, error)
            return None

    def note(self, name: str, error: KvctlError) -> None:
        """A contestant that fails does not end a long run: its rows say so."""
        say(str(error))
        self.failed[name] = error.why.strip().rpartition("\n")[2] or error.what

    def remarks(self) -> dict[str, Any]:
        """What a reader must know of the servers: how much of what kvstored gave came from its RAM."""
        found = {}
        for name in ("kvstored", "kvstored-cold"):
            if name in self.services and name not in self._broken:
                share = ram_share(self.settings.directory / name)
                found[f"{name}: reads from RAM"] = "none was made" if share is None else f"{100 * share:.1f} %"
        return found

    def _fio(self, one: Contestant) -> Entered:
        tool = Fio(self.settings)
        tool.fill()
        return Entered(one, lambda cell, turn: tool.take(cell))

    def client(self, one: Contestant) -> Entered:
        """A contestant with its server and its client; its sets are filled. KV-BENCH-012."""
        service = self._service(one.service)
        child = self._start(one, service)
        for size in self.settings.sizes if one.filled else ():
            chunks = self.settings.chunks(size, cold=one.cold)
            lanes = min(FILLERS, max(self.settings.connections))
            ask(child, Job("fill", Op.PUT, size, lanes, chunks, UNLIMITED, chunks, 0, service.pids()))

        def take(cell: Cell, turn: int) -> Taken:
            limit, chunks = self.settings.limit(cell), self.settings.chunks(cell.size, cold=one.cold)
            pids, seconds = service.pids(), self.settings.seconds
            return ask(child, Job("measure", cell.op, cell.size, cell.connections, limit, seconds, chunks, turn, pids))

        return Entered(one, take)

    def _start(self, one: Contestant, service: Service) -> Child:
        """The contestant's client process; keys go through its standard input, never a command line."""
        settings, (epoch, seal_key) = self.settings, self._keys
        setup = Setup(
            one.lane, service.addresses[one.name], max(settings.sizes), max(settings.connections),
            settings.set_bytes, epoch, seal_key,
        )  # fmt: skip
        argv = module("kvctl.bench.store.client")
        child = self._stack.enter_context(running(f"client-{one.name}", argv, settings.directory, pipes=True))
        tell(child, asdict(setup))
        await_line(child, b"ready")
        return child

    def _service(self, name: str) -> Service:
        if name in self._broken:
            raise self._broken[name]
        if name not in self.services:
            try:
                self.services[name] = self._stack.enter_context(STARTERS[name](self.settings, self.settings.directory))
            except KvctlError as error:
                self._broken[name] = error
                raise
        return self.services[name]


def ask(child: Child, job: Job) -> Taken:
    """One job of a client; KV-BENCH-012 with what it said when it could not do it."""
    tell(child, asdict(job))
    line = child.stdout.readline()
    if not line:
        raise child.failed(f"ended in the middle of {job.kind} {job.op} of {job.size} bytes")
    return Taken(**json.loads(line))


def tell(child: Child, values: dict[str, object]) -> None:
    """One line to a client; KV-BENCH-012 when it has ended."""
    try:
        child.stdin.write(json.dumps(values).encode() + b"\n")
        child.stdin.flush()
    except BrokenPipeError as error:
        raise child.failed("has ended") from error
