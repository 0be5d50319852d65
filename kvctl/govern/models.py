"""Pins of models: what a directory of weights must be, and in what another one differs. And how much KV a token is."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

CONFIG_KEYS = ("num_hidden_layers", "num_key_value_heads", "head_dim")
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Files:
    """What a model's directory is. Digests are `sha256:` and 64 hexadecimal digits."""

    weights: str
    tokenizer: str
    config: str
    licence: str  # of the licence's text; "none": the directory has none

    def digest_text(self) -> bytes:
        return "\n".join((self.weights, self.tokenizer, self.config)).encode()


@dataclass(frozen=True, slots=True)
class Difference:
    field: str
    pinned: str
    found: str


def differences(pinned: Files, found: Files) -> list[Difference]:
    """Every field that is another one; empty when the directory is what was pinned."""
    pairs = [(one.name, getattr(pinned, one.name), getattr(found, one.name)) for one in fields(Files)]
    return [Difference(name, left, right) for name, left, right in pairs if left != right]


@dataclass(frozen=True, slots=True)
class Family:
    """An open-weight model as its publisher's config describes it.

    KV of a token is `layers` x `values` x bytes of a value; for models of grouped-query attention `values` is
    2 x KV heads x head dimension, for latent attention the rank and the rotary part.
    """

    name: str
    licence: str
    layers: int
    values: int
    run_with: tuple[str, ...]  # engine versions that kvctl's tests ran it with; none: only its config was read
    notes: str = ""

    def token_bytes(self, kv_dtype: str) -> int:
        """Bytes of KV of one token, in every layer. KeyError for a type without a known width."""
        return self.layers * self.values * BYTES[kv_dtype]


def family(row: Mapping[str, Any]) -> Family:
    """A row of the catalogue. ValueError for one that describes no KV."""
    made = Family(
        str(row["name"]), str(row["licence"]), int(row["layers"]), values(row), tuple(row.get("run_with", ())),
        str(row.get("notes", "")),
    )  # fmt: skip
    if made.layers < 1 or made.values < 1:
        raise ValueError(f"{made.name} has no KV")
    return made


def values(row: Mapping[str, Any]) -> int:
    if "latent" in row:
        return int(row["latent"]) + int(row["rotary"])
    return 2 * int(row["kv_heads"]) * int(row["head_dim"])
