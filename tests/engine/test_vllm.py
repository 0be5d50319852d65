"""A real vLLM with the tier over a real kvstored: what is restored, what is not, and what a sick store costs."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvctl.connector.keys import Identity
from tests.engine.serving import BLOCK, ROOT, ROW, Answered, Engine, Site, engine_home, environment, prompt, tiny_model

pytestmark = pytest.mark.engine

LONG = prompt(8192, "long")
MIDDLE = prompt(4096, "middle")
SHORT = prompt(1024, "short")
PATIENCE = 30.0  # seconds


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


REFUSALS = """
import sys
from types import SimpleNamespace as N
from kvctl.connector import vllm_tier
from kvctl.types.errors import KvctlError

def start(building, algorithm="sha256_cbor", policy="recompute", nodes=1):
    parallel = N(nnodes=nodes, world_size=nodes, local_world_size=1)
    vllm = N(cache_config=N(prefix_caching_hash_algo=algorithm), parallel_config=parallel,
             kv_transfer_config=N(kv_load_failure_policy=policy))
    vllm_tier.KvctlConnector.building = (vllm, None) if building else None
    rows = memoryview(bytearray(8192)).cast("B", (2, 4096))
    key = "ab" * 32
    node = {"name": "one", "addresses": ["tcp:127.0.0.1:1"], "public_key": key}
    try:
        vllm_tier.KvctlTier(None, rows, "KvctlTier", identity="/k", leases="/l", gateways=[key], stores=[node])
    except KvctlError as error:
        print(error.code)

start(False)
start(True, policy="fail")
start(True, algorithm="sha256")
start(True, nodes=2)
"""


class Stage:
    """One engine at a time over one store. Each kind is started when a test first asks for it."""

    def __init__(self, folder: Path) -> None:
        self.home = engine_home()
        self.folder = folder
        self.model = folder / "model"
        tiny_model(self.home, self.model)
        self.site = Site(folder / "site")
        self.site.daemon.start()
        self.kind = ""
        self.engine: Engine | None = None
        self._cold: dict[int, Answered] = {}

    def use(self, kind: str, **options: object) -> Engine:
        if self.kind != kind or self.engine is None:
            self.stop()
            # Kept before it is ready: one that does not come up is ended all the same.
            self.engine = Engine(self.home, self.model, self.folder, self.site.options(**options))
            self.kind = kind
            self.engine.start()
        return self.engine

    def stop(self) -> None:
        if self.engine is not None:
            assert self.engine.metric("kvctl_tier_defects_total") == 0
            self.engine.stop()
            self.engine = None

    @property
    def chunks(self) -> float:
        return self.site.daemon.metric('kvstored_tier_chunks{tier="flash"}')

    def writer(self) -> Engine:
        """An engine that loads and stores, and has computed and stored every prompt."""
        engine = self.use("writer")
        for ids in (LONG, MIDDLE, SHORT):
            if len(ids) not in self._cold:
                self._cold[len(ids)] = engine.complete(ids, self.site.body())
        until(lambda: self.chunks >= (len(LONG) + len(MIDDLE) + len(SHORT)) // BLOCK)
        return engine

    def reader(self) -> Engine:
        """An engine started after the writer has ended, which only loads. It holds nothing itself."""
        if self.kind != "reader":
            self.writer()
        engine = self.use("reader", role="consumer")
        engine.forget()
        return engine

    def cold(self, ids: list[int]) -> Answered:
        if len(ids) not in self._cold:
            self.writer()
        return self._cold[len(ids)]

    def restart_store(self) -> None:
        self.site.daemon.events.clear()
        self.site.daemon.start()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("engine"))
    try:
        yield made
    finally:
        if made.engine is not None:
            made.engine.stop()
        if made.site.daemon.alive:
            made.site.daemon.stop()


def test_a_prompt_is_computed_once_and_its_whole_chunks_are_stored(stage: Stage):
    engine = stage.writer()
    assert stage.cold(LONG).cached == 0
    assert engine.metric("kvctl_tier_stored_chunks_total{") == stage.chunks
    assert engine.metric("kvctl_tier_prefill_tokens_per_second{") > 0


def test_without_a_valid_handle_nothing_is_loaded_and_nothing_stored(stage: Stage):
    engine = stage.writer()
    site = stage.site
    bad = {
        "no-handle": {"cache_salt": site.salt()},
        "malformed": {**site.body(), "kv_transfer_params": {"kvctl": {"tenant": "acme"}}},
        "forged": site.body(handle=site.handle(signer=Identity.generate())),
        "expired": site.body(handle=site.handle(lasts=-1)),
        "salt": site.body(handle=site.handle("globex")),  # acme's salt and another tenant's handle
    }
    other = prompt(512, "nobody's")
    before = stage.chunks
    for reason, more in bad.items():
        for ids, name in ((SHORT, "acme's"), (other, "nobody's")):
            engine.forget()
            seen = engine.metric(f'kvctl_tier_misses_total{{reason="{reason}"}}')
            found = engine.complete(ids, more)
            assert found.cached == 0, (reason, name)
            assert ids is other or found.tokens == stage.cold(SHORT).tokens
            until(lambda r=reason, s=seen: engine.metric(f'kvctl_tier_misses_total{{reason="{r}"}}') == s + 1)
            assert engine.metric(f'kvctl_tier_unstored_chunks_total{{reason="{reason}"}}') > 0
    assert stage.chunks == before


def test_another_tenant_finds_nothing_and_the_same_finds_all(stage: Stage):
    engine = stage.writer()
    engine.forget()
    theirs = engine.complete(SHORT, stage.site.body("globex"))
    assert (theirs.cached, theirs.tokens) == (0, stage.cold(SHORT).tokens)
    engine.forget()
    own = engine.complete(SHORT, stage.site.body("acme"))
    assert (own.cached, own.tokens) == (len(SHORT), stage.cold(SHORT).tokens)


def test_an_engine_that_was_restarted_restores_every_whole_chunk(stage: Stage):
    engine = stage.reader()
    read = engine.metric("kvctl_tier_read_bytes_total{")
    found = engine.complete(LONG, stage.site.body())
    assert (found.cached, found.tokens) == (len(LONG), stage.cold(LONG).tokens)
    assert engine.metric("kvctl_tier_read_bytes_total{") - read == len(LONG) // BLOCK * ROW
    assert engine.metric("kvctl_tier_used_bytes_total{") == engine.metric("kvctl_tier_read_bytes_total{")
    assert engine.metric("vllm:external_prefix_cache_hits_total{") >= len(LONG)


def test_a_prefix_is_restored_and_the_rest_computed(stage: Stage):
    engine = stage.reader()
    found = engine.complete([*SHORT, *prompt(300, "more")], stage.site.body())
    assert found.cached == len(SHORT)


def test_a_consumer_stores_nothing(stage: Stage):
    engine = stage.reader()
    before = stage.chunks
    engine.complete(prompt(512, "new"), stage.site.body())
    until(lambda: engine.metric('kvctl_tier_unstored_chunks_total{reason="role"}') >= 512 // BLOCK)
    assert stage.chunks == before


def test_flipped_bits_cost_a_recompute_of_what_they_hit(stage: Stage):
    engine = stage.reader()
    stage.site.daemon.stop()
    flipped = flip(stage.site.folder / "mount")
    assert flipped
    stage.restart_store()
    until(lambda: reached(engine, stage))
    engine.forget()
    found = engine.complete(LONG, stage.site.body())
    assert found.tokens == stage.cold(LONG).tokens
    assert found.cached < len(LONG)
    assert engine.metric("kvctl_tier_failed_chunks_total{") > 0


def reached(engine: Engine, stage: Stage) -> bool:
    """Whether the engine asks the store again."""
    engine.complete(prompt(256, "anything"), stage.site.body(), 1)
    return engine.metric("kvctl_tier_store_up{") == 1


def flip(mount: Path) -> int:
    """Change one byte in the middle of each MiB of every large file."""
    changed = 0
    for path in mount.rglob("*"):
        if path.is_file() and path.stat().st_size > 8 << 20 and path.suffix != ".mdb":
            with path.open("r+b") as file:
                for at in range(1 << 19, path.stat().st_size, 1 << 20):
                    file.seek(at)
                    byte = file.read(1)
                    file.seek(at)
                    file.write(bytes((byte[0] ^ 0x10,)))
                    changed += 1
    return changed


def test_the_tier_does_not_start_where_it_could_do_harm(stage: Stage):
    command = [stage.home / "bin" / "python", "-c", REFUSALS]
    told = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True, timeout=240)
    codes = [line for line in told.stdout.splitlines() if line.startswith("KV-")]
    assert codes == ["KV-VLLM-002", "KV-VLLM-003", "KV-CONN-001", "KV-CONN-003"]
