"""A model's config as vLLM serves it, in plain JSON: after --hf-config-path, --hf-overrides and vLLM's own patches.

The model's code reads this object and no file, so a fingerprint is made from it and not from config.json.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from kvctl.connector.modelfiles import PATHS
from kvctl.types.errors import RefusedError

# Where a config lay and who wrote it, not what it says: defaults that a version brings stand there as values.
UNSAID = (*PATHS, "name_or_path", "transformers_version")
# Kinds of RoPE whose angles are those of the config alone, as the sources of vLLM 0.32 and 0.33 have it
# (model_executor/layers/rotary_embedding; `axial` is of image encoders). Not here: `longrope` takes its factors by
# --max-model-len, `dynamic` may take its base from it.
FIXED_ROPES = frozenset(
    {
        *("default", "linear", "ntk", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"),
        *("proportional", "mllama4", "mrope", "bailing_mrope", "openpangu", "axial"),
    }
)
TEMPERATURE = "attn_temperature_tuning"  # of Llama 4: unless it is set, on above 32768 tokens of --max-model-len


def check_overrides(model_config: Any) -> None:
    """RefusedError KV-VLLM-005 when the one who started the engine gave code. (A draft's overrides are vLLM's own.)"""
    if callable(getattr(model_config, "hf_overrides", None)):
        raise RefusedError(
            "KV-VLLM-005",
            "the engine's --hf-overrides is a function",
            where="--hf-overrides",
            why="it may return a config with code of its own, so KV of two configs could get one name",
            fix="give the overrides as JSON",
        )


def effective(model_config: Any) -> dict[str, Any]:
    """The config of a vLLM ModelConfig. RefusedError KV-VLLM-010 when it cannot be written down."""
    config = _said(model_config.hf_config)
    text = _said(model_config.hf_text_config)
    # Most often it is the config itself or stands in it; where vLLM made another one, that is what is served.
    return config if text == config or text in config.values() else {**config, "effective_text_config": text}


def _said(config: Any) -> dict[str, Any]:
    made: dict[str, Any] = plain(config, "config")
    return made


def plain(value: Any, where: str) -> Any:
    """JSON of one form for a setting; `where` names it. RefusedError KV-VLLM-010 for what has none."""
    if isinstance(value, Enum):
        return plain(value.value, where)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": str(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(held, f"{where}.{key}") for key, held in value.items() if key not in UNSAID}
    if isinstance(value, list | tuple):
        return [plain(held, f"{where}[{at}]") for at, held in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((plain(held, where) for held in value), key=json.dumps)
    return _object(value, where)


def _object(value: Any, where: str) -> Any:
    kind = type(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if callable(getattr(value, "to_dict", None)):
        return plain(value.to_dict(), where)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name), where) for field in dataclasses.fields(value)}
    if kind.__module__ == "torch":  # a dtype or a device
        return str(value)
    raise RefusedError(
        "KV-VLLM-010",
        "a setting of the engine cannot be written down",
        where=where,
        why=f"it is a {kind.__module__}.{kind.__qualname__}, and KV of two values of it could get one name",
        fix="serve the model without the tier, or give the setting as JSON",
    )


def reads_length(config: Mapping[str, Any]) -> bool:
    """Whether vLLM computes other K and V for the same tokens under another --max-model-len.

    True for every kind of RoPE that is not known to be without it.
    """
    return tunes_temperature(config) or any(kind not in FIXED_ROPES for kind in _ropes(config))


def tunes_temperature(config: Mapping[str, Any]) -> bool:
    return any(
        key == TEMPERATURE or (key == "model_type" and str(held).startswith("llama4")) for key, held in _all(config)
    )


def _all(value: Any) -> Iterator[tuple[str, Any]]:
    """Every entry of a config and of the configs in it."""
    if isinstance(value, Mapping):
        yield from value.items()
    for held in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _all(held)


def _ropes(value: Any, *, inside: bool = False) -> Iterator[str]:
    """The kinds of RoPE of a config, its layer types and the configs in it."""
    if isinstance(value, Mapping):
        if inside or "rope_type" in value:
            yield str(value.get("rope_type") or value.get("type") or "default")
        for key, held in value.items():
            yield from _ropes(held, inside=inside or key in ("rope_parameters", "rope_scaling"))
    elif isinstance(value, list):
        for held in value:
            yield from _ropes(held, inside=inside)
