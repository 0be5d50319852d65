"""LoRA adapters: named by their content, and by nothing when their files changed after the engine started."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvctl.connector.fingerprint import Fingerprint, diff, from_json
from kvctl.connector.tier_adapters import MARGIN_NS, Adapters
from kvctl.connector.tier_fingerprint import adapter_settings
from kvctl.connector.tier_prints import tell
from kvctl.connector.tier_restore import Shape

PRINT = Fingerprint(
    weights="sha256:" + "a" * 64,
    config='{"engine":{"dtype":"float32"},"hidden_size":512}',
    tokenizer="sha256:" + "b" * 64,
    kv_dtype="float32",
    codec="none",
    codec_version=1,
    layout="LBHNC",
    tokens_per_hash=128,
    blocks_per_chunk=1,
    row_bytes=8192,
    groups=("0 128",),
    tensor_parallel=1,
    pipeline_parallel=1,
    world_size=1,
    hash_algorithm="sha256_cbor",
    hash_root="00",
    lora=None,
)
SHAPE = Shape(PRINT.digest(), 8192, {0: 128}, {0: 1})


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 8}')
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


class Seen:
    """An engine that started a moment after everything that is there now was written."""

    def __init__(self, settings: dict[str, str] | None = None, base: Fingerprint = PRINT) -> None:
        self.prints: list[tuple[Fingerprint, str]] = []
        started = time.time_ns() + 2 * MARGIN_NS
        shape = replace(SHAPE, fingerprint=base.digest())
        told = lambda print_, of: self.prints.append((print_, of))  # noqa: E731
        self.adapters = Adapters(base, shape, settings or {"lora_dtype": "float32"}, started, told)

    def name(self, folder: Path) -> bytes | None:
        shape = self.adapters.shape(str(folder))
        return None if shape is None else shape.fingerprint


def later(path: Path) -> None:
    """As if it had been written after the engine started: only the time of its content can be set by hand."""
    os.utime(path, (time.time() + 60, time.time() + 60))


def test_an_adapter_is_named_by_its_content(adapter: Path, tmp_path: Path):
    first = Seen().name(adapter)
    assert first not in (None, PRINT.digest())
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in adapter.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert Seen().name(copy) == first
    (adapter / "adapter_model.safetensors").write_bytes(b"WEIGHTS")
    assert Seen().name(adapter) != first
    assert Seen({"lora_dtype": "bfloat16"}).name(copy) != first
    assert Seen(base=replace(PRINT, kv_dtype="float16")).name(copy) != first


@pytest.mark.parametrize("changed", [{"target_modules": ["o_proj"]}, {"enable_moe_shared_loras": True}])
def test_engines_that_apply_other_parts_of_an_adapter_share_no_chunks(adapter: Path, changed: dict[str, object]):
    plain = {"lora_dtype": "float32", "target_modules": None, "enable_moe_shared_loras": False}
    one, other = (
        adapter_settings(SimpleNamespace(lora_config=SimpleNamespace(**settings)))
        for settings in (plain, plain | changed)
    )
    assert Seen(one).name(adapter) != Seen(other).name(adapter)


def test_the_difference_to_the_model_and_between_adapters_names_lora(adapter: Path):
    seen = Seen()
    seen.name(adapter)
    seen.name(adapter)
    ((one, of),) = seen.prints
    assert str(adapter) in of
    assert {item.name for item in diff(PRINT, one)} == {"lora", "config.engine.lora_dtype"}
    (adapter / "adapter_config.json").write_text('{"r": 16}')
    other = Seen()
    other.name(adapter)
    assert [item.name for item in diff(one, other.prints[0][0])] == ["lora"]


def test_files_that_changed_since_the_start_are_named_by_nothing(adapter: Path):
    seen = Seen()
    later(adapter / "adapter_config.json")
    assert seen.name(adapter) is None


def test_files_that_change_while_it_runs_are_named_by_nothing_from_then_on(adapter: Path):
    seen = Seen()
    assert seen.name(adapter) is not None
    (adapter / "adapter_model.safetensors").write_bytes(b"trained on")
    assert seen.name(adapter) is None


def test_files_that_come_in_their_place_and_links_that_turn_are_seen(adapter: Path, tmp_path: Path):
    link = tmp_path / "current"
    link.symlink_to(adapter)
    seen = Seen()
    assert seen.name(link) == seen.name(adapter) is not None
    other = tmp_path / "other"
    other.mkdir()
    for file in adapter.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    link.unlink()
    link.symlink_to(other)
    assert seen.name(link) is None
    beside = tmp_path / "new"
    beside.write_bytes(b"new")
    beside.rename(adapter / "adapter_model.safetensors")
    assert seen.name(adapter) is None


@pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors", ""])
def test_what_is_no_adapter_is_named_by_nothing(adapter: Path, missing: str):
    if missing:
        (adapter / missing).unlink()
    assert Seen().name(adapter if missing else adapter / "none") is None


def test_fingerprints_are_kept_for_the_command_that_compares_them(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "prints"
    tell(PRINT, "the model", folder)
    (file,) = folder.iterdir()
    assert file.name == f"{PRINT.digest().hex()}.json"
    assert from_json(file.read_bytes()) == PRINT
    assert json.loads(file.read_text())["schema"] == "kvctl.fingerprint/1"
    (tmp_path / "file").write_text("")
    tell(PRINT, "the model", tmp_path / "file")
    assert "KV-VLLM-022" in caplog.text
