"""The description of engines: what it may say, and that it cannot open what the deployment closes."""

import pytest
import yaml

from kvctl.controller.serving_spec import OWN_OPTIONS, parse
from kvctl.types.errors import UsageError

WHOLE = {
    "schema": 1, "engine": "/opt/engine", "model": {"name": "llama", "directory": "/models/llama"}, "device": "cuda",
    "host_tier": "64GiB", "blocks_per_chunk": 16, "arguments": {"max-model-len": 131072},
    "environment": {"NCCL_DEBUG": "WARN"}, "tier": {"alpha": 0.8},
}  # fmt: skip


def text(**changes):
    return yaml.safe_dump({**WHOLE, **changes})


def test_a_whole_one():
    spec = parse(text(), "f")
    assert (spec.engine, spec.model.name, spec.host_tier, spec.blocks_per_chunk) == (
        "/opt/engine", "llama", 64 << 30, 16,
    )  # fmt: skip


def test_the_least_one():
    spec = parse(yaml.safe_dump({key: WHOLE[key] for key in ("schema", "engine", "model")}), "f")
    assert (spec.device, spec.arguments, spec.slots) == ("cuda", {}, 64)


@pytest.mark.parametrize(
    "changes",
    [
        *({"arguments": {name: "x"}} for name in sorted(OWN_OPTIONS)),
        {"arguments": {"--max-model-len": 1}}, {"arguments": {"kv-events-config": "{}"}},
        {"arguments": {"ssl-ca-certs": "x"}}, {"environment": {"PYTHONHASHSEED": "0"}},
        {"environment": {"HF_TOKEN": "x"}}, {"environment": {"A": 'x"\nUser=root'}}, {"environment": {"A": "%h"}},
        {"environment": {"VLLM_SERVER_DEV_MODE": "0"}}, {"tier": {"gateways": ["ab"]}}, {"tier": {"single_tenant": {}}},
        {"model": {"name": "../x", "directory": "/m"}}, {"model": {"name": "m", "directory": "m"}},
        {"model": {"name": "m", "directory": "/m n"}}, {"model": {"name": "m", "directory": "/m\n"}},
        {"model": {"name": "m\n", "directory": "/m"}}, {"model": {"name": "m", "directory": "/home/a/m"}},
        {"model": {"name": "m", "directory": "/opt/../root/m"}}, {"host_tier": "lots"}, {"more": 1}, {"schema": 2},
        {"device": "tpu"}, {"packages": "sha256:1"}, {"start_seconds": 100000},
    ],
)  # fmt: skip
def test_what_it_cannot_say(changes):
    with pytest.raises(UsageError) as caught:
        parse(text(**changes), "serving.yaml")
    assert caught.value.code == "KV-DEP-010"
    assert caught.value.where == "serving.yaml"


@pytest.mark.parametrize("raw", ["[", "- 1", "", "schema: 1"])
def test_what_is_none(raw):
    with pytest.raises(UsageError):
        parse(raw, "f")
