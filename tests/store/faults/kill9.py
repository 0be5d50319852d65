"""SIGKILL of kvstored under load, again and again: what was acknowledged holds, and no byte is ever wrong.

python -m tests.store.faults.kill9 --rounds 100
"""

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from kvctl.types.chunks import Ack, Meta, Scope
from tests.store.faults.ledger import Chunk, Ledger
from tests.store.faults.load import Load
from tests.store.faults.rig import ACME, ZEN, Kvstored

ROUND_BYTES = 48 << 20
WINDOW = 600  # chunks: the youngest are read back after every round, of the older ones a sample, at the end all


@dataclass(slots=True)
class Victim:
    """What one round erases: a scope of its own, or a subject within a scope that others use too."""

    scope: Scope
    subject: bytes  # empty: the whole scope
    chunks: list[Chunk]
    acked: bool = False

    def erase(self, daemon: Kvstored) -> None:
        if self.subject:
            daemon.erase(tenant=self.scope.tenant, subject=self.subject)
        else:
            daemon.erase(self.scope)
        self.settle()

    def settle(self) -> None:
        self.acked = True
        for chunk in self.chunks:
            chunk.erased = True


@dataclass
class Kills:
    """One daemon and the book about it, over all rounds."""

    daemon: Kvstored
    seed: int
    evicts: bool = False
    reopened: list[float] = field(default_factory=list)
    erased: int = 0  # erasures that were acknowledged before a kill
    replayed: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.ledger = Ledger(self.evicts)
        self.unsettled: list[Victim] = []

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            self.round(number)
        self._open()
        self._retry()
        self.ledger.audit(self.daemon, self.ledger.chunks)
        assert self.daemon.stop() == 0

    def round(self, number: int) -> None:
        self._open()
        self._retry()
        self.ledger.audit(self.daemon, self._sample())
        victim = self._victim(number)
        load = Load(self.ledger, self.daemon, [ACME, ZEN], budget=ROUND_BYTES, seed=self.seed + number)
        with load:
            time.sleep(self.rng.uniform(0.1, 2.0 if self.evicts else 0.7))  # how far the load has come when it is cut
            if number % 4:
                self._erase_and_kill(victim, load, wait=number % 4 == 3)
            else:
                self._kill(load)
        self.ledger.killed()
        if number % 5 == 4:
            self._kill_while_opening()

    def _open(self) -> None:
        self.reopened.append(self.daemon.open())
        self.replayed += self.daemon.stat()["tiers"][0]["counters"]["replayed"]

    def _retry(self) -> None:
        """An erasure that was not acknowledged is asked for again, as the controller does."""
        for victim in self.unsettled:
            victim.erase(self.daemon)
        self.unsettled.clear()

    def _sample(self) -> list[Chunk]:
        old, young = self.ledger.chunks[:-WINDOW], self.ledger.chunks[-WINDOW:]
        return self.rng.sample(old, min(100, len(old))) + young

    def _victim(self, number: int) -> Victim:
        by_subject = number % 4 == 2
        scope = ACME if by_subject else Scope("acme", "agents", secrets.token_bytes(16))
        subject = secrets.token_bytes(16) if by_subject else b""
        chunks = [
            self.ledger.new(scope, self.rng.choice((5000, 70_000, 1 << 20)), Meta(subject=subject or bytes(16)))
            for _ in range(8)
        ]
        with self.daemon.client("unix") as client:
            for at, chunk in enumerate(chunks):
                chunk.victim = True
                self.ledger.put(client, self.daemon.lease(scope), chunk, Ack.DURABLE if at % 2 else Ack.VISIBLE)
        return Victim(scope, subject, chunks)

    def _erase_and_kill(self, victim: Victim, load: Load, *, wait: bool) -> None:
        """Kill at any moment of the erasure; with `wait`, right behind its acknowledgement."""
        done = Event()

        def erase() -> None:
            try:
                victim.erase(self.daemon)
            except (OSError, ValueError, AssertionError) as error:
                if not load.doomed.is_set():
                    self.ledger.complain(f"the erasure failed while the store was up: {error!r}")
            finally:
                done.set()

        for chunk in victim.chunks:  # either answer is right from now on
            chunk.visible = chunk.durable = False
        eraser = Thread(target=erase)
        eraser.start()
        done.wait(10 if wait else self.rng.uniform(0, 0.15))
        self._kill(load)
        eraser.join(20)
        self.erased += victim.acked
        if not victim.acked:
            self.unsettled.append(victim)

    def _kill(self, load: Load) -> None:
        load.doomed.set()
        self.daemon.kill()

    def _kill_while_opening(self) -> None:
        """A kill within the replay of the one before."""
        command = [sys.executable, "-m", self.daemon.module, "--config", str(self.daemon.config)]
        opening = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(self.rng.uniform(0.2, 1.0))
        opening.send_signal(signal.SIGKILL)
        opening.wait()

    def report(self) -> str:
        times = sorted(self.reopened)
        durable = sum(chunk.durable for chunk in self.ledger.chunks)
        return (
            f"{len(times) - 1} kills, seed {self.seed}: {len(self.ledger.chunks)} chunks, {durable} durable, "
            f"{self.replayed} replayed, {self.erased} erasures acknowledged before the kill; reopened within "
            f"{times[len(times) // 2]:.2f} s (median), {times[-1]:.2f} s (worst)\n  "
            + ", ".join(f"{name} {count}" for name, count in sorted(self.ledger.told.items()))
        )


def killed(folder: Path, rounds: int, seed: int, *, evicts: bool = False) -> Kills:
    """Run the rounds. With `evicts`, the capacity is so small that chunks must leave."""
    daemon = Kvstored(folder, capacity="96MiB" if evicts else "64GiB", ram="192MiB")
    kills = Kills(daemon, seed, evicts)
    try:
        kills.run(rounds)
    finally:
        daemon.end()
    return kills


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("kill9", description=__doc__)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("KVCTL_KILL_ROUNDS", "100")))
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31))
    parser.add_argument("--evict", action="store_true", help="with so small a capacity that chunks must leave")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="kvctl-kill9-") as folder:
        kills = killed(Path(folder), asked.rounds, asked.seed, evicts=asked.evict)
    sys.stdout.write(kills.report() + "\n")
    for line in kills.ledger.wrong:
        sys.stdout.write(f"WRONG: {line}\n")
    return 1 if kills.ledger.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
