"""One context twice through a lab's gateway: computed, then restored from the stores into an engine that forgot it."""

import json
import random
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from kvctl.connector.unixhttp import UnixConnection
from kvctl.fleet.lab import serving
from kvctl.fleet.lab.serving_engine import BLOCK, MODEL
from kvctl.types.errors import KvctlError

OUTPUT = 16  # tokens
PATIENCE = 60.0  # seconds for a context's chunks to be stored
POLL = 0.1
COUNTED = 5.0  # seconds
WARM = 4 * BLOCK  # tokens of a first prompt, whose time is not shown
VOCABULARY = range(6, 4096)  # of the tiny model, without its special tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """One request: seconds to the first token and between tokens, tokens taken from a cache, the output."""

    first: float
    gaps: tuple[float, ...]
    prompt: int
    cached: int
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What `kvctl lab restore` prints."""

    tokens: int
    cold_seconds: float
    cold_cached: int
    restored_seconds: float
    restored_cached: int
    restored_bytes: int  # plaintext that the engine took from stores for it
    identical: bool

    @property
    def ratio(self) -> float:
        return self.cold_seconds / self.restored_seconds

    def document(self) -> dict[str, Any]:
        return {"schema": "kvctl.lab.restore/1", **asdict(self), "ratio": round(self.ratio, 2)}

    def lines(self) -> list[str]:
        same = "identical output" if self.identical else "ANOTHER OUTPUT"
        return [
            f"computed:  {self.tokens} tokens, first token after {self.cold_seconds:.2f} s, {self.cold_cached} cached",
            f"restored:  {self.tokens} tokens, first token after {self.restored_seconds:.2f} s, "
            f"{self.restored_cached} cached, {self.restored_bytes / (1 << 20):.0f} MiB from stores, {same}",
            f"ratio:     {self.ratio:.1f}",
        ]


def prompt(length: int, seed: str) -> list[int]:
    """Token ids; 0 is where the model's texts begin."""
    chance = random.Random(seed)
    return [0, *(chance.choice(VOCABULARY) for _ in range(length - 1))]


def complete(
    sock: Path, ids: Sequence[int], count: int = OUTPUT, *, more: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None, seconds: float = serving.ANSWER,
) -> Answer:  # fmt: skip
    """Greedy tokens for a prompt of token ids, streamed. KV-LAB-054 with what was answered instead; OSError and
    HTTPException when nobody answers."""
    body = {
        "model": MODEL, "prompt": list(ids), "max_tokens": count, "temperature": 0, "ignore_eos": True, "stream": True,
        "return_token_ids": True, "stream_options": {"include_usage": True}, **(more or {}),
    }  # fmt: skip
    connection = UnixConnection(sock, seconds)
    begun = time.monotonic()
    try:
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise failed(f"status {answer.status}: {answer.read(600).decode(errors='replace')}")
        return read(answer, begun)
    finally:
        connection.close()


def read(events: Iterable[bytes], begun: float) -> Answer:
    """The events of a stream as they come; `begun`: of the monotonic clock."""
    times: list[float] = []
    output: list[int] = []
    usage: dict[str, Any] = {}
    for line in events:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise failed(str(event["error"]))
        tokens = [token for choice in event.get("choices", ()) for token in choice.get("token_ids") or ()]
        if tokens:
            times.append(time.monotonic())
        output += tokens
        usage = event.get("usage") or usage
    if not times or not usage:
        raise failed("the stream ended without tokens or usage")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    gaps = tuple(later - earlier for earlier, later in pairwise(times))
    return Answer(times[0] - begun, gaps, int(usage["prompt_tokens"]), int(cached), tuple(output))


def failed(why: str) -> KvctlError:
    return KvctlError("KV-LAB-054", "a prompt was not completed", why=why)


def chunks_there(engine: Path) -> float:
    """How many chunks the engine has sent to stores, or found there."""
    text = serving.ask(engine, "GET", "/metrics")[1].decode()
    return sum(serving.metric(text, f"kvctl_tier_{name}_chunks_total") for name in ("stored", "known"))


def await_stored(engine: Path, wanted: float) -> None:
    """KV-LAB-055 with the reasons when that many chunks do not get there."""
    until = time.monotonic() + PATIENCE
    while chunks_there(engine) < wanted:
        if time.monotonic() > until:
            text = serving.ask(engine, "GET", "/metrics")[1].decode()
            names = ("kvctl_tier_unstored_chunks_total{", "kvctl_tier_misses_total{", "kvctl_tier_lease_problems{")
            why = "; ".join(row for row in text.splitlines() if row.startswith(names) and not row.endswith(" 0.0"))
            raise KvctlError("KV-LAB-055", "the context did not reach the stores", why=why or "no reason was counted")
        time.sleep(POLL)


def ask(at: serving.Sockets, key: str, ids: list[int]) -> Answer:
    """Through the gateway, as a client does."""
    return complete(at.gateway, ids, headers={"Authorization": f"Bearer {key}", "x-kvctl-subject": "lab"})


def store(at: serving.Sockets, key: str, ids: list[int]) -> Answer:
    """A new prompt, computed, and its whole chunks at the stores."""
    wanted = chunks_there(at.engine) + len(ids) // BLOCK
    answer = ask(at, key, ids)
    await_stored(at.engine, wanted)
    return answer


def used(engine: Path) -> int:
    """Plaintext bytes that the engine took from stores so far."""
    return int(serving.metric(serving.ask(engine, "GET", "/metrics")[1].decode(), "kvctl_tier_used_bytes_total"))


def grown(engine: Path, before: int) -> int:
    """Bytes taken since then. An engine counts with its next step, so a request is waited for a little."""
    until = time.monotonic() + COUNTED
    while (now := used(engine)) == before and time.monotonic() < until:
        time.sleep(POLL)
    return now - before


def forget(engine: Path) -> None:
    """Drop what the engine holds itself, its host tier included."""
    status, said = serving.ask(engine, "POST", "/reset_prefix_cache?reset_external=true")
    if status != 200:
        raise KvctlError("KV-LAB-056", "the engine did not reset its caches", why=said.decode(errors="replace")[:300])


def show(at: serving.Sockets, key: str, length: int) -> Shown:
    """A context that nobody has had yet, computed; then, after the engine forgot it, restored."""
    seed = secrets.token_hex(8)
    store(at, key, prompt(WARM, f"warm {seed}"))
    ids = prompt(length, seed)
    cold = store(at, key, ids)
    forget(at.engine)
    before = used(at.engine)
    restored = ask(at, key, ids)
    return Shown(
        cold.prompt, round(cold.first, 3), cold.cached, round(restored.first, 3), restored.cached,
        grown(at.engine, before),
        cold.output == restored.output,
    )  # fmt: skip
