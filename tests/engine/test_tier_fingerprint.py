"""What of an engine's settings stands in its fingerprint, and what does not."""

import json
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvctl.connector.fingerprint import Fingerprint, diff
from kvctl.connector.tier_config import plain, reads_length
from kvctl.connector.tier_fingerprint import of_engine
from kvctl.types.errors import RefusedError, UsageError

DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 2048}


class Config(SimpleNamespace):
    """A config of transformers, as far as a fingerprint reads it."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def hf(**changes: Any) -> Config:
    return Config(**{"model_type": "llama", "hidden_size": 512, "rope_parameters": DEFAULT, **changes})


def engine(folder: Path, **changes: Any) -> dict[str, Any]:
    """vLLM's configuration objects, as far as a fingerprint reads them; changes by dotted name."""
    spec = SimpleNamespace(block_size=16, num_kv_heads=2, head_size=64, dtype="bfloat16", sliding_window=None)
    group = SimpleNamespace(group_id=0, tokens_per_block=16, layer_names=("layer.0", "layer.1"))
    parallel = SimpleNamespace(tp_size=1, pp_size=1, world_size=1, pcp_size=1, dcp_size=1)
    config = changes.pop("config", hf())
    made = SimpleNamespace(
        vllm=SimpleNamespace(
            model_config=SimpleNamespace(
                model=str(folder),
                hf_config=config,
                hf_text_config=config,
                hf_overrides={},
                dtype="bfloat16",
                quantization=None,
                max_model_len=2048,
                original_max_model_len=2048,
                override_generation_config={},
                try_get_generation_config=dict,
            ),
            cache_config=SimpleNamespace(prefix_caching_hash_algo="sha256_cbor", cache_dtype="auto"),
            load_config=SimpleNamespace(load_format="auto"),
            parallel_config=SimpleNamespace(dcp_kv_cache_interleave_size=1),
        ),
        cache=SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec)]),
        offload=SimpleNamespace(
            model=SimpleNamespace(dtype="bfloat16"),
            cache=SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=8),
            parallel=parallel,
            groups=(group,),
            kv_cache_layout="LBHNC",
            canonical_layout=False,
            replicated_layout=False,
        ),
        group=group,
        spec=spec,
        row_bytes=4096,
        hash_root=b"root",
    )
    for name, value in changes.items():
        *path, last = name.split("__")
        holder = made
        for step in path:
            holder = getattr(holder, step)
        setattr(holder, last, value)
    names = ("vllm", "cache", "offload", "row_bytes", "hash_root")
    return {name: getattr(made, name) for name in names}


def named(one: Fingerprint, other: Fingerprint) -> set[str]:
    return {item.name for item in diff(one, other)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"hidden_size": 512, "rope_theta": 10000}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


MAMBA = SimpleNamespace(block_size=16, shapes=((4, 4),), mamba_cache_mode="all")
CHANGES: list[dict[str, Any]] = [
    {"config": hf(rope_parameters=DEFAULT | {"rope_theta": 500.0})},
    {"config": hf(attention_multiplier=0.5)},
    {"vllm__model_config__hf_text_config": hf(sliding_window=None)},
    {"vllm__model_config__dtype": "float16"},
    {"vllm__model_config__quantization": "fp8"},
    {"vllm__model_config__quantization_config": {"linear": "fp8_per_block_static"}},
    {"vllm__model_config__architecture": "TransformersForCausalLM"},
    {"vllm__model_config__model_class_overrides": {"LlamaForCausalLM": "own:Llama"}},
    {"vllm__model_config__disable_sliding_window": True},
    {"vllm__load_config__load_format": "dummy"},
    {"vllm__load_config__model_loader_extra_config": {"pattern": "other"}},
    {"vllm__cache_config__cache_dtype": "fp8_e5m2"},
    {"vllm__cache_config__kv_cache_dtype_skip_layers": ["0"]},
    {"vllm__attention_config": SimpleNamespace(backend="TRITON_ATTN")},
    {"vllm__parallel_config__dcp_kv_cache_interleave_size": 16},
    {"vllm__additional_config": {"fuse": True}},
    {"vllm__device_config": SimpleNamespace(device_type="cpu")},
    {"vllm__model_config__multimodal_config": SimpleNamespace(mm_processor_kwargs={"max_pixels": 1})},
    {"offload__model__dtype": "fp8_e4m3"},
    {"offload__kv_cache_layout": "BLHNC"},
    {"offload__canonical_layout": True},
    {"offload__replicated_layout": True},
    {"offload__cache__tokens_per_hash": 32},
    {"offload__cache__blocks_per_chunk": 4},
    {"offload__parallel__tp_size": 2},
    {"offload__parallel__pp_size": 2},
    {"offload__parallel__world_size": 2},
    {"offload__parallel__dcp_size": 2},
    {"offload__parallel__pcp_size": 2},
    {"group__layer_names": ("layer.1", "layer.0")},
    {"spec__sliding_window": 1024},
    {"spec__num_kv_heads": 4},
    {"spec__cache_dtype_str": "fp8_ds_mla"},
    {"spec__kv_cache_specs": {"layer.0": MAMBA}},
    {"row_bytes": 8192},
    {"hash_root": b"seeded"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
def test_each_setting_that_changes_kv_changes_the_fingerprint(model: Path, changes: dict[str, Any]):
    assert of_engine(**engine(model)).digest() != of_engine(**engine(model, **changes)).digest()


def test_layers_of_a_mixed_group_count_each_for_itself(model: Path):
    mixed = {"layer.0": MAMBA, "layer.1": SimpleNamespace(block_size=16, sliding_window=1024)}
    other = {**mixed, "layer.1": SimpleNamespace(block_size=16, sliding_window=None)}
    one, two = (of_engine(**engine(model, spec__kv_cache_specs=specs)) for specs in (mixed, other))
    assert named(one, two) == {"groups"}


def test_what_vllm_made_of_the_config_counts_and_not_the_file(model: Path):
    first = of_engine(**engine(model))
    (model / "config.json").write_text('{"hidden_size": 512, "rope_theta": 500}')
    assert of_engine(**engine(model)) == first
    other = of_engine(**engine(model, config=hf(rope_parameters=DEFAULT | {"rope_theta": 500.0})))
    assert named(first, other) == {"config.rope_parameters.rope_theta"}


def test_the_files_content_counts_and_their_path_does_not(model: Path, tmp_path_factory: pytest.TempPathFactory):
    first = of_engine(**engine(model, config=hf(_name_or_path=str(model), transformers_version="5.0")))
    other = tmp_path_factory.mktemp("elsewhere")
    for file in model.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    moved = hf(_name_or_path=str(other), transformers_version="5.1")
    assert of_engine(**engine(other, config=moved)) == first
    (model / "model.safetensors").write_bytes(b"WEIGHTS")
    assert named(of_engine(**engine(model)), first) == {"weights"}


LENGTHS = {"vllm__model_config__max_model_len": 10240, "vllm__model_config__original_max_model_len": 10240}
FIXED = [
    DEFAULT,
    {"rope_type": "yarn", "factor": 4.0},
    {"full_attention": DEFAULT, "sliding_attention": {"rope_type": "linear", "factor": 8.0}},
]
OTHERS = [
    LONG,
    {"type": "su"},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "of-tomorrow"},
    {"full_attention": DEFAULT, "sliding_attention": LONG},
]


@pytest.mark.parametrize("rope", FIXED)
def test_models_of_which_the_length_is_no_part_share_under_any(model: Path, rope: dict[str, Any]):
    config = hf(rope_parameters=rope)
    assert of_engine(**engine(model, config=config)) == of_engine(**engine(model, config=config, **LENGTHS))


@pytest.mark.parametrize("rope", OTHERS)
def test_a_rope_that_reads_the_length_is_named_by_it(model: Path, rope: dict[str, Any]):
    for config in (hf(rope_parameters=rope), hf(text_config=hf(rope_parameters=rope).to_dict())):
        one, other = of_engine(**engine(model, config=config)), of_engine(**engine(model, config=config, **LENGTHS))
        assert named(one, other) == {"config.engine.max_model_len"}


def test_a_length_that_was_lowered_after_the_model_was_built_is_another(model: Path):
    config = hf(rope_parameters=LONG)
    lowered = of_engine(**engine(model, config=config, vllm__model_config__original_max_model_len=-1))
    assert named(of_engine(**engine(model, config=config)), lowered) == {"config.engine.max_model_len"}


def test_llama_4_tunes_its_temperature_by_the_length_or_by_its_generation_config(model: Path):
    config = hf(model_type="llama4", text_config={"model_type": "llama4_text"})
    first = of_engine(**engine(model, config=config))
    assert named(first, of_engine(**engine(model, config=config, **LENGTHS))) == {"config.engine.max_model_len"}
    off = {"vllm__model_config__override_generation_config": {"attn_temperature_tuning": False}}
    assert named(first, of_engine(**engine(model, config=config, **off))) == {"config.engine.attn_temperature_tuning"}


def test_the_seed_counts_where_it_makes_the_weights(model: Path):
    seeds = [{"vllm__model_config__seed": seed} for seed in (0, 1)]
    real = [of_engine(**engine(model, **seed)) for seed in seeds]
    made = [of_engine(**engine(model, vllm__load_config__load_format="dummy", **seed)) for seed in seeds]
    assert (real[0] == real[1], named(*made)) == (True, {"config.engine.seed"})


def test_files_that_decide_how_weights_and_images_are_read_count_where_they_are_read(model: Path):
    quantized = {"vllm__model_config__quantization": "gptq"}
    seeing = {"vllm__model_config__multimodal_config": SimpleNamespace()}
    for file, settings, field in (
        ("quantize_config.json", quantized, "config.engine.quantization_files"),
        ("preprocessor_config.json", seeing, "config.engine.processor"),
    ):
        plainly, first = of_engine(**engine(model)), of_engine(**engine(model, **settings))
        (model / file).write_text('{"size": 1}')
        assert named(first, of_engine(**engine(model, **settings))) == {field}
        assert of_engine(**engine(model)) == plainly


def test_a_draft_counts_by_its_content(model: Path, tmp_path_factory: pytest.TempPathFactory):
    def drafting(folder: Path, config: Config) -> Fingerprint:
        draft = SimpleNamespace(model=str(folder), hf_config=config, hf_text_config=config, hf_overrides=len)
        held = SimpleNamespace(method="eagle", draft_model_config=draft)
        return of_engine(**engine(model, vllm__speculative_config=held))

    folder = tmp_path_factory.mktemp("draft")
    (folder / "pytorch_model.bin").write_bytes(b"draft")
    first = drafting(folder, hf())
    assert named(first, drafting(folder, hf(hidden_size=64))) == {"config.engine.draft.config.hidden_size"}
    (folder / "pytorch_model.bin").write_bytes(b"DRAFT")
    assert named(first, drafting(folder, hf())) == {"config.engine.draft.weights"}
    without = SimpleNamespace(method="ngram", draft_model_config=None)
    assert of_engine(**engine(model, vllm__speculative_config=without)) == of_engine(**engine(model))


def test_how_layers_lie_on_ranks_counts_though_it_stands_in_the_environment(
    model: Path, monkeypatch: pytest.MonkeyPatch
):
    first = of_engine(**engine(model))
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "4,2")
    assert "config.engine.environment.VLLM_PP_LAYER_PARTITION" in named(first, of_engine(**engine(model)))


def test_weights_from_elsewhere_are_refused_unless_they_are_named(model: Path):
    for changes in (
        {"vllm__load_config__load_format": "pt"},
        {"vllm__load_config__load_format": "tensorizer"},
        {"vllm__model_config__model_weights": "s3://bucket/model"},
    ):
        with pytest.raises(RefusedError, match="KV-VLLM-009"):
            of_engine(**engine(model, **changes))
        pinned = "revision:" + "a" * 40
        assert of_engine(**engine(model, **changes), weights=pinned).weights == pinned


def test_weights_and_tokenizer_that_are_named_are_not_read(model: Path):
    for file in ("model.safetensors", "tokenizer.json"):
        (model / file).unlink()
    pinned = "sha256:" + "b" * 64
    found = of_engine(**engine(model), weights=pinned, tokenizer=pinned)
    assert (found.weights, found.tokenizer) == (pinned, pinned)


def test_a_model_by_name_or_a_config_in_code_is_refused(model: Path):
    with pytest.raises(UsageError, match="KV-VLLM-004"):
        of_engine(**engine(Path("org/model")))
    assert of_engine(**engine(Path("org/model")), model=model).digest() == of_engine(**engine(model)).digest()
    with pytest.raises(RefusedError, match="KV-VLLM-005"):
        of_engine(**engine(model, vllm__model_config__hf_overrides=lambda config: config))
    with pytest.raises(RefusedError, match="KV-VLLM-010") as caught:
        of_engine(**engine(model, config=hf(vision={"tower": [object()]})))
    assert caught.value.where == "config.vision.tower[0]"


class Kind(Enum):
    ONE = "one"


def test_every_setting_has_one_form():
    value = {1: (1, 2.5), "set": {"b", "a"}, "kind": Kind.ONE, "far": float("inf"), "class": Kind, "config": hf()}
    assert plain(value, "config") == {
        "1": [1, 2.5],
        "set": ["a", "b"],
        "kind": "one",
        "far": {"__float__": "inf"},
        "class": f"{__name__}.Kind",
        "config": hf().to_dict(),
    }
    assert json.dumps(plain({"b": {3, 1, 2}}, "config")) == '{"b": [1, 2, 3]}'


def test_a_temperature_that_is_tuned_reads_the_length():
    assert reads_length({"attn_temperature_tuning": True})
    assert not reads_length({"hidden_size": 512})
