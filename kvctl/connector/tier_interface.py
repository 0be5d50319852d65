"""Whether a vLLM has the interface that the tier was written for. Pure: what to look at is passed in.

vLLM marks these interfaces as subject to change. Another one is refused at the start: a renamed parameter would
otherwise be a broken request, and KV of another meaning a wrong answer.
"""

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass

from kvctl.types.errors import RefusedError

KNOWN = ("0.32", "0.33")  # minor versions whose sources were read and compared, call by call
# What the tier overrides, or vLLM calls on it: parameters by name, in their order, behind self or cls.
TIER_CALLS: Mapping[str, tuple[str, ...]] = {
    "__init__": ("offloading_spec", "primary_kv_view", "tier_type", "backpressure_detector"),
    "lookup": ("key", "req_context"),
    "submit_store": ("job_metadata",),
    "submit_load": ("job_metadata",),
    "get_finished_jobs": (),
    "on_new_request": ("req_context",),
    "on_request_finished": ("req_context",),
    "on_schedule_end": ("context",),
    "drain_jobs": (),
    "shutdown": (),
    "build_metric_definitions": ("extra_config",),
    "get_stats": (),
}
CONNECTOR_CALLS: Mapping[str, tuple[str, ...]] = {
    "__init__": ("vllm_config", "role", "kv_cache_config"),
    "on_new_request": ("request",),
    "get_num_new_matched_tokens": ("request", "num_computed_tokens"),
    "request_finished": ("request", "block_ids"),
    "request_finished_all_groups": ("request", "block_ids"),
}
JOB = ("job_id", "keys", "chunk_ids", "is_promotion", "req_context")
JOB_RESULT = ("job_id", "success", "successful_keys", "transfer_time", "transfer_bytes")
CONTEXT = ("req_id", "get_offload_key_position")
STEP = ("new_req_ids",)
ANSWERS = ("HIT", "MISS", "RETRY")
STATS = ("increase_counter", "set_gauge")
REQUEST = (
    *("request_id", "num_prompt_tokens", "num_output_tokens", "block_hashes"),
    *("kv_transfer_params", "cache_salt", "lora_request"),
)


def refused(version: str, why: Collection[str]) -> RefusedError:
    return RefusedError(
        "KV-VLLM-008",
        f"this vLLM is not one that the tier knows: {version}",
        where="kv_connector_module_path: kvctl.connector.vllm_tier",
        why="; ".join(why),
        fix=f"serve with vLLM {' or '.join(KNOWN)}, or update kvctl",
    )


def version_problems(version: str) -> list[str]:
    found = re.match(r"(\d+\.\d+)(\.|$)", version)
    if found is not None and found[1] in KNOWN:
        return []
    return [f"it is version {version}, and only {' and '.join(KNOWN)} were compared with what the tier does"]


def call_problems(owner: type, calls: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Methods that are missing, take other parameters, or have to be there and are not known here."""
    for name, wanted in calls.items():
        method = inspect.getattr_static(owner, name, None)
        if method is None:
            yield f"{owner.__name__} has no {name}"
            continue
        plain = method.__func__ if isinstance(method, classmethod) else method
        there = tuple(inspect.signature(plain).parameters)[1:]
        if there != wanted:
            yield f"{owner.__name__}.{name} takes ({', '.join(there)}), not ({', '.join(wanted)})"
    for name in sorted(getattr(owner, "__abstractmethods__", frozenset()) - calls.keys()):
        yield f"{owner.__name__}.{name} is new, and every tier must have it"


def name_problems(owner: type, wanted: Collection[str]) -> Iterator[str]:
    """Attributes that objects of a class do not have, as far as its definition tells."""
    there = set(dir(owner))
    there |= {field.name for field in fields(owner)} if is_dataclass(owner) else set()
    made = inspect.getattr_static(owner, "__init__")
    if inspect.isfunction(made):
        there |= set(made.__code__.co_names)  # what it assigns
    for name in wanted:
        if name not in there:
            yield f"{owner.__name__} has no {name}"
