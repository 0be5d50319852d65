"""Handles: what a gateway signs is what an engine reads, and nothing else counts."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.handle import LABEL, Fault, Handle, HandleError, cache_salt, salt_digest, sign, verify
from kvctl.connector.keys import Identity
from kvctl.types.chunks import Kind

GATEWAY = Identity.generate()
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=128)
HANDLES = st.builds(
    Handle,
    tenant=NAMES,
    domain=NAMES,
    epoch=st.binary(min_size=16, max_size=16),
    salt_digest=st.binary(min_size=32, max_size=32),
    subject=st.binary(min_size=16, max_size=16),
    kind=st.sampled_from(Kind),
    expires_at=st.integers(1, 1 << 40),
    chunk_expires_at=st.integers(0, 1 << 40),
    await_until=st.floats(0, 1e12),
)


def handle(**changes: object) -> Handle:
    fields = {"tenant": "acme", "domain": "users", "epoch": bytes(16), "salt_digest": salt_digest("s"), "expires_at": 9}
    return Handle(**{**fields, **changes})  # type: ignore[arg-type]


@given(HANDLES)
def test_what_is_signed_is_what_is_read(made: Handle):
    assert verify(sign(made, GATEWAY), [bytes(32), GATEWAY.public], now=0) == made


@given(HANDLES, st.data())
def test_a_changed_character_gives_nothing(made: Handle, data: st.DataObject):
    text = sign(made, GATEWAY)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda letter: letter != text[at]))
    changed = text[:at] + other + text[at + 1 :]
    if at == len(text) - 1 and same_bytes(changed, text):
        return  # the last character of base64 has bits that stand for nothing
    with pytest.raises(HandleError) as caught:
        verify(changed, [GATEWAY.public], now=0)
    assert caught.value.reason in (Fault.FORGED, Fault.MALFORMED)


def same_bytes(one: str, other: str) -> bool:
    return decoded(one) == decoded(other)


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@given(st.text(max_size=5000))
def test_any_text_is_refused_with_a_reason(text: str):
    with pytest.raises(HandleError):
        verify(text, [GATEWAY.public], now=0)


def test_whose_signature_counts_and_until_when():
    text = sign(handle(expires_at=100), GATEWAY)
    assert verify(text, [GATEWAY.public], now=99.9).tenant == "acme"
    with pytest.raises(HandleError) as caught:
        verify(text, [GATEWAY.public], now=100)
    assert caught.value.reason is Fault.EXPIRED
    for trusted in ([], [Identity.generate().public]):
        with pytest.raises(HandleError) as caught:
            verify(text, trusted, now=0)
        assert caught.value.reason is Fault.FORGED


def test_a_field_of_a_later_version_is_not_passed_over():
    document = msgspec.json.decode(decoded(sign(handle(), GATEWAY))[64:])
    document["handle"]["read_only"] = True
    body = msgspec.json.encode(document, order="deterministic")
    later = urlsafe_b64encode(GATEWAY.sign(LABEL + body) + body).decode().rstrip("=")
    with pytest.raises(HandleError) as caught:
        verify(later, [GATEWAY.public], now=0)
    assert caught.value.reason is Fault.MALFORMED


@pytest.mark.parametrize(
    "wrong",
    [{"epoch": b"short"}, {"tenant": ""}, {"salt_digest": b""}, {"await_until": float("inf")}, {"expires_at": -1}],
)
def test_a_handle_that_cannot_be(wrong: dict[str, object]):
    with pytest.raises(ValueError, match=r"bytes|Unix|have|names|32"):
        handle(**wrong)


def test_salts_differ_by_key_domain_and_holder():
    made = {
        cache_salt(key, domain, holder)
        for key in (bytes(32), b"k" * 32)
        for domain in ("a", "ab")
        for holder in (b"", b"b", b"common")
    }
    assert len(made) == 12
    assert all(len(salt) == 43 for salt in made)
