"""A model's fingerprint follows its files' content, and nothing that is not content."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from kvctl.connector import modelfiles
from kvctl.connector.fingerprint import diff, from_model_directory
from kvctl.connector.modelfiles import digest_adapter, read_model
from kvctl.types.errors import ExitCode, KvctlError, UsageError

ENGINE = {
    "kv_dtype": "bfloat16",
    "codec": "none",
    "codec_version": 1,
    "layout": "LBHNC",
    "tokens_per_hash": 16,
    "blocks_per_chunk": 8,
    "row_bytes": 1 << 20,
    "groups": ("full",),
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "world_size": 1,
    "hash_algorithm": "sha256_cbor",
    "hash_root": "ab" * 32,
    "lora": None,
}
FILES = {
    "config.json": b'{"model_type": "llama", "rope_theta": 10000.0, "_name_or_path": "/somewhere"}',
    "model-00001-of-00002.safetensors": b"first shard" * 1000,
    "model-00002-of-00002.safetensors": b"second shard" * 1000,
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    ).encode(),
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    for name, data in FILES.items():
        (path / name).write_bytes(data)
    return path


def changed(model, change) -> set[str]:
    """The fields that differ after `change` was made to a copy of the model."""
    other = model.with_name("other")
    shutil.copytree(model, other)
    change(other)
    return {item.name for item in diff(from_model_directory(model, **ENGINE), from_model_directory(other, **ENGINE))}


def test_a_copy_under_another_path_is_the_same_model(model):
    assert changed(model, lambda path: os.utime(path / "tokenizer.json", (1, 1))) == set()


def test_a_files_place_in_the_config_does_not_count(model):
    config = FILES["config.json"].replace(b"/somewhere", b"/elsewhere")
    assert changed(model, lambda path: (path / "config.json").write_bytes(config)) == set()


@pytest.mark.parametrize(
    ("name", "data", "field"),
    [
        ("model-00002-of-00002.safetensors", b"second shard" * 999 + b"second sharD", "weights"),
        ("model-00003.safetensors", b"", "weights"),
        ("modeling_own.py", b"rope = 1", "weights"),
        ("tokenizer.json", b"{ }", "tokenizer"),
        ("added_tokens.json", b"{}", "tokenizer"),
        ("config.json", b'{"model_type": "llama", "rope_theta": 20000.0}', "config.rope_theta"),
    ],
)
def test_each_kind_of_file_changes_its_field(model, name, data, field):
    assert changed(model, lambda path: (path / name).write_bytes(data)) == {field}


def test_files_that_say_nothing_about_kv_do_not_count(model):
    assert changed(model, lambda path: (path / "README.md").write_text("new")) == set()


def test_two_shards_swapped_are_another_model(model):
    def swap(path):
        first, second = (path / name for name in sorted(FILES) if name.endswith("safetensors"))
        first.rename(path / "kept")
        second.rename(first)
        (path / "kept").rename(second)

    assert changed(model, swap) == {"weights"}


def test_the_border_between_two_files_counts(model):
    def move_a_byte(path):
        first, second = (path / name for name in sorted(FILES) if name.endswith("safetensors"))
        whole = first.read_bytes() + second.read_bytes()
        first.write_bytes(whole[:100])
        second.write_bytes(whole[100:])

    assert changed(model, move_a_byte) == {"weights"}


def test_the_digest_is_the_documented_one(model):
    text = b"kvctl files 1\0"
    for name in sorted(name for name in FILES if name.endswith("safetensors")):
        size, content = len(FILES[name]), hashlib.sha256(FILES[name]).digest()
        text += len(name).to_bytes(8, "little") + name.encode() + size.to_bytes(8, "little") + content
    assert read_model(model).weights == "sha256:" + hashlib.sha256(text).hexdigest()


def test_what_the_engine_was_told_replaces_the_config(model):
    plain = from_model_directory(model, **ENGINE)
    told = from_model_directory(model, {"rope_scaling": {"factor": 2.0}}, **ENGINE)
    assert {item.name for item in diff(plain, told)} == {"config.rope_scaling.factor"}
    assert replace(told, config=plain.config) == plain


def test_links_into_a_cache_are_followed(model, tmp_path):
    blobs, linked = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    linked.mkdir()
    for number, name in enumerate(FILES):
        shutil.copy(model / name, blobs / str(number))
        (linked / name).symlink_to(blobs / str(number))
    assert read_model(linked) == read_model(model)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("config.json", None, "config.json"),
        ("config.json", b"{", "not JSON"),
        ("config.json", b"[]", "not a JSON object"),
        ("model-00002-of-00002.safetensors", None, "1 files named by"),
        ("model.safetensors.index.json", b"{}", "no weight_map"),
    ],
)
def test_half_a_model_is_refused(model, name, data, why):
    (model / name).unlink() if data is None else (model / name).write_bytes(data)
    error = refused(model)
    assert (error.code, error.exit_code) == ("KV-CONN-021", ExitCode.USAGE)
    assert why in error.why


@pytest.mark.parametrize("pattern", ["*.safetensors*", "tokenizer*"])
def test_a_model_without_a_kind_of_files_is_refused(model, pattern):
    for file in model.glob(pattern):
        file.unlink()
    assert "there is no" in refused(model).why


def refused(model) -> KvctlError:
    with pytest.raises(KvctlError) as caught:
        read_model(model)
    return caught.value


def test_a_shard_that_cannot_be_read_is_no_empty_shard(model):
    shard = model / "model-00003.safetensors"
    shard.symlink_to(model / "gone")
    error = refused(model)
    assert (error.code, error.where) == ("KV-CONN-022", str(shard))


def test_a_file_that_grows_while_it_is_read_is_refused(model, monkeypatch):
    real = hashlib.file_digest

    def write_meanwhile(file, name):
        digest = real(file, name)
        if file.name.endswith("tokenizer.json"):
            with (model / "tokenizer.json").open("ab") as other:
                other.write(b" ")
        return digest

    monkeypatch.setattr(modelfiles.hashlib, "file_digest", write_meanwhile)
    assert refused(model).code == "KV-CONN-022"


def test_an_adapter_is_known_by_its_content(tmp_path):
    for name, weights in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
        (tmp_path / name / "adapter_model.safetensors").write_bytes(weights)
    a, b, c = (digest_adapter(tmp_path / name) for name in "abc")
    assert a == b != c
    (tmp_path / "b" / "adapter_config.json").write_text('{"r": 16}')
    assert digest_adapter(tmp_path / "b") != a


def test_no_tensor_library_is_loaded():
    code = "import sys, kvctl.connector.fingerprint; print({'torch', 'safetensors', 'numpy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_an_adapter_whose_weights_are_not_what_would_be_digested_is_none(tmp_path):
    """An engine that finds no adapter_model.safetensors takes adapter_model.bin."""
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"one")
    (tmp_path / "new_embeddings.safetensors").write_bytes(b"two")
    with pytest.raises(UsageError, match="KV-CONN-021"):
        digest_adapter(tmp_path)
