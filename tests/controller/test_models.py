"""Models are pinned by content: what was pinned last is listed, and a changed file is named."""

import json

import pytest

from kvctl.client.models import compare, digests
from kvctl.connector.tiny_model import HEADS, HIDDEN, KV_HEADS, LAYERS
from kvctl.controller.models import catalogue
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import ModelPin, Nothing
from tests.controller import people


@pytest.fixture
def ctl(tmp_path):
    with people.controller(tmp_path / "state") as made:
        yield made


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 2}))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "LICENSE").write_text("free\n")
    return folder


def pin(ctl, model, **more):
    return ctl.call("model.pin", people.OPERATOR, ModelPin("m", **digests(model), **more))


def pins(ctl):
    return ctl.call("model.ls", people.OPERATOR, Nothing())["models"]


def test_a_pin_is_listed_and_its_directory_is_as_pinned(ctl, model):
    pin(ctl, model, engines=["vllm 0.32.0"])
    (kept,) = pins(ctl)
    assert (kept["name"], kept["engines"]) == ("m", ["vllm 0.32.0"])
    assert compare(model, kept) == []


@pytest.mark.parametrize(
    ("file", "field"),
    [("model.safetensors", "weights"), ("tokenizer.json", "tokenizer"), ("LICENSE", "licence")],
)
def test_a_changed_file_is_named(ctl, model, file, field):
    pin(ctl, model)
    (model / file).write_bytes(b"other")
    assert [one["field"] for one in compare(model, pins(ctl)[0])] == [field]


def test_a_changed_config_is_named(ctl, model):
    pin(ctl, model)
    (model / "config.json").write_text(json.dumps({"num_hidden_layers": 3}))
    assert [one["field"] for one in compare(model, pins(ctl)[0])] == ["config"]


def test_the_newest_pin_of_a_name_counts(ctl, model):
    pin(ctl, model)
    (model / "LICENSE").unlink()
    pin(ctl, model)
    (kept,) = pins(ctl)
    assert kept["licence"] == "none"


def test_a_dry_run_pins_nothing(ctl, model):
    assert pin(ctl, model, dry_run=True)["would"] == {"pin": "m"}
    assert pins(ctl) == []


def test_what_is_no_digest_is_refused(ctl, model):
    with pytest.raises(UsageError) as refused:
        ctl.call("model.pin", people.OPERATOR, ModelPin("m", **digests(model) | {"weights": "sha256:abc"}))
    assert refused.value.code == "KV-MOD-002"


def test_a_viewer_pins_nothing(ctl, model):
    viewer = Principal("local:vic", frozenset({Role.VIEWER}), fresh=True)
    with pytest.raises(RefusedError):
        ctl.call("model.pin", viewer, ModelPin("m", **digests(model)))


def test_the_catalogue_describes_the_tiny_model_as_it_is_made():
    (tiny,) = [one for one in catalogue() if one.name == "kvctl-tiny"]
    assert tiny.token_bytes("float32") == LAYERS * 2 * KV_HEADS * (HIDDEN // HEADS) * 4
