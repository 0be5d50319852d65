"""Digests of a model's files: the part of a fingerprint that a directory can tell. No tensor is loaded."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.types.errors import KvctlError, UsageError

LABEL = b"kvctl files 1\0"
TENSORS = ("*.safetensors",)
WEIGHTS = (*TENSORS, "*.py")  # a model's own code decides what its weights compute
ADAPTER_WEIGHTS = ("adapter_model.safetensors",)  # where it is, no engine looks for them elsewhere
ADAPTER = (*TENSORS, "adapter_config.json")
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "tekken.json",
    "spiece.model",
    "*.tiktoken",
)
PATHS = ("_name_or_path", "_commit_hash")  # where a config lay, not what it says
READERS = 4  # files hashed side by side; hashing runs outside the interpreter's lock


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a model directory holds; the digests in the form that Fingerprint takes."""

    weights: str
    config: dict[str, Any]
    tokenizer: str


def read_model(path: Path) -> ModelFiles:
    """Read and digest a model directory in the layout of Hugging Face.

    UsageError KV-CONN-021 when something is missing, KvctlError KV-CONN-022 when a file cannot be read, or changes
    while it is read.
    """
    config = _read_object(path / "config.json")
    for name in PATHS:
        config.pop(name, None)
    return ModelFiles(digest_weights(path), config, digest_tokenizer(path))


def digest_weights(path: Path) -> str:
    """The content of a model's weights and code, for Fingerprint.weights. Errors as in `read_model`."""
    _check_shards(path)
    return digest_files(path, TENSORS, WEIGHTS)


def digest_tokenizer(path: Path) -> str:
    return digest_files(path, TOKENIZER, TOKENIZER)


def digest_adapter(path: Path) -> str:
    """The content of a LoRA adapter's directory, for Fingerprint.lora. Errors as in `read_model`."""
    _read_object(path / "adapter_config.json")
    return digest_files(path, ADAPTER_WEIGHTS, ADAPTER)


def digest_files(path: Path, needed: Sequence[str], patterns: Sequence[str]) -> str:
    """`sha256:` and the digest over name, length and content of every file that matches `patterns`, sorted by name.

    KV-CONN-021 unless one matches `needed`; KV-CONN-022 as in `read_model`.
    """
    if not matching(path, needed):
        raise _missing(path, f"there is no {' or '.join(needed)}")
    files = matching(path, patterns)
    with ThreadPoolExecutor(READERS) as pool:
        contents = list(pool.map(_digest_file, files))
    whole = hashlib.sha256(LABEL)
    for file, (size, content) in zip(files, contents, strict=True):
        name = os.fsencode(file.name)
        whole.update(len(name).to_bytes(8, "little") + name + size.to_bytes(8, "little") + content)
    return f"sha256:{whole.hexdigest()}"


def matching(path: Path, patterns: Sequence[str]) -> list[Path]:
    found = {file for pattern in patterns for file in path.glob(pattern) if not file.is_dir()}
    return sorted(found, key=lambda file: os.fsencode(file.name))


def _digest_file(path: Path) -> tuple[int, bytes]:
    """(length, SHA-256 of the content). A file that was written meanwhile has no content to speak of."""
    try:
        with path.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            content = hashlib.file_digest(file, "sha256").digest()
            after = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _unreadable(path, "it changed while it was read")
    return before.st_size, content


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise _missing(path.parent, f"there is no {path.name}") from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _missing(path.parent, f"{path.name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _missing(path.parent, f"{path.name} is not a JSON object")
    return value


def _check_shards(path: Path) -> None:
    """A half-copied model would get a fingerprint of its own, and a cold cache that nobody can explain."""
    for index in matching(path, ("*.safetensors.index.json",)):
        shards = _read_object(index).get("weight_map")
        if not isinstance(shards, dict):
            raise _missing(path, f"{index.name} has no weight_map")
        absent = sorted({str(shard) for shard in shards.values() if not (path / str(shard)).exists()})
        if absent:
            raise _missing(path, f"{len(absent)} files named by {index.name} are missing, {absent[0]} first")


def _missing(path: Path, why: str) -> UsageError:
    return UsageError(
        "KV-CONN-021",
        "this is no whole model",
        where=str(path),
        why=why,
        fix="give a directory with config.json, *.safetensors and the tokenizer's files, all of them copied",
    )


def _unreadable(path: Path, why: str) -> KvctlError:
    return KvctlError(
        "KV-CONN-022",
        "a model's file cannot be read",
        where=str(path),
        why=why,
        fix="wait until nothing writes there, and see that this user may read it",
    )
