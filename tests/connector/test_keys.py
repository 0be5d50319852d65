"""Root keys, leases and identities: the same keys everywhere, and none of them where it can be read."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.keys import Identity, KeyLease, RootKey, load_lease, verify, write_lease
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.types.chunks import Scope
from kvctl.types.errors import ExitCode, KvctlError

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "keys.json").read_text())
SCOPE = Scope("acme", "default", b"e" * 16)
ROOT = bytes(range(0x80, 0xA0))
LEASE = KeyLease(RootKey(SCOPE, ROOT), b"token of the controller", 2_000_000_000)
NAMES = st.text(min_size=1, max_size=20)
SCOPES = st.builds(Scope, NAMES, NAMES, st.binary(min_size=16, max_size=16))
PKCS8 = (Encoding.PEM, PrivateFormat.PKCS8)


@pytest.mark.parametrize("vector", VECTORS)
def test_golden_vectors(vector):
    """Made by HMAC alone, as RFC 5869 describes HKDF."""
    scope = Scope(vector["tenant"], vector["domain"], bytes.fromhex(vector["epoch"]))
    key = RootKey(scope, bytes.fromhex(vector["root"]))
    for use in ("name_key", "seal_key", "salt_key"):
        assert getattr(key, use).hex() == vector[use]


@given(SCOPES, SCOPES)
def test_one_root_gives_different_scopes_different_keys(left, right):
    keys = [RootKey(scope, ROOT) for scope in (left, right)]
    assert (keys[0].seal_key == keys[1].seal_key) == (left == right)
    assert len({keys[0].name_key, keys[0].seal_key, keys[0].salt_key, ROOT}) == 4


def secrets_of(lease: KeyLease) -> list[bytes]:
    return [lease.key.root, lease.key.name_key, lease.key.seal_key, lease.key.salt_key, lease.capability]


def test_no_secret_is_shown():
    shown = repr(LEASE) + str(LEASE) + repr(LEASE.key)
    for secret in secrets_of(LEASE):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


@pytest.mark.parametrize("held", [LEASE, LEASE.key, Identity.generate()])
def test_no_secret_is_pickled(held):
    with pytest.raises(TypeError, match="does not leave"):
        pickle.dumps(held)


def test_a_root_key_of_another_size_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        RootKey(SCOPE, b"short")


def test_a_lease_comes_back_from_its_file(tmp_path):
    write_lease(tmp_path / "lease", LEASE)
    assert load_lease(tmp_path / "lease", now=1_999_999_999) == LEASE


def refused(path: Path, now: float = 0) -> KvctlError:
    with pytest.raises(KvctlError) as caught:
        load_lease(path, now=now)
    return caught.value


def test_a_lease_that_is_over_is_refused(tmp_path):
    path = tmp_path / "lease"
    write_lease(path, LEASE)
    error = refused(path, now=2_000_000_060)
    assert (error.code, error.exit_code, error.why) == ("KV-CONN-014", ExitCode.REFUSED, "it ended 60 s ago")
    assert refused(path, now=2_000_000_000).code == "KV-CONN-014"


def test_without_a_time_the_present_counts(tmp_path):
    write_lease(tmp_path / "lease", replace(LEASE, expires_at=1))
    with pytest.raises(KvctlError, match="KV-CONN-014"):
        load_lease(tmp_path / "lease")


def test_a_lease_that_others_can_read_is_refused(tmp_path):
    write_lease(tmp_path / "lease", LEASE)
    (tmp_path / "lease").chmod(0o644)
    assert refused(tmp_path / "lease").code == "KV-CONN-011"


@pytest.mark.parametrize(
    "change",
    [
        {"root_key": "c2hvcnQ="},
        {"root_key": "not base64!"},
        {"root_key": None},
        {"epoch": "00"},
        {"epoch": "xyz"},
        {"expires_at": "soon"},
        {"schema": "kvctl.lease/2"},
        {"restriction": True},
    ],
)
def test_a_file_that_holds_no_lease_is_refused_without_its_secret(tmp_path, change):
    path = tmp_path / "lease"
    write_lease(path, LEASE)
    held = json.loads(read_secret(path))
    write_secret(path, json.dumps(held | change).encode())
    error = refused(path)
    assert (error.code, error.exit_code) == ("KV-CONN-013", ExitCode.USAGE)
    assert error.why
    assert held["root_key"] not in str(error)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("lease") / "lease"
    write_secret(path, data)
    assert refused(path).code == "KV-CONN-013"


def test_an_identity_comes_back_from_its_file(tmp_path):
    identity = Identity.generate()
    identity.save(tmp_path / "id.pem")
    again = Identity.load(tmp_path / "id.pem")
    assert again.public == identity.public
    assert verify(identity.public, again.sign(b"text"), b"text")


def test_an_identity_may_be_the_bare_key(tmp_path):
    private = Ed25519PrivateKey.generate()
    write_secret(tmp_path / "id", private.private_bytes_raw())
    assert Identity.load(tmp_path / "id").public == private.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", ""),
        (b"x" * 31, ""),
        (X25519PrivateKey.generate().private_bytes(*PKCS8, NoEncryption()), "another algorithm"),
        (Ed25519PrivateKey.generate().private_bytes(*PKCS8, BestAvailableEncryption(b"p")), ""),
    ],
    ids=["empty", "short", "x25519", "passphrase"],
)
def test_a_file_without_such_a_key_is_refused(tmp_path, data, why):
    write_secret(tmp_path / "id", data)
    with pytest.raises(KvctlError) as caught:
        Identity.load(tmp_path / "id")
    assert caught.value.code == "KV-CONN-015"
    assert why in caught.value.why


def test_an_identity_that_others_can_read_is_refused(tmp_path):
    Identity.generate().save(tmp_path / "id")
    (tmp_path / "id").chmod(0o640)
    with pytest.raises(KvctlError, match="KV-CONN-011"):
        Identity.load(tmp_path / "id")


def test_an_identity_shows_its_public_key_alone():
    private = Ed25519PrivateKey.generate()
    assert private.private_bytes_raw().hex() not in repr(Identity(private))


def test_a_signature_verifies_for_its_text_and_key_alone():
    one, other = Identity.generate(), Identity.generate()
    signature = one.sign(b"text")
    assert verify(one.public, signature, b"text")
    assert not verify(one.public, signature, b"texT")
    assert not verify(other.public, signature, b"text")
    assert not verify(one.public[:31], signature, b"text")
    assert not verify(one.public, signature[:63], b"text")
    assert not verify(b"\xff" * 32, signature, b"text")
