"""Bytes of KV cache a token, from a model's published configuration."""

from collections.abc import Mapping
from dataclasses import dataclass

from kvctl.types.errors import UsageError

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Shape:
    """What config.json of the released weights says."""

    layers: int
    row: int  # values a layer and token: 2 x KV heads x head dimension; for MLA the latent and its RoPE part

    def bytes_per_token(self, dtype: str) -> int:
        return self.layers * self.row * DTYPE_BYTES[dtype]


def attention(layers: int, kv_heads: int, head: int = 128) -> Shape:
    return Shape(layers, 2 * kv_heads * head)


# Models whose every layer keeps the whole context. Sliding windows and hybrid layers keep less: measure those.
MODELS: Mapping[str, Shape] = {
    "llama-3.1-8b": attention(32, 8),
    "llama-3.1-70b": attention(80, 8),
    "llama-3.1-405b": attention(126, 8),
    "mistral-7b": attention(32, 8),
    "mixtral-8x7b": attention(32, 8),
    "qwen2.5-7b": attention(28, 4),
    "qwen2.5-32b": attention(64, 8),
    "qwen2.5-72b": attention(80, 8),
    "qwen3-8b": attention(36, 8),
    "qwen3-32b": attention(64, 8),
    "deepseek-v3": Shape(61, 512 + 64),
}


def bytes_per_token(model: str, dtype: str = "bf16") -> int:
    shape = MODELS.get(model)
    if shape is None:
        raise UsageError(
            "KV-SIZE-007",
            f"the model family {model[:60]!r} is not known",
            why=f"known are {', '.join(MODELS)}",
            fix="give --bytes-per-token: layers x 2 x KV heads x head dimension x bytes of a value",
        )
    return shape.bytes_per_token(dtype)
