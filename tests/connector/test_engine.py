"""An engine whose hashes mean something else elsewhere, or whose KV lies elsewhere, is refused with the reason."""

import pytest

from kvctl.connector.engine import check_engine, refusals
from kvctl.types.errors import ExitCode, RefusedError

ONE_NODE = {"world_size": 2, "local_world_size": 2}


def test_the_settings_that_are_asked_for_pass():
    check_engine("sha256_cbor", {"PATH": "/usr/bin"}, 1, **ONE_NODE)


@pytest.mark.parametrize(
    ("hash_algo", "environ", "nodes", "ranks", "code", "named"),
    [
        ("sha256", {}, 1, ONE_NODE, "KV-CONN-001", "sha256"),
        ("xxhash_cbor", {}, 1, ONE_NODE, "KV-CONN-001", "xxhash_cbor"),
        ("SHA256_CBOR", {}, 1, ONE_NODE, "KV-CONN-001", "SHA256_CBOR"),
        ("sha256_cbor", {"PYTHONHASHSEED": "0"}, 1, ONE_NODE, "KV-CONN-002", "PYTHONHASHSEED"),
        ("sha256_cbor", {"PYTHONHASHSEED": "random"}, 1, ONE_NODE, "KV-CONN-002", "PYTHONHASHSEED"),
        ("sha256_cbor", {"PYTHONHASHSEED": ""}, 1, ONE_NODE, "KV-CONN-002", "PYTHONHASHSEED"),
        ("sha256_cbor", {}, 2, {"world_size": 4, "local_world_size": 2}, "KV-CONN-003", "2 nodes, 4 ranks"),
        ("sha256_cbor", {}, 2, ONE_NODE, "KV-CONN-003", "2 nodes"),
        ("sha256_cbor", {}, 1, {"world_size": 4, "local_world_size": 2}, "KV-CONN-003", "4 ranks of which 2"),
        ("sha256_cbor", {}, 0, ONE_NODE, "KV-CONN-003", "0 nodes"),
    ],
)
def test_each_other_setting_is_refused(hash_algo, environ, nodes, ranks, code, named):
    with pytest.raises(RefusedError) as caught:
        check_engine(hash_algo, environ, nodes, **ranks)
    error = caught.value
    assert (error.code, error.exit_code) == (code, ExitCode.REFUSED)
    assert named in f"{error.what} {error.why}"
    assert error.where
    assert error.fix


def test_all_reasons_are_named_at_once():
    found = refusals("xxhash", {"PYTHONHASHSEED": "7"}, 2, world_size=2, local_world_size=1)
    assert [error.code for error in found] == ["KV-CONN-001", "KV-CONN-002", "KV-CONN-003"]
