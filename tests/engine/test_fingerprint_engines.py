"""Engines of one model that vLLM was told to compute otherwise: nothing of one's KV is loaded by another."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.serving import ROOT, Answered, Engine, engine_home, environment, prompt, tiny_model
from tests.engine.test_other_engines import Shelf

pytestmark = pytest.mark.engine

IDS = prompt(1024, "long")
HALF = 32  # angles of a head of the tiny model
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 2048,
    "short_factor": [1.0] * HALF,
    "long_factor": [8.0] * HALF,
}
PLAIN = {"rope_type": "default", "rope_theta": 500.0}


def configured(folder: Path, rope: dict[str, Any] | None, **more: Any) -> Path:
    """config.json of the tiny model in `folder`, with another RoPE."""
    config = json.loads((engine_home() / "tiny-0" / "config.json").read_text())
    config |= {} if rope is None else {"rope_parameters": rope, "max_position_embeddings": 16384}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    return folder


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """A store, and a model whose RoPE takes its factors by the length that the engine was given."""
    made = Shelf(tmp_path_factory.mktemp("shelf"))
    configured(made.model, LONG)
    try:
        made.filled("short", IDS, "--max-model-len", "2048")
        yield made
    finally:
        made.stop()


def computed(shelf: Shelf, engine: Engine) -> Answered:
    """What the engine says without the tier."""
    engine.forget()
    found = engine.complete(IDS, {"cache_salt": shelf.site.salt()})
    assert found.cached == 0
    return found


def print_of(shelf: Shelf, name: str) -> Path:
    (file,) = shelf.prints(name)
    return file


def finds_nothing(shelf: Shelf, name: str, *arguments: str) -> None:
    engine = shelf.start(name, *arguments)
    found = shelf.stored(engine, IDS)
    assert found.cached == 0
    assert engine.metric("kvctl_tier_read_bytes_total{") == 0
    assert found.tokens == computed(shelf, engine).tokens
    engine.stop()


def test_a_length_that_changes_rope_is_another_model(shelf: Shelf):
    finds_nothing(shelf, "long", "--max-model-len", "10240")
    assert shelf.differing(print_of(shelf, "short"), print_of(shelf, "long")) == {"config.engine.max_model_len"}


def test_a_config_from_elsewhere_is_another_model_and_its_length_is_none(shelf: Shelf):
    other = str(configured(shelf.folder / "other", PLAIN))
    finds_nothing(shelf, "config", "--max-model-len", "2048", "--hf-config-path", other)
    named = shelf.differing(print_of(shelf, "short"), print_of(shelf, "config"))
    assert {"config.rope_parameters.rope_type", "config.rope_parameters.rope_theta"} <= named
    engine = shelf.start("config-long", "--max-model-len", "4096", "--hf-config-path", other)
    found = engine.complete(IDS, shelf.site.body())
    assert (found.cached, found.tokens) == (len(IDS), computed(shelf, engine).tokens)
    engine.stop()
    assert print_of(shelf, "config-long").name == print_of(shelf, "config").name


DRAFT = json.dumps({"method": "draft_model", "model": "{draft}", "num_speculative_tokens": 2})
NGRAM = json.dumps({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3})
# Arguments, and the entries of the config of which at least these are named. The model is plain unless it says so.
SETTINGS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "overrides": (("--hf-overrides", json.dumps({"rope_parameters": PLAIN})), {"rope_parameters"}),
    "rope-in-config": (("--hf-config-path", "{linear}"), {"rope_parameters"}),
    "quantization": (("--quantization", "fp8_per_tensor"), {"engine.quantization", "engine.quantization_config"}),
    "quantized-parts": (
        ("--quantization", "online", "--quantization-config", '{"linear": "fp8_per_block"}'),
        {"engine.quantization_config"},
    ),
    "dummy": (("--load-format", "dummy"), {"engine.load_format", "engine.seed"}),
    "implementation": (("--model-impl", "transformers"), {"engine.architecture"}),
    "dtype": (("--dtype", "float32"), {"engine.dtype"}),
    "draft": (("--speculative-config", DRAFT), {"engine.draft"}),
    "cache": (("--kv-cache-dtype", "fp8_e5m2"), {"engine.cache_dtype"}),
}
SAME: dict[str, tuple[str, ...]] = {
    "length": ("--max-model-len", "4096"),
    "copy": ("--hf-config-path", "{copy}"),
    "name": ("--served-model-name", "other"),
    "seed": ("--seed", "7"),
    "lookup": ("--speculative-config", NGRAM),
    "load": ("--gpu-memory-utilization", "0.5", "--max-num-seqs", "3"),
}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What stands in the fingerprints' config for every entry of SETTINGS and SAME, from vLLM's own objects."""
    folder = tmp_path_factory.mktemp("configs")
    home = engine_home()
    tiny_model(home, folder / "model")
    tiny_model(home, folder / "draft", seed=1)
    places = {
        "{linear}": str(configured(folder / "linear", {**PLAIN, "rope_type": "linear", "factor": 2.0})),
        "{copy}": str(configured(folder / "copy", None)),
        "{draft}": str(folder / "draft"),
    }
    llama4 = configured(folder / "llama4", PLAIN, model_type="llama4_text", architectures=["Llama4ForCausalLM"])
    arguments = {"first": (), **{name: given for name, (given, _) in SETTINGS.items()}, **SAME}
    asked = {
        name: {"model": str(folder / "model"), "arguments": [placed(word, places) for word in given]}
        for name, given in arguments.items()
    }
    for length in ("2048", "8192"):
        asked[f"llama4-{length}"] = {"model": str(llama4), "arguments": ["--max-model-len", length]}
    asked["elsewhere"] = {"model": str(folder / "model"), "arguments": ["--load-format", "pt"]}
    command = [home / "bin" / "python", "-m", "tests.engine.configs"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), input=json.dumps(asked), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def placed(word: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        word = word.replace(name, path)
    return word


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    flat = [
        {**config, **{f"engine.{name}": held for name, held in config["engine"].items()}} for config in (one, other)
    ]
    return {name for name in flat[0].keys() | flat[1].keys() if flat[0].get(name) != flat[1].get(name)} - {"engine"}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_vllm_was_told_is_named(configs: dict[str, dict[str, Any]], name: str):
    assert changed(configs["first"], configs[name]) >= SETTINGS[name][1]


@pytest.mark.parametrize("name", SAME)
def test_what_changes_no_kv_is_no_other_model(configs: dict[str, dict[str, Any]], name: str):
    assert changed(configs["first"], configs[name]) == set()


def test_llama_4_is_named_by_its_length(configs: dict[str, dict[str, Any]]):
    assert changed(configs["llama4-2048"], configs["llama4-8192"]) == {"engine.max_model_len"}


def test_weights_that_are_not_those_of_the_directory_are_refused(configs: dict[str, dict[str, Any]]):
    assert configs["elsewhere"] == {"refused": "KV-VLLM-009"}
