"""Settings of vLLM that change K and V for the same tokens and stand in no config of the model."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvctl.connector.modelfiles import TENSORS, WEIGHTS, digest_files, matching
from kvctl.connector.tier_config import TEMPERATURE, effective, plain, reads_length, tunes_temperature
from kvctl.types.errors import RefusedError

# As vLLM resolved them. Not here: what changes only which kernel computes the same values, or when.
MODEL = ("dtype", "quantization", "quantization_config", "disable_sliding_window", "architecture", "runner_type")
MODEL_CODE = ("convert_type", "model_class_overrides", "code_revision")
LOAD = ("load_format", "model_loader_extra_config")
CACHE = (
    *("cache_dtype", "kv_cache_dtype_skip_layers", "kv_sharing_fast_prefill", "swa_bounded_replay"),
    *("mamba_cache_dtype", "mamba_ssm_cache_dtype", "mamba_cache_mode", "use_replayssm"),
)
ATTENTION = ("backend", "backend_per_kind", "indexer_kv_dtype", "use_non_causal", "hisparse_config")
# Which tokens of a block lie with which rank.
INTERLEAVED = ("dcp_kv_cache_interleave_size", "cp_kv_cache_interleave_size")
# What one engine makes of an image that another one sees too: vLLM hashes the image and a request's own arguments.
MULTIMODAL = (
    *("mm_processor_kwargs", "media_io_kwargs", "mm_device_do_normalize", "language_model_only"),
    *("video_pruning_rate", "video_pruning_method", "mm_encoder_attn_dtype", "mm_encoder_fp8_scale_path"),
)
# Formats that read the model directory's *.safetensors, or nothing at all.
READ_HERE = frozenset(
    {
        *("auto", "hf", "safetensors", "fastsafetensors", "instanttensor", "mistral", "dummy"),
        *("runai_streamer", "runai_streamer_sharded", "sharded_state"),
    }
)
DRAFT = ("method", "draft_tensor_parallel_size", "kv_cache_dtype")
DRAFT_WEIGHTS = (*WEIGHTS, "*.bin", "*.pt")
PROCESSOR = ("*processor_config.json",)
# Configs of a quantization that some checkpoints keep beside config.json.
QUANTIZATION = ("*quant*.json",)
# Which layers a pipeline stage has, how a block's values lie on AMD, what Humming quantizes: no config holds these.
ENVIRONMENT = (
    *("VLLM_PP_LAYER_PARTITION", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT"),
    *("VLLM_HUMMING_ONLINE_QUANT_CONFIG", "VLLM_HUMMING_INPUT_QUANT_CONFIG"),
)


def settings(vllm: Any, config: Mapping[str, Any], folder: Path, *, weights_named: bool) -> dict[str, Any]:
    """Of a VllmConfig whose effective config and directory these are; 'None' where this vLLM has no such setting.

    RefusedError KV-VLLM-009 when the weights come from elsewhere and nobody named them, 010 as in `plain`.
    """
    if not weights_named:
        _check_weights(vllm)
    found = {**_of_model(vllm.model_config, vllm.load_config), **_texts(vllm.cache_config, CACHE)}
    found |= _texts(getattr(vllm, "attention_config", None), ATTENTION, "attention_")
    found |= _texts(vllm, ("additional_config",)) | _texts(vllm.parallel_config, INTERLEAVED)
    found |= _length(vllm.model_config, config) | _processor(vllm.model_config, folder)
    found["environment"] = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    found["quantization_files"] = _quantization_files(vllm.model_config, folder)
    found["cpu"] = _cpu(vllm)
    found["draft"] = _draft(getattr(vllm, "speculative_config", None), vllm.model_config)
    return found


def _texts(held: Any, names: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    return {prefix + name: _text(getattr(held, name, None), name) for name in names}


def _text(value: Any, name: str) -> Any:
    """Objects stay objects, so that a difference is named by its entry; all else is a text."""
    made = plain(value, name)
    return made if isinstance(made, dict) and made else str(made)


def _of_model(model: Any, load: Any) -> dict[str, Any]:
    found = _texts(model, (*MODEL, *MODEL_CODE)) | _texts(load, LOAD)
    if found["load_format"] == "dummy":
        found |= _texts(model, ("seed",))
    return found | {"config_code": _config_code(model)}


def _config_code(model: Any) -> str:
    """The code of a config that came from another place than the model: its fields do not tell what it computes."""
    given = getattr(model, "hf_config_path", None)
    if not given or given == model.model or not getattr(model, "trust_remote_code", False):
        return "None"
    path = Path(given)
    if not path.is_dir():
        return f"{given} {getattr(model, '_hf_config_revision', None)}"
    return digest_files(path, ("*.py",), ("*.py",)) if matching(path, ("*.py",)) else "None"


def _quantization_files(model: Any, folder: Path) -> str:
    given = (getattr(model, "hf_overrides", None) or {}).get("quantization_config_file")
    if given is not None:
        return digest_files(Path(given).parent, (Path(given).name,), (Path(given).name,))
    if getattr(model, "quantization", None) is None or not matching(folder, QUANTIZATION):
        return "None"
    return digest_files(folder, QUANTIZATION, QUANTIZATION)


def _length(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """--max-model-len where K and V depend on it, so that all other models share under any length."""
    found = {}
    if reads_length(config):
        # With -1 vLLM builds the model for its longest context, and then lowers the length to what fits.
        auto = " auto" if getattr(model, "original_max_model_len", None) == -1 else ""
        found["max_model_len"] = f"{model.max_model_len}{auto}"
    if tunes_temperature(config):
        given = {**model.try_get_generation_config(), **(getattr(model, "override_generation_config", None) or {})}
        found[TEMPERATURE] = str(given.get(TEMPERATURE))
    return found


def _processor(model: Any, folder: Path) -> dict[str, Any]:
    held = getattr(model, "multimodal_config", None)
    if held is None:
        return {}
    files = digest_files(folder, PROCESSOR, PROCESSOR) if matching(folder, PROCESSOR) else "None"
    return _texts(held, MULTIMODAL) | {"processor": files}


def _cpu(vllm: Any) -> str:
    """vLLM on CPU packs a block for the machine's own matrix instructions, and no layout names that."""
    device = getattr(vllm, "device_config", None)
    if getattr(device, "device_type", None) != "cpu":
        return "None"
    tiles = "bfloat16" in str(vllm.model_config.dtype) and " amx_tile " in Path("/proc/cpuinfo").read_text()
    return f"{platform.machine()}{' amx' if tiles else ''}"


def _draft(held: Any, target: Any) -> Any:
    """The model that drafts: its layers' KV lies in the same rows. Drafting without a model leaves no KV."""
    model = getattr(held, "draft_model_config", None)
    if model is None or model is target:
        return "None"
    config = effective(model)
    found = {**_texts(held, DRAFT), **_of_model(model, getattr(held, "draft_load_config", None))}
    return {**found, **_length(model, config), "config": config, "weights": _draft_weights(model, target)}


def _draft_weights(model: Any, target: Any) -> str:
    """A draft by name is told by that name: what it drafts is verified, so KV of other weights costs time alone."""
    path = Path(model.model)
    if model.model == target.model:
        return "of the model"
    if not path.is_dir():
        return f"{model.model} {getattr(model, 'revision', None)}"
    return digest_files(path, (*TENSORS, "*.bin", "*.pt"), DRAFT_WEIGHTS)


def _check_weights(vllm: Any) -> None:
    form = str(getattr(vllm.load_config, "load_format", "auto"))
    elsewhere = getattr(vllm.model_config, "model_weights", None)
    if form in READ_HERE and elsewhere in (None, "", vllm.model_config.model):
        return
    raise RefusedError(
        "KV-VLLM-009",
        "the engine's weights are not those of its directory",
        where=f"--load-format {form}" if form not in READ_HERE else str(elsewhere),
        why="the fingerprint is made from *.safetensors beside the config, and the engine reads something else",
        fix="serve *.safetensors from the model's directory, or name the weights in the tier's option `weights`",
    )
