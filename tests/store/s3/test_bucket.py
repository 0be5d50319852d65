"""Settings, credentials, names; and that neither secrets nor the environment get where they should not."""

import json
import logging
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from kvctl.store.s3.bucket import Bucket, Settings, hex_bytes, load_credentials, scope_digest
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from tests.store import seaweed
from tests.store.s3.made import Opener, chunk, get, is_soon, put

SECRET = {"access_key": "AKIDEXAMPLE", "secret_key": "very-secret", "session_token": "token-secret"}
EPOCH = bytes(16)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_credentials_are_read_and_not_shown(tmp_path: Path) -> None:
    found = load_credentials(written(tmp_path / "c", json.dumps(SECRET)))

    assert (found.access_key, found.secret_key, found.session_token) == tuple(SECRET.values())
    assert not any(value in f"{found!r} {found}" for value in SECRET.values())


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        (json.dumps(SECRET), 0o640, "KV-CONN-011"),
        ("very-secret", 0o600, "KV-STORE-303"),
        ("[]", 0o600, "KV-STORE-303"),
        ('{"access_key": "a"}', 0o600, "KV-STORE-303"),
        ('{"access_key": "a", "secret_key": ""}', 0o600, "KV-STORE-303"),
        ('{"access_key": "a", "secret_key": "very-secret", "more": "x"}', 0o600, "KV-STORE-303"),
    ],
)
def test_bad_credentials_are_refused_without_repeating_them(tmp_path: Path, text: str, mode: int, code: str) -> None:
    with pytest.raises(KvctlError) as refused:
        load_credentials(written(tmp_path / "c", text, mode))
    assert refused.value.code == code
    assert "very-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"endpoint": "127.0.0.1:8333"}, "KV-STORE-301"),
        ({"prefix": ""}, "KV-STORE-302"),
        ({"prefix": "/a"}, "KV-STORE-302"),
        ({"prefix": "a//b"}, "KV-STORE-302"),
        ({"prefix": "a b"}, "KV-STORE-302"),
    ],
)
def test_bad_settings_are_refused(more: dict[str, str], code: str) -> None:
    good = {"bucket": "kv", "endpoint": "http://127.0.0.1:1", "prefix": "store1", "credentials": None}
    with pytest.raises(UsageError) as refused:
        Settings(**(good | more))  # type: ignore[arg-type]
    assert refused.value.code == code


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_two_scopes_never_share_a_name(tenant: str, domain: str, tenant2: str, domain2: str) -> None:
    one, two = Scope(tenant, domain, EPOCH), Scope(tenant2, domain2, EPOCH)
    assert (scope_digest(one) == scope_digest(two)) == (one == two)


@given(st.binary(min_size=32, max_size=32))
def test_names_are_read_back(key: bytes) -> None:
    assert hex_bytes(key.hex()) == key
    assert hex_bytes(key.hex()[:-1]) is None
    assert hex_bytes(key.hex()[:-1] + "X") is None


def test_the_environment_steers_nothing(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "other",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "other",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_BUCKET": "other",
        "AWS_REGION": "eu-west-1",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }.items():
        monkeypatch.setenv(name, value)

    tier = opener()

    assert tier.stat().places[0].state == "ok", tier.stat().places[0].why
    record, data = chunk(1)
    put(tier, record, data)
    assert get(tier, record.key) == data


def test_refused_credentials_are_said_and_never_shown(opener: Opener, caplog: pytest.LogCaptureFixture) -> None:
    path = written(opener.path / "wrong.json", json.dumps({k: v for k, v in SECRET.items() if k != "session_token"}))
    with caplog.at_level(logging.DEBUG):
        tier = opener(credentials=path)

    place = tier.stat().places[0]
    assert (place.state, place.why) == ("failed", "HTTP 403 InvalidAccessKeyId")
    shown = f"{caplog.text} {tier.stat()} {Bucket(opener.settings(credentials=path))!r}"
    assert not any(value in shown for value in SECRET.values())


def test_new_credentials_need_no_restart(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvctl.store.s3.bucket.CREDENTIALS_SECONDS", 0.0)
    path = written(opener.path / "changing.json", json.dumps({"access_key": "a", "secret_key": "b"}))
    tier = opener(credentials=path)
    assert tier.stat().places[0].state == "failed"

    opener.cluster.credentials(path)

    record, data = chunk(1)
    assert is_soon(lambda: tier.stat().places[0].state == "ok")
    put(tier, record, data)
    assert get(tier, record.key) == data


def test_a_credentials_file_that_goes_away_is_said(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvctl.store.s3.bucket.CREDENTIALS_SECONDS", 0.0)
    tier = opener()
    (opener.path / "store.json").unlink()

    for number in range(3):
        assert put(tier, *chunk(number)).name == "FAILED"

    assert tier.stat().places[0].why == "the credentials file cannot be used"


def versioned(cluster: seaweed.Cluster, bucket: str, status: str) -> None:
    access, secret = cluster.secrets["admin"]
    client = boto3.client(
        "s3",
        endpoint_url=cluster.endpoint,
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}),
    )
    if bucket not in {found["Name"] for found in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def test_a_bucket_that_keeps_versions_is_refused(opener: Opener) -> None:
    versioned(opener.cluster, "kv-versions", "Enabled")
    with pytest.raises(RefusedError) as refused:
        opener(bucket="kv-versions", identity="admin")
    assert refused.value.code == "KV-STORE-304"

    versioned(opener.cluster, "kv-versions", "Suspended")
    assert opener(bucket="kv-versions", identity="admin").stat().places[0].state == "ok"


def test_versioning_switched_on_later_stops_writes(opener: Opener) -> None:
    versioned(opener.cluster, "kv-later", "Suspended")
    tier = opener(bucket="kv-later", identity="admin")
    versioned(opener.cluster, "kv-later", "Enabled")

    assert put(tier, *chunk(2)).name == "FAILED"

    assert "versions" in tier.stat().places[0].why
    assert not tier.stat().writable
