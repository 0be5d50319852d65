"""Fingerprints: everything that decides what the bytes of a KV chunk mean. Another value is another name, so a miss.

The digest is SHA-256 over the fields in their order, each as name, kind and value, every text behind its length: no
two fingerprints give one text. docs/sealed-chunk.md tells what each field is for.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from kvctl.connector.modelfiles import read_model
from kvctl.types.errors import UsageError

SCHEMA = "kvctl.fingerprint/1"
FORMAT_VERSION = 1  # of names and sealed chunks together
LABEL = b"kvctl fingerprint 1\0"
CONTENT = re.compile(r"sha256:[0-9a-f]{64}")
CONTENT_OR_REVISION = re.compile(r"sha256:[0-9a-f]{64}|revision:([0-9a-f]{40}|[0-9a-f]{64})")
HEX = re.compile(r"([0-9a-f]{2})+")
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two engines must have in common to read each other's KV. ValueError for a value that pins nothing."""

    weights: str  # sha256:<digest of the files>, or revision:<commit that cannot move>
    config: str  # effective model config, RoPE included, as `canonical` JSON
    tokenizer: str  # like weights
    kv_dtype: str  # of the cache: bfloat16, fp8_e4m3, ...
    codec: str  # what chunks are packed with: none, ...
    codec_version: int
    layout: str  # order of a block's axes: NHD, HND, LBHNC, ...
    tokens_per_hash: int  # the engine's block
    blocks_per_chunk: int
    row_bytes: int  # plaintext of one chunk: all layers and ranks
    groups: tuple[str, ...]  # the engine's KV cache groups in its order: kind, window and layers of each
    tensor_parallel: int
    pipeline_parallel: int
    world_size: int
    hash_algorithm: str  # sha256_cbor
    hash_root: str  # hexadecimal: the parent of a prompt's first block
    lora: str | None  # sha256:<digest of the adapter's files>; None: the base model
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        _match("weights", self.weights, CONTENT_OR_REVISION)
        _match("tokenizer", self.tokenizer, CONTENT_OR_REVISION)
        _match("hash_root", self.hash_root, HEX)
        if self.lora is not None:
            _match("lora", self.lora, CONTENT)
        config = json.loads(self.config)
        if canonical(config) != self.config or not config:
            raise ValueError("config is not canonical JSON, or empty")
        for name in COUNTED:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it counts from 1")
        for name in ("kv_dtype", "codec", "layout", "groups", "hash_algorithm"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty")

    def digest(self) -> bytes:
        """32 bytes; `kvctl.connector.naming` puts them into every chunk's name."""
        parts = [_text(field.name) + _value(getattr(self, field.name)) for field in fields(self)]
        return hashlib.sha256(LABEL + b"".join(parts)).digest()

    def rows(self) -> list[tuple[str, str]]:
        """(name, value) of every field, the config's entries one by one, values as JSON."""
        found = [(field.name, getattr(self, field.name)) for field in fields(self) if field.name != "config"]
        return [(name, _json(value)) for name, value in found] + list(_leaves("config", json.loads(self.config)))

    def readable(self) -> str:
        """A line for each of `rows`, the digest first."""
        lines = [("digest", self.digest().hex()), *self.rows()]
        wide = max(len(name) for name, _ in lines)
        return "\n".join(f"{name.ljust(wide)}  {value}" for name, value in lines)

    def as_dict(self) -> dict[str, Any]:
        """What `from_json` reads: the fields, the config as an object, and the digest to compare them with."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        named |= {"config": json.loads(self.config), "groups": list(self.groups)}
        return {"schema": SCHEMA, "digest": self.digest().hex(), **named}


COUNTED = tuple(field.name for field in fields(Fingerprint) if field.type is int)


class EngineFields(TypedDict):
    """The fields of a fingerprint that the engine knows and its model's files do not."""

    kv_dtype: str
    codec: str
    codec_version: int
    layout: str
    tokens_per_hash: int
    blocks_per_chunk: int
    row_bytes: int
    groups: tuple[str, ...]
    tensor_parallel: int
    pipeline_parallel: int
    world_size: int
    hash_algorithm: str
    hash_root: str
    lora: str | None


def from_model_directory(
    path: Path, overrides: Mapping[str, Any] | None = None, **engine: Unpack[EngineFields]
) -> Fingerprint:
    """The fingerprint of a model in a directory, under an engine's settings.

    Reads every byte of the weights, once. `overrides` are what the engine was told to put in place of entries of
    config.json. Errors as in `kvctl.connector.modelfiles.read_model`; ValueError as from Fingerprint.
    """
    files = read_model(path)
    config = canonical({**files.config, **(overrides or {})})
    return Fingerprint(weights=files.weights, config=config, tokenizer=files.tokenizer, **engine)


def _match(name: str, value: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{name} is {value[:80]!r}, which is not {pattern.pattern}")


def canonical(config: Mapping[str, Any]) -> str:
    """JSON of one form: keys sorted, no spaces, ASCII. 1 and 1.0 differ: a miss too many, never a wrong load."""
    if not isinstance(config, Mapping):
        raise ValueError("a model's config is a JSON object")
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(8, "little") + data


def _value(value: object) -> bytes:
    """A letter for the kind, then the value: n nothing, s text, i whole number, t texts in order."""
    if value is None:
        return b"n"
    if isinstance(value, str):
        return b"s" + _text(value)
    if isinstance(value, tuple):
        return b"t" + len(value).to_bytes(8, "little") + b"".join(_text(item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return b"i" + _text(str(value))
    raise TypeError(f"a fingerprint holds no {type(value).__name__}")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _leaves(path: str, value: Any) -> list[tuple[str, str]]:
    """(path, JSON) of everything in a config; an empty object and a list are leaves."""
    if not isinstance(value, dict) or not value:
        return [(path, _json(value))]
    found = []
    for key in sorted(value):
        # A key with a dot in it must not look like two keys, or `diff` could call two configs equal.
        step = f".{key}" if PLAIN_NAME.fullmatch(key) else f"[{json.dumps(key)}]"
        found += _leaves(path + step, value[key])
    return found


class Difference(NamedTuple):
    """A field that differs; None: the config of that side has no such entry."""

    name: str
    left: str | None
    right: str | None


def diff(left: Fingerprint, right: Fingerprint) -> list[Difference]:
    """What differs, in the order of `rows`. Empty exactly when the digests are equal."""
    here, there = dict(left.rows()), dict(right.rows())
    names = [*here, *(name for name in there if name not in here)]
    return [Difference(name, here.get(name), there.get(name)) for name in names if here.get(name) != there.get(name)]


def to_json(fingerprint: Fingerprint) -> bytes:
    return json.dumps(fingerprint.as_dict(), indent=2).encode() + b"\n"


def from_json(data: bytes, *, where: str = "") -> Fingerprint:
    """The fingerprint that `to_json` wrote. UsageError KV-CONN-020 for anything else, an edited one included."""
    try:
        document = json.loads(data, parse_constant=_no_number)
        if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
            raise ValueError(f'no "schema": "{SCHEMA}"')
        claimed = document.pop("digest", None)
        fingerprint = _from_fields(document)
        if claimed not in (None, fingerprint.digest().hex()):
            raise ValueError("its digest is not that of its fields")
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "KV-CONN-020",
            "this is no fingerprint",
            where=where,
            why=str(error),
            fix="give a file as kvctl fingerprint -o json prints it, or leave its digest out after an edit",
        ) from error
    return fingerprint


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _from_fields(document: dict[str, Any]) -> Fingerprint:
    unknown = document.keys() - {field.name for field in fields(Fingerprint)}
    if unknown:
        raise ValueError(f"no fingerprint has the field {sorted(unknown)[0]!r}")
    if "format_version" not in document:
        raise ValueError("format_version is missing")
    return msgspec.convert({**document, "config": canonical(document.get("config", {}))}, Fingerprint)
