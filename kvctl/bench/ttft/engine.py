"""A real vLLM on CPU with kvctl's tier, and a client that sees tokens and times."""

import contextlib
import http.client
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvctl.bench.hosts import say
from kvctl.bench.store.processes import Child, await_true, running
from kvctl.bench.ttft.cells import CHUNK
from kvctl.connector.tiny_model import HEADS, HIDDEN, KV_HEADS, LAYERS
from kvctl.connector.unixhttp import UnixConnection
from kvctl.fleet.lab import serving_engine as vllm
from kvctl.fleet.lab.serving_demo import OUTPUT, Answer, complete
from kvctl.types.errors import KvctlError

START = 400.0  # seconds to be ready on a busy machine
ANSWER = 600.0
BYTES_PER_TOKEN = LAYERS * 2 * KV_HEADS * (HIDDEN // HEADS) * 4  # K and V in float32
ROW = CHUNK * BYTES_PER_TOKEN
RAISED = re.compile(r"\b(\w+\.)*[A-Z]\w*(Error|Exception)\b: .{1,300}")
ERRORS = 3
REASON = re.compile(r'reason="([^"]*)"')
WHY = ("kvctl_tier_failed_chunks_total{", "kvctl_tier_misses_total{")
HARMLESS = re.compile(r"\b(WARNING|INFO) \d")  # levels of vLLM's log
TOKENS_PER_SECOND = 1000  # of prefill on such a machine, until the tier has measured it


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers on a unix socket."""

    child: Child
    socket: Path
    started: float  # seconds that its start took

    def complete(self, ids: Sequence[int], more: Mapping[str, object], count: int = OUTPUT) -> Answer:
        """Greedy tokens for a prompt of token ids, streamed. KV-BENCH-031 for what is no answer."""
        try:
            return complete(self.socket, ids, count, more=more, seconds=ANSWER)
        except (OSError, http.client.HTTPException, KvctlError) as error:
            raise self.gone(error) from error

    def at_once(
        self, prompts: Sequence[Sequence[int]], more: Mapping[str, object], count: int = OUTPUT
    ) -> tuple[Answer, ...]:
        """A session a prompt, all begun at one moment."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            return tuple(pool.map(lambda ids: self.complete(ids, more, count), prompts))

    def forget(self) -> None:
        """Drop what the engine holds itself, its host tier included. KV-BENCH-031."""
        status, said = self.ask("POST", "/reset_prefix_cache?reset_external=true")
        if status != 200:
            raise failed(f"it did not forget: {said[:200]}")

    def counters(self) -> dict[str, float]:
        """kvctl's counters, summed over labels; those with a reason also under that reason alone."""
        found: dict[str, float] = {}
        for line in self.ask("GET", "/metrics")[1].splitlines():
            if line.startswith("kvctl_tier_"):
                name, _, value = line.rpartition(" ")
                base, _, labels = name.partition("{")
                if base.endswith("_created"):
                    continue
                found[base] = found.get(base, 0.0) + float(value)
                if reason := REASON.search(labels):
                    found[reason[1]] = found.get(reason[1], 0.0) + float(value)
        return found

    def reasons(self) -> Counter[str]:
        """Why the tier did not load so far: chunks that were asked for by what happened, requests by the decision."""
        found: Counter[str] = Counter()
        for line in self.ask("GET", "/metrics")[1].splitlines():
            if line.startswith(WHY) and (reason := REASON.search(line)):
                found[reason[1]] += int(float(line.rpartition(" ")[2]))
        return found

    def ask(self, method: str, path: str) -> tuple[int, str]:
        with contextlib.closing(UnixConnection(self.socket, ANSWER)) as connection:
            try:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, http.client.HTTPException) as error:
                raise self.gone(error) from error

    def gone(self, error: Exception) -> KvctlError:
        """Why there is no answer: what the connection said, and the errors of the engine's log."""
        said = getattr(error, "why", "") or str(error) or type(error).__name__
        return failed("; ".join([said, *errors(self.child.log)]))

    @property
    def alive(self) -> bool:
        return self.child.process.poll() is None


def failed(why: str) -> KvctlError:
    return KvctlError("KV-BENCH-031", "the engine did not answer", why=why)


@contextmanager
def engine(home: Path, directory: Path, tier: Mapping[str, object], rows: int) -> Iterator[Engine]:
    """Start one, wait until it answers, and end it. `rows`: chunks of its host tier. KV-BENCH-012."""
    sock = directory / "engine.sock"
    sock.unlink(missing_ok=True)
    name = f"kvctl-bench-{os.getpid()}"
    label = f"engine-{len(list(directory.glob('engine-*.log'))) + 1}"
    say("start an engine")
    begun = time.monotonic()
    try:
        with running(
            label, argv(home, directory / "model", sock, name, tier, rows), directory, env=vllm.environment()
        ) as child:
            await_true(child, "it answers", lambda: answers(sock), START)
            made = Engine(child, sock, time.monotonic() - begun)
            say(f"  ready after {made.started:.0f} s")
            yield made
            if not made.alive:
                say("\n".join(["  the engine has ended by itself", *errors(child.log)]))
    finally:
        for left in Path("/dev/shm").glob(f"vllm_offload_{name}*"):  # of an engine that was killed
            left.unlink()


def errors(log: Path) -> list[str]:
    """The last exceptions that a log shows, each once, without what vLLM puts in front of a line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if not HARMLESS.search(line)]
    found = [match[0] for line in lines if (match := RAISED.search(line))]
    return list(dict.fromkeys(found))[-ERRORS:]


def argv(home: Path, model: Path, sock: Path, name: str, tier: Mapping[str, object], rows: int) -> list[str]:
    """As a lab's engine, with chunks of CHUNK tokens and a host tier of `rows` of them."""
    found = vllm.argv(home, model, sock, name, tier)
    at = found.index("--kv-transfer-config") + 1
    transfer = json.loads(found[at])
    transfer["kv_connector_extra_config"] |= {"cpu_bytes_to_use": rows * ROW, "blocks_per_chunk": CHUNK // vllm.BLOCK}
    return [*found[:at], json.dumps(transfer), *found[at + 1 :]]


def answers(sock: Path) -> bool:
    """Whether the engine is ready to serve."""
    with contextlib.closing(UnixConnection(sock, 5.0)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
