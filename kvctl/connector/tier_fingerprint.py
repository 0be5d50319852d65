"""The fingerprint of a running engine, from vLLM's configuration objects; reads attributes alone, imports no vLLM."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvctl.connector.fingerprint import EngineFields, Fingerprint, canonical
from kvctl.connector.modelfiles import digest_tokenizer, digest_weights
from kvctl.connector.tier_config import check_overrides, effective
from kvctl.connector.tier_settings import settings
from kvctl.types.errors import UsageError

# Of an adapter that says the same, one engine applies other parts than another, or reads them in another way.
ADAPTER_SETTINGS = (
    *("lora_dtype", "target_modules", "enable_tower_connector_lora"),
    *("enable_mixed_moe_lora_format", "enable_moe_shared_loras"),
)
# What makes two caches of one kind differ in a row.
SPEC_SETTINGS = (
    *("block_size", "num_kv_heads", "head_size", "head_size_v", "dtype", "kv_quant_mode", "cache_dtype_str"),
    *("page_size_padded", "tokens_per_state", "sliding_window", "attention_chunk_size", "rswa_window", "sink_len"),
    *("shapes", "dtypes", "mamba_type", "mamba_cache_mode"),
)


def of_engine(
    vllm: Any,
    cache: Any,
    offload: Any,
    *,
    row_bytes: int,
    hash_root: bytes,
    model: Path | None = None,
    weights: str | None = None,
    tokenizer: str | None = None,
) -> Fingerprint:
    """`vllm` is its VllmConfig, `cache` its KVCacheConfig, `offload` its OffloadingConfig.

    `model` is the directory, where the engine was given a name; `weights` and `tokenizer` are taken instead of reading
    the files' content. UsageError KV-VLLM-004 when there is no directory; others as in `check_overrides`,
    `effective`, `settings`, `digest_weights` and Fingerprint.
    """
    path = directory(vllm.model_config, model)
    check_overrides(vllm.model_config)
    config = effective(vllm.model_config)
    engine = settings(vllm, config, path, weights_named=weights is not None)
    return Fingerprint(
        weights=weights or digest_weights(path),
        config=canonical({**config, "engine": engine}),
        tokenizer=tokenizer or digest_tokenizer(path),
        **engine_fields(vllm, cache, offload, row_bytes, hash_root),
    )


def of_adapter(base: Fingerprint, digest: str, settings: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of requests with a LoRA adapter: of its content, and of the engine's settings for adapters."""
    config = json.loads(base.config)
    config["engine"] = {**config.get("engine", {}), **settings}
    return replace(base, lora=digest, config=canonical(config))


def adapter_settings(vllm: Any) -> dict[str, str]:
    """What an engine can change about the values that an adapter computes."""
    held = getattr(vllm, "lora_config", None)
    return {name: str(getattr(held, name, None)) for name in ADAPTER_SETTINGS}


def directory(model_config: Any, model: Path | None) -> Path:
    path = model or Path(model_config.model)
    if not path.is_dir():
        raise UsageError(
            "KV-VLLM-004",
            "the model's files are not known",
            where=str(path),
            why="the engine was given a name, and names may stand for other weights tomorrow",
            fix="serve the model from a directory, or name that directory in the tier's option `model`",
        )
    return path


def engine_fields(vllm: Any, cache: Any, offload: Any, row_bytes: int, hash_root: bytes) -> EngineFields:
    parallel = offload.parallel
    layout = [str(offload.kv_cache_layout)]
    layout += [name for name in ("canonical_layout", "replicated_layout") if getattr(offload, name, False)]
    layout += [f"{name}={getattr(parallel, name)}" for name in ("pcp_size", "dcp_size")]
    return EngineFields(
        kv_dtype=offload.model.dtype,
        codec="none",
        codec_version=1,
        layout=" ".join(layout),
        tokens_per_hash=offload.cache.tokens_per_hash,
        blocks_per_chunk=offload.cache.blocks_per_chunk,
        row_bytes=row_bytes,
        groups=tuple(described(group, cache.kv_cache_groups[group.group_id]) for group in offload.groups),
        tensor_parallel=parallel.tp_size,
        pipeline_parallel=parallel.pp_size,
        world_size=parallel.world_size,
        hash_algorithm=vllm.cache_config.prefix_caching_hash_algo,
        hash_root=hash_root.hex(),
        lora=None,
    )


def described(group: Any, cached: Any) -> str:
    """One group: its number, tokens of a block, kind of cache with what sizes it, layers in their order."""
    parts = [str(group.group_id), str(group.tokens_per_block), *sized(cached.kv_cache_spec), *group.layer_names]
    return " ".join(parts)


def sized(spec: Any) -> list[str]:
    """A kind of cache and what sizes it; of a group whose layers differ, that of each layer in its order."""
    found = [type(spec).__name__, *(f"{name}={getattr(spec, name)}" for name in SPEC_SETTINGS if hasattr(spec, name))]
    for layer, held in getattr(spec, "kv_cache_specs", {}).items():
        found += [f"{layer}:", *sized(held)]
    return found
