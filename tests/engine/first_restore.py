"""`python -m tests.engine.first_restore [RUNS]`: what a tier's first restore pays beyond its later ones, in ms.

Three kvstored on this machine; a new process for each run restores 64 chunks of 768 KiB four times. `cold` is a tier
that has nothing ready, `warm` the one that engines have. Medians over the runs.
"""

import json
import mmap
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kvctl.connector.connection import Connection
from kvctl.connector.handle import Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey, load_lease, write_lease
from kvctl.connector.sessions import Sessions
from kvctl.connector.tier_grants import Bearer
from kvctl.connector.tier_jobs import Jobs
from kvctl.connector.tier_options import read_options
from kvctl.connector.tier_restore import Answer, Chunk, Shape, Spot
from kvctl.connector.tier_service import Tier
from kvctl.connector.tier_warm import Warmer
from kvctl.types.chunks import Scope
from tests.store.daemon import Daemon

ROW, COUNT, TOKENS = 768 << 10, 64, 128
STEP = 0.0002  # seconds between two looks, as a busy scheduler takes them
SETTLE = 1.0  # seconds that an engine is up before its first request
HASHES = [b"%032d" % at for at in range(COUNT)]
MODES = ("cold", "warm")


class Spent(Counter[str]):
    """Milliseconds in calls, over all threads."""

    def follow(self, owner: type, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            begun = time.monotonic()
            try:
                return call(*given, **named)
            finally:
                self[name] += (time.monotonic() - begun) * 1e3  # type: ignore[assignment]

        setattr(owner, name, timed)


def restorer(folder: Path) -> tuple[Tier, Callable[[str], Bearer], memoryview]:
    gateway, lease = Identity.load(folder / "gateway.key"), load_lease(folder / "leases" / "acme.json")
    options = {
        "identity": str(folder / "engine.key"),
        "leases": str(folder / "leases"),
        "gateways": [gateway.public.hex()],
        "stores": json.loads((folder / "nodes.json").read_text()),
        "prefetch_bytes": 0,
        "assumed_tokens_per_second": 1000,  # no deadline cuts off what is measured
    }
    tier = Tier(read_options(options), Shape(bytes(32), ROW, {0: TOKENS}, {0: 1}), COUNT)
    salt = cache_salt(lease.key.salt_key, lease.scope.domain)
    scope = lease.scope

    def bearer(_: str) -> Bearer:
        made = Handle(tenant=scope.tenant, domain=scope.domain, epoch=scope.epoch, salt_digest=salt_digest(salt),
                      expires_at=int(time.time() + 600))  # fmt: skip
        return Bearer(sign(made, gateway), salt)

    memory = mmap.mmap(-1, ROW * COUNT)
    for at in range(0, len(memory), mmap.PAGESIZE):  # vLLM has its host tier's pages there
        memory[at] = 1
    return tier, bearer, memoryview(memory)


def chunks(memory: memoryview) -> list[Chunk]:
    return [Chunk(b"%d" % at, Spot(0, at), memory[at * ROW : (at + 1) * ROW]) for at in range(COUNT)]


def ended(tier: Tier) -> bool:
    while not (done := tier.finished()):
        time.sleep(STEP)
    return done[0].success


def restore(tier: Tier, bearer: Bearer, memory: memoryview, name: str, spent: Spent) -> dict[str, float]:
    spent.clear()
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    tier.announce(name, COUNT * TOKENS, HASHES, bearer)
    while (answer := tier.lookup(name, Spot(0, 0))) is Answer.RETRY:
        time.sleep(STEP)
    found = time.monotonic()
    tier.load(1, name, chunks(memory))
    if answer is not Answer.HIT or not ended(tier):
        raise SystemExit("the stores did not give what they were given")
    over, after = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    tier.finish(name)
    return {
        "whole": (over - begun) * 1e3,
        "question": (found - begun) * 1e3,
        "load": (over - found) * 1e3,
        "connect": spent["_dial"],
        "attach": spent["attach"],
        "page faults": after.ru_minflt - before.ru_minflt,
    }


def once(folder: Path, mode: str) -> None:
    """One process: store, or restore four times and print what each took."""
    spent = Spent()
    spent.follow(Sessions, "_dial")
    spent.follow(Connection, "attach")
    if mode == "cold":
        for owner, name in ((Warmer, "step"), (Jobs, "ready")):
            setattr(owner, name, lambda _: None)
    tier, bearer, memory = restorer(folder)
    tier.start()
    if mode == "store":
        tier.announce("r", COUNT * TOKENS, HASHES, bearer("r"))
        tier.store(1, "r", chunks(memory))
        print(json.dumps(ended(tier)))  # noqa: T201
    else:
        time.sleep(SETTLE)
        print(json.dumps([restore(tier, bearer(str(at)), memory, str(at), spent) for at in range(4)]))  # noqa: T201
    tier.close()


def site(folder: Path, stack: ExitStack) -> None:
    daemons = []
    for name in ("one", "two", "three"):
        (folder / name / "mount").mkdir(parents=True)
        made = Daemon(folder / name, module="kvctl.store.main")
        if daemons:
            made.connector, made.controller = daemons[0].connector, daemons[0].controller
            made.write()
        daemons.append(made.start())
        stack.callback(made.stop)
    (folder / "leases").mkdir()
    daemons[0].connector.save(folder / "engine.key")
    Identity.generate().save(folder / "gateway.key")
    scope = Scope("acme", "user", os.urandom(16))
    lease = KeyLease(RootKey(scope, os.urandom(32)), daemons[0].token(scope=scope), int(time.time()) + 3600)
    write_lease(folder / "leases" / "acme.json", lease)
    nodes = [
        {"name": made.folder.name, "addresses": [made.tcp], "public_key": made.identity.public.hex()}
        for made in daemons
    ]
    (folder / "nodes.json").write_text(json.dumps(nodes))


def run(folder: Path, mode: str) -> Any:
    command = [sys.executable, "-m", "tests.engine.first_restore", str(folder), mode]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        site(folder, stack)
        if not run(folder, "store"):
            raise SystemExit("the stores did not take the chunks")
        seen: dict[str, list[Any]] = {mode: [] for mode in MODES}
        for _ in range(runs):
            for mode in MODES:
                seen[mode].append(run(folder, mode))
    print("| tier | restore | " + " | ".join(seen["cold"][0][0]) + " |")  # noqa: T201
    for mode in MODES:
        for at in (0, 1, 3):
            row = [statistics.median(each[at][name] for each in seen[mode]) for name in seen[mode][0][0]]
            print(f"| {mode} | {at + 1} | " + " | ".join(f"{value:.0f}" for value in row) + " |")  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) == 3:
        once(Path(sys.argv[1]), sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
