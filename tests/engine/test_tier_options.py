"""Options of the tier: what is missing or contradicts itself stops the engine before it serves, with a reason."""

from pathlib import Path
from typing import Any

import pytest

from kvctl.connector.keys import Identity
from kvctl.connector.placement import Node, PoolMap, sign_map
from kvctl.connector.tier_options import Role, check_policy, read_options
from kvctl.types.errors import RefusedError, UsageError

KEY = "ab" * 32
NODE = {"name": "storage1", "addresses": ["tcp:127.0.0.1:1"], "public_key": KEY}
GOOD: dict[str, Any] = {"identity": "/k", "leases": "/l", "gateways": [KEY], "stores": [NODE]}


def test_defaults_and_paths():
    options = read_options(GOOD)
    assert (options.identity, options.role, options.max_wait_share) == (Path("/k"), Role.BOTH, 0.2)
    assert options.trusted == (bytes.fromhex(KEY),)
    assert options.loads
    assert options.stores_chunks
    assert [node.name for node in options.pool_map().nodes] == ["storage1"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"stores": []}, "stores"),
        ({"pool": "/m"}, "stores"),
        ({"gateways": []}, "gateways"),
        ({"leases": None}, "leases"),
        ({"single_tenant": {"lease": "/x"}}, "single_tenant"),
        ({"role": "reader"}, "role"),
        ({"deadline_ms": 0}, "deadline_ms"),
        ({"max_wait_share": 1.5}, "shares"),
        ({"gateways": ["ab"]}, "public key"),
        ({"identity": 7}, "path"),
        ({"deadline": 5}, "deadline"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], named: str):
    with pytest.raises(UsageError) as caught:
        read_options({**GOOD, **changes})
    assert caught.value.code == "KV-VLLM-001"
    assert named in caught.value.why


def test_a_signed_map_is_read_and_another_signers_is_not(tmp_path: Path):
    controller = Identity.generate()
    pool = PoolMap(7, (Node("storage1", ("tcp:127.0.0.1:1",), KEY),))
    (tmp_path / "map").write_bytes(sign_map(pool, controller))
    given = {**GOOD, "stores": [], "pool": str(tmp_path / "map")}
    assert read_options({**given, "controllers": [controller.public.hex()]}).pool_map() == pool
    with pytest.raises(RefusedError, match="KV-CONN-031"):
        read_options({**given, "controllers": [KEY]}).pool_map()
    with pytest.raises(UsageError, match="KV-VLLM-006"):
        read_options({**given, "pool": str(tmp_path / "none"), "controllers": [KEY]}).pool_map()


def test_failed_loads_are_recomputed_or_the_engine_does_not_start():
    check_policy("recompute")
    with pytest.raises(RefusedError, match="KV-VLLM-003"):
        check_policy("fail")
