"""Each field changes the digest; equal digests mean equal fields; the differing field is named."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.fingerprint import COUNTED, Fingerprint, canonical, diff, from_json, to_json
from kvctl.types.errors import ExitCode, KvctlError

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "fingerprints.json").read_text())
CONFIG = VECTORS[0]["config"]
BASE = from_json(json.dumps(VECTORS[0]).encode())
SHA = "sha256:" + "0f" * 32

# field -> other values of it. A field that is not here fails the tests below.
OTHERS = {
    "weights": [SHA, "revision:" + "a" * 40],
    "config": [
        canonical({**CONFIG, "rope_theta": 1000000.0}),
        canonical({**CONFIG, "rope_theta": 500000}),
        canonical({**CONFIG, "rope_scaling": {**CONFIG["rope_scaling"], "factor": 4.0}}),
        canonical({**CONFIG, "rope_scaling": None}),
        canonical({key: value for key, value in CONFIG.items() if key != "rope_scaling"}),
        canonical({**CONFIG, "sliding_window": 4096}),
    ],
    "tokenizer": [SHA, "revision:" + "b" * 64],
    "kv_dtype": ["fp8_e4m3", "float16"],
    "codec": ["zstd"],
    "codec_version": [2],
    "layout": ["NHD", "HND"],
    "tokens_per_hash": [128],
    "blocks_per_chunk": [16, 4],
    "row_bytes": [BASE.row_bytes + 1],
    "groups": [("sliding_window 4096:layers 0-31",), ("full_attention:", "layers 0-31"), (*BASE.groups, *BASE.groups)],
    "tensor_parallel": [2, 8],
    "pipeline_parallel": [2],
    "world_size": [2],
    "hash_algorithm": ["sha256"],
    "hash_root": ["00" * 32],
    "lora": [SHA],
    "format_version": [2],
}
CHANGES = [(name, value) for name, values in OTHERS.items() for value in values]


def test_every_field_has_other_values_here():
    assert list(OTHERS) == [field.name for field in fields(Fingerprint)]


@pytest.mark.parametrize("vector", VECTORS)
def test_golden_digests(vector):
    """The digest stands in the vector, made by code of its own; `from_json` refuses another one."""
    fingerprint = from_json(json.dumps(vector).encode())
    assert fingerprint.digest().hex() == vector["digest"]
    assert fingerprint.as_dict() == vector


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_each_field_changes_the_digest_and_is_named(name, value):
    other = replace(BASE, **{name: value})
    assert other.digest() != BASE.digest()
    named = {item.name for item in diff(BASE, other)}
    assert named
    assert all(item == name or item.startswith(f"{name}.") for item in named)


def test_no_two_of_all_these_changes_give_one_digest():
    assert len({replace(BASE, **{name: value}).digest() for name, value in CHANGES}) == len(CHANGES)


@pytest.mark.parametrize(("left", "right"), [("kv_dtype", "layout"), ("tensor_parallel", "pipeline_parallel")])
def test_a_value_does_not_count_for_another_field(left, right):
    here = replace(BASE, **{left: OTHERS[left][0]})
    there = replace(BASE, **{right: OTHERS[left][0]})
    assert here.digest() != there.digest()


def test_rope_is_named_where_it_differs():
    other = replace(BASE, config=OTHERS["config"][2])
    assert diff(BASE, other) == [("config.rope_scaling.factor", "8.0", "4.0")]


def test_an_entry_that_one_side_lacks_is_told_from_a_null():
    lacking, null = (replace(BASE, config=OTHERS["config"][at]) for at in (4, 3))
    assert ("config.rope_scaling", None, "null") in diff(lacking, null)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a.b", "", "é"]), inner),
    max_leaves=6,
)
CONFIGS = st.dictionaries(st.sampled_from(["a", "b", "a.b", "config", '["a"]']), JSON, min_size=1)


def test_a_dot_in_an_entrys_name_is_no_step_into_an_object():
    flat, deep = (replace(BASE, config=canonical(config)) for config in ({"a.b": 1}, {"a": {"b": 1}}))
    assert flat.digest() != deep.digest()
    assert diff(flat, deep) == [('config["a.b"]', "1", None), ("config.a.b", None, "1")]


@given(CONFIGS, CONFIGS)
def test_a_difference_is_named_exactly_when_the_digests_differ(left, right):
    here, there = (replace(BASE, config=canonical(config)) for config in (left, right))
    assert (here.digest() == there.digest()) == (diff(here, there) == [])


@given(CONFIGS, st.lists(st.text(min_size=0, max_size=5).filter(str.isascii), min_size=1, max_size=3), st.integers(1))
def test_a_fingerprint_comes_back_from_json(config, groups, number):
    fingerprint = replace(BASE, config=canonical(config), groups=tuple(groups), row_bytes=number)
    assert from_json(to_json(fingerprint)) == fingerprint


def test_the_order_of_a_configs_entries_does_not_matter():
    backwards = dict(reversed(CONFIG.items()))
    assert canonical(backwards) == canonical(CONFIG)


def test_it_is_readable():
    lines = BASE.readable().splitlines()
    assert lines[0].split() == ["digest", BASE.digest().hex()]
    assert any(line.split() == ["config.rope_theta", "500000.0"] for line in lines)
    for field in fields(Fingerprint):
        assert any(line.startswith(field.name) for line in lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", "main"),
        ("weights", "revision:main"),
        ("weights", "sha256:" + "0F" * 32),
        ("weights", SHA + "\n"),
        ("tokenizer", ""),
        ("lora", "my-adapter"),
        ("lora", "revision:" + "a" * 40),
        ("hash_root", "xyz"),
        ("config", "{}"),
        ("config", '{"b": 1}'),
        ("config", '{"b":1,"a":2}'),
        ("config", "[]"),
        ("kv_dtype", ""),
        ("codec", ""),
        ("layout", ""),
        ("groups", ()),
        ("hash_algorithm", ""),
        *((name, 0) for name in COUNTED),
    ],
)
def test_a_value_that_pins_nothing_is_refused(name, value):
    with pytest.raises(ValueError, match=r"\w"):
        replace(BASE, **{name: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_config_without_a_json_form_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical({"rope_theta": value})


def document(**change) -> bytes:
    return json.dumps({**VECTORS[0], **change}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b"{}",
        document(schema="kvctl.fingerprint/2"),
        document(tensor_parallel=2),
        document(digest=None, tensor_parallel="2"),
        document(digest=None, tensor_parallel=True),
        document(digest=None, config=None),
        document(digest=None, config={"rope_theta": float("nan")}),
        document(digest=None, kv_dtype="\ud800"),
        document(digest=None, mood="good"),
        document(digest=None, weights="revision:main"),
        json.dumps({key: value for key, value in VECTORS[0].items() if key != "lora"}).encode(),
        json.dumps({key: value for key, value in VECTORS[0].items() if key != "format_version"}).encode(),
        to_json(BASE).replace(b"500000.0", b"1e999"),
    ],
    ids=range(17),
)
def test_what_is_no_fingerprint_is_refused(data):
    with pytest.raises(KvctlError) as caught:
        from_json(data, where="gpu1.json")
    error = caught.value
    assert (error.code, error.exit_code, error.where) == ("KV-CONN-020", ExitCode.USAGE, "gpu1.json")
    assert error.why


def test_a_file_without_a_digest_is_read():
    assert from_json(document(digest=None)) == BASE
