"""What engines and gateways would get, and what is refused before anything changes."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from kvctl.connector.keys import Identity
from kvctl.connector.placement import Node as StoreNode
from kvctl.connector.tier_options import read_options
from kvctl.controller import deploy_gateway, deploy_serving, pool_map
from kvctl.controller.connectors import changes, with_connectors
from kvctl.controller.engine_view import Seen, Source, judged
from kvctl.controller.serving_spec import parse
from kvctl.gateway.config import parse as gateway_config
from kvctl.types.errors import KvctlError, UsageError

KEY, GATE = "ab" * 32, "cd" * 32
PIN = deploy_serving.Pin("sha256:" + "1" * 64, "sha256:" + "2" * 64, "sha256:" + "3" * 64)


def spec(**more):
    least = {"schema": 1, "engine": "/opt/engine", "model": {"name": "llama", "directory": "/models/llama"}}
    return parse(yaml.safe_dump({**least, **more}), "f")


@dataclass
class Site:
    inventory: object


SITE = Site(SimpleNamespace(site=SimpleNamespace(name="fra1", country="FR")))


def engine(name="gpu1", packages="sha256:aa", archive=None, **more):
    node = SimpleNamespace(name=name, address="10.0.0.1")
    bundle = SimpleNamespace(path=Path("/b/engine-1.tar.gz"), sha256="e" * 64, name="engine-1")
    source = archive or Source("/opt/engine")
    return deploy_serving.WantedEngine(
        node, None, bundle, spec(**more), source, Seen("3.11.7", packages, "0.32.0"), PIN
    )


def test_the_engines_options_are_what_the_tier_takes():
    document = yaml.safe_load(deploy_serving.options(engine(tier={"alpha": 0.5}), "fra1", (GATE, KEY), KEY))
    transfer = json.loads(document["kv-transfer-config"])
    (tier,) = transfer["kv_connector_extra_config"]["secondary_tiers"]
    given = {name: value for name, value in tier.items() if name not in ("type", "module_path")}
    found = read_options(given)
    assert (found.alpha, found.trusted, found.weights) == (0.5, (bytes.fromhex(GATE), bytes.fromhex(KEY)), PIN.weights)
    assert transfer["kv_load_failure_policy"] == "recompute"
    assert document["prefix-caching-hash-algo"] == "sha256_cbor"
    assert document["uds"].startswith("/run/kvctl-engine/")


def test_an_engine_listens_on_nothing_but_its_socket():
    document = yaml.safe_load(deploy_serving.options(engine(), "fra1", (GATE,), KEY))
    assert not {"host", "port", "api-key"} & document.keys()


@pytest.mark.parametrize(("device", "spec_name"), [("cuda", "TieringOffloadingSpec"), ("cpu", "CpuTieringSpec")])
def test_what_copies_depends_on_the_device(device, spec_name):
    found = deploy_serving.transfer(engine(device=device), "fra1", (GATE,), KEY)
    assert found["kv_connector_extra_config"]["spec_name"] == spec_name


def test_a_node_that_has_no_archive_is_told_its_length_and_digest(tmp_path):
    file = tmp_path / "engine.tar"
    file.write_bytes(b"engine")
    source = Source.of(str(file))
    args = engine(archive=source).args()
    assert args["archive_bytes"] == 6
    assert args["home"] == f"/opt/kvctl/engine-{args['archive_sha256'][:16]}"
    assert "archive" not in engine().args()


def test_what_is_neither_archive_nor_directory():
    with pytest.raises(UsageError, match=r"is no engine"):
        Source.of("engine.tar")


def test_engines_that_differ_are_not_deployed_together():
    deploy_serving.check_alike([engine("gpu1"), engine("gpu2")])
    with pytest.raises(UsageError) as caught:
        deploy_serving.check_alike([engine("gpu1"), engine("gpu2", packages="sha256:bb")])
    assert caught.value.code == "KV-DEP-011"
    assert "gpu2" in caught.value.why


def test_a_model_that_is_not_pinned_is_not_served():
    models = [{"name": "llama", "weights": "w", "tokenizer": "t", "config": "c"}]
    assert deploy_serving.pin_of(models, "llama") == deploy_serving.Pin("w", "t", "c")
    with pytest.raises(UsageError) as caught:
        deploy_serving.pin_of(models, "other")
    assert caught.value.code == "KV-DEP-014"


@pytest.mark.parametrize(
    ("changes_", "why"),
    [
        ({"vllm": None}, "lacks vllm"), ({"msgspec": None}, "lacks msgspec"), ({"vllm": "0.31.2"}, "0.31.2"),
        ({"packages": "sha256:other"}, "pinned"),
    ],
)  # fmt: skip
def test_engines_that_cannot_serve(changes_, why):
    said = {"python": "3.11.7", "packages": "sha256:aa", "vllm": "0.32.0+cpu", "cryptography": "50", "msgspec": "0.2"}
    assert judged(said, "sha256:aa") == (Seen("3.11.7", "sha256:aa", "0.32.0+cpu"), "")
    seen, found = judged(said | changes_, "sha256:aa")
    assert seen is None
    assert why in found


def test_the_gateways_configuration_is_one():
    node = SimpleNamespace(name="gpu1", address="10.0.0.1")
    wanted = deploy_gateway.WantedGateway(node, None, SimpleNamespace(name="b"), spec(slots=8))
    found = gateway_config(deploy_gateway.config(wanted, SITE, KEY).encode(), "kvgated.yaml")
    (one,) = found.engines
    assert (one.url, one.country, one.slots, one.models) == (f"unix:{deploy_serving.SOCKET}", "FR", 8, ("llama",))
    assert found.gateway == "gpu1-gateway"
    assert found.tls is not None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"busy"), (200, b"<html>"), (200, b'{"usage": {"completion_tokens": 0, "prompt_tokens": 1}}'),
        (200, b"{}"), (401, b'{"error": {}}'),
    ],
)  # fmt: skip
def test_a_gateway_without_a_token_fails_its_deployment(status, body):
    wanted = deploy_gateway.WantedGateway(SimpleNamespace(name="gpu1"), None, None, None)
    with pytest.raises(KvctlError) as caught:
        deploy_gateway.completed(wanted, status, body)
    assert (caught.value.code, caught.value.where) == ("KV-DEP-020", "step generate")


STORE = "# Written by kvctl deploy storage.\n" + yaml.safe_dump(
    {"schema": 1, "node": "storage1", "connectors": {"kvctld": KEY}, "ram": "1GiB"}, sort_keys=False
)


def test_a_store_that_knows_them_is_left_alone():
    assert with_connectors(STORE, {"kvctld": KEY}) == STORE


def test_only_the_list_of_connectors_changes():
    wanted = {"kvctld": KEY, "gpu1-engine": GATE}
    after = with_connectors(STORE, wanted)
    assert yaml.safe_load(after) == yaml.safe_load(STORE) | {"connectors": wanted}
    assert [change.subject for change in changes(STORE, wanted)] == ["gpu1-engine"]
    assert with_connectors(after, {"kvctld": KEY}) == STORE


def test_a_map_of_the_pool_grows_only_when_the_stores_change(tmp_path):
    site, path = Identity.generate(), tmp_path / "pool.json"
    first = (StoreNode("s1", ("tcp:10.0.0.1:7740",), KEY),)
    made = pool_map.renewed(None, first)
    text = pool_map.text(path, made, site, None, keep=True)
    assert pool_map.text(path, pool_map.renewed(made, first), site, made, keep=True) == text
    later = pool_map.renewed(made, (*first, StoreNode("s2", ("tcp:10.0.0.2:7740",), GATE)))
    assert later.version == made.version + 1


def test_a_stores_weight_is_what_it_holds():
    assert pool_map.capacity({"tiers": [{"capacity": 3 << 30}, {"capacity": 1 << 30}]}) == 4
    assert pool_map.capacity({"tiers": []}) == 1
