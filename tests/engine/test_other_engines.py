"""What one engine stored is nothing to an engine of other settings, and the fingerprints say in what they differ."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import adapter
from tests.engine.serving import BLOCK, ROOT, Answered, Engine, Site, engine_home, prompt, tiny_model

pytestmark = pytest.mark.engine

IDS = prompt(512, "shared")
PATIENCE = 60.0
ROPE = json.dumps({"rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0}})
# Arguments of the other engine, and the fields of which at least these are named.
SETTINGS = {
    "rope": (("--hf-overrides", ROPE), {"config.rope_parameters.rope_type", "config.rope_parameters.factor"}),
    "dtype": (("--dtype", "bfloat16"), {"kv_dtype", "config.engine.dtype", "row_bytes"}),
    "block": (("--block-size", "64"), {"tokens_per_hash", "row_bytes"}),
}


class Shelf:
    """A store, and the fingerprints of the engines that used it, by a name that the test gives them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = engine_home()
        self.model = folder / "model"
        tiny_model(self.home, self.model)
        self.site = Site(folder / "site")
        self.site.daemon.start()
        self.engines: list[Engine] = []

    def start(self, name: str, *more: str) -> Engine:
        options = self.site.options(fingerprints=str(self.folder / "prints" / name))
        made = Engine(self.home, self.model, self.folder, options, *more, name=name)
        self.engines.append(made)
        return made.start()

    def filled(self, name: str, ids: list[int], *more: str) -> None:
        """Start an engine that stores the whole chunks of these tokens, finds them again, and ends."""
        engine = self.start(name, *more)
        assert self.stored(engine, ids).cached == 0
        engine.forget()
        assert engine.complete(ids, self.site.body()).cached == len(ids)
        engine.stop()

    def stop(self) -> None:
        for engine in self.engines:
            engine.stop()
        self.site.daemon.stop()

    def prints(self, name: str) -> list[Path]:
        return sorted((self.folder / "prints" / name).iterdir())

    def stored(self, engine: Engine, ids: list[int], **more: object) -> Answered:
        """The answer, once every whole chunk of it is with the store."""
        before = taken(engine)
        found = engine.complete(ids, self.site.body() | more)
        end = time.monotonic() + PATIENCE
        while taken(engine) < before + len(ids) // BLOCK:
            assert time.monotonic() < end
            engine.complete(prompt(16), {}, 1)
            time.sleep(0.1)
        return found

    def differing(self, one: Path, other: Path) -> set[str]:
        """Fields that `kvctl fingerprint --diff` names."""
        command = [sys.executable, "-m", "kvctl", "fingerprint", "--diff", str(one), str(other), "-o", "json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 3, done.stderr
        return {item["field"] for item in json.loads(done.stdout)["differences"]}


def taken(engine: Engine) -> float:
    return sum(engine.metric(f"kvctl_tier_{what}_chunks_total{{") for what in ("stored", "known"))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    made = Shelf(tmp_path_factory.mktemp("shelf"))
    try:
        made.filled("first", IDS)
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("what", SETTINGS)
def test_an_engine_of_other_settings_finds_nothing(shelf: Shelf, what: str):
    arguments, named = SETTINGS[what]
    engine = shelf.start(what, *arguments)
    try:
        assert engine.complete(IDS, shelf.site.body()).cached == 0
        assert engine.metric("kvctl_tier_read_bytes_total{") == 0
        assert engine.metric("kvctl_tier_defects_total{") == 0
    finally:
        engine.stop()
    (first,), (other,) = shelf.prints("first"), shelf.prints(what)
    assert shelf.differing(first, other) >= named


def test_other_weights_under_the_same_path_find_nothing(shelf: Shelf):
    tiny_model(shelf.home, shelf.model, seed=1)
    try:
        engine = shelf.start("weights")
        assert engine.complete(IDS, shelf.site.body()).cached == 0
        assert engine.metric("kvctl_tier_read_bytes_total{") == 0
        engine.stop()
    finally:
        tiny_model(shelf.home, shelf.model)
    (first,), (other,) = shelf.prints("first"), shelf.prints("weights")
    assert shelf.differing(first, other) == {"weights"}


def test_an_adapter_has_chunks_of_its_own_by_its_content(shelf: Shelf):
    folder = shelf.folder / "adapter"
    adapter.make(folder, seed=1)
    lora = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"tuned={folder}")
    tuned = {"model": "tuned"}
    engine = shelf.start("adapter", *lora)
    plain = engine.complete(IDS, shelf.site.body())
    assert plain.cached == len(IDS)  # the model's own chunks are the model's, whatever else is served
    first = shelf.stored(engine, IDS, **tuned)
    assert (first.cached, first.tokens == plain.tokens) == (0, False)
    engine.forget()
    again = engine.complete(IDS, shelf.site.body() | tuned)
    assert (again.cached, again.tokens) == (len(IDS), first.tokens)
    changed_while_it_runs(shelf, engine, folder)
    engine.stop()
    engine = shelf.start("trained-on", *lora)
    other = shelf.stored(engine, IDS, **tuned)
    assert (other.cached, other.tokens == first.tokens) == (0, False)
    assert engine.metric("kvctl_tier_defects_total{") == 0
    engine.stop()
    named_in_the_difference(shelf)


def changed_while_it_runs(shelf: Shelf, engine: Engine, folder: Path) -> None:
    """Nobody knows any more what of the adapter the engine has read."""
    adapter.make(folder, seed=2)
    engine.forget()
    lost = engine.complete(IDS, shelf.site.body() | {"model": "tuned"})
    assert lost.cached == 0
    engine.complete(prompt(16), {}, 1)
    end = time.monotonic() + PATIENCE
    while not engine.metric('kvctl_tier_misses_total{reason="lora"}'):
        assert time.monotonic() < end
        engine.complete(prompt(16), {}, 1)


def named_in_the_difference(shelf: Shelf) -> None:
    (model,) = shelf.prints("first")
    (one,) = [file for file in shelf.prints("adapter") if file.name != model.name]
    (other,) = [file for file in shelf.prints("trained-on") if file.name != model.name]
    assert "lora" in shelf.differing(model, one)
    assert shelf.differing(one, other) == {"lora"}
