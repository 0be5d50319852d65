"""A LoRA adapter for the tiny model, in the layout of PEFT, with random values. Needs neither torch nor PEFT."""

import json
import random
import struct
from pathlib import Path

from kvctl.connector.tiny_model import HEADS, HIDDEN, KV_HEADS, LAYERS

RANK = 8
WIDTHS = {"q_proj": HIDDEN, "k_proj": HIDDEN // HEADS * KV_HEADS, "v_proj": HIDDEN // HEADS * KV_HEADS}


def make(folder: Path, seed: int) -> None:
    """Write adapter_config.json and adapter_model.safetensors; the same seed gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(WIDTHS),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(safetensors(tensors(random.Random(seed))))


def tensors(chance: random.Random) -> dict[str, tuple[tuple[int, int], bytes]]:
    made = {}
    for layer in range(LAYERS):
        for name, width in WIDTHS.items():
            for part, shape in (("lora_A", (RANK, HIDDEN)), ("lora_B", (width, RANK))):
                count = shape[0] * shape[1]
                values = struct.pack(f"<{count}f", *(chance.gauss(0, 0.1) for _ in range(count)))
                made[f"base_model.model.model.layers.{layer}.self_attn.{name}.{part}.weight"] = (shape, values)
    return made


def safetensors(named: dict[str, tuple[tuple[int, int], bytes]]) -> bytes:
    """The format of huggingface/safetensors: length of the header (u64), the header as JSON, the values."""
    header, at = {}, 0
    for name, (shape, values) in named.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (at, at + len(values))}
        at += len(values)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(values for _, values in named.values())
