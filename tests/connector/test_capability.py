"""A token gives its holder what a controller wrote into it, until it is over, and nobody else anything."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.capability import (
    ALL,
    ID_BYTES,
    LABEL,
    NO_LIMITS,
    READ,
    SKEW,
    Capability,
    CapabilityError,
    Limits,
    Operation,
    sign,
    verify_token,
)
from kvctl.connector.keys import Identity
from kvctl.connector.wire import MAX_CONTROL, Refusal
from kvctl.types.chunks import Scope

CONTROLLER, STRANGER, GPU1, GPU2 = (Identity.generate() for _ in range(4))
BEGIN, END = 1_000_000, 1_003_600
TRUSTED = {STRANGER.public: "old", CONTROLLER.public: "site"}


def capability(**change) -> Capability:
    fields = {
        "tenant": "acme",
        "domain": "default",
        "epoch": b"e" * 16,
        "operations": ALL,
        "holder": GPU1.public,
        "limits": NO_LIMITS,
        "id": b"i" * ID_BYTES,
        "not_before": BEGIN,
        "expires_at": END,
    }
    return Capability(**{**fields, **change})


TOKEN = sign(capability(), CONTROLLER)


def refused(token, *, trusted=TRUSTED, now=BEGIN + 1, holder=GPU1.public) -> tuple[Refusal, str]:
    with pytest.raises(CapabilityError) as caught:
        verify_token(token, trusted, now=now, holder=holder)
    return caught.value.refusal, caught.value.why


@given(
    st.frozensets(st.sampled_from(Operation)),
    st.builds(Limits, st.none() | st.integers(1, 2**40), st.none() | st.integers(1, 4096)),
    st.binary(min_size=ID_BYTES, max_size=ID_BYTES),
    st.text(min_size=1, max_size=128).filter(lambda name: name.isprintable()),
)
def test_what_is_signed_is_what_the_store_reads(operations, limits, number, tenant):
    given_out = capability(operations=operations, limits=limits, id=number, tenant=tenant)
    assert verify_token(sign(given_out, CONTROLLER), TRUSTED, now=BEGIN, holder=GPU1.public) == given_out


def test_a_list_of_keys_will_do_for_the_trusted():
    assert verify_token(memoryview(TOKEN), [CONTROLLER.public], now=BEGIN, holder=GPU1.public) == capability()


def test_its_scope_and_operations():
    reader = capability(operations=READ)
    assert reader.scope == Scope("acme", "default", b"e" * 16)
    assert reader.allows(Operation.GET)
    assert not reader.allows(Operation.PUT)


def test_a_token_from_a_stranger_gives_nothing():
    assert refused(TOKEN, trusted=[STRANGER.public])[0] is Refusal.BAD_CAPABILITY
    assert refused(TOKEN, trusted=[])[0] is Refusal.BAD_CAPABILITY


def test_a_token_is_of_no_use_to_another_connector():
    assert refused(TOKEN, holder=GPU2.public) == (Refusal.BAD_CAPABILITY, "it was given to another connector")


def test_a_token_that_is_over_is_told_from_a_bad_one():
    assert refused(TOKEN, now=END) == (Refusal.EXPIRED, "it ended 0 s ago")
    assert verify_token(TOKEN, TRUSTED, now=END - 0.5, holder=GPU1.public).expires_at == END


def test_a_clock_may_be_a_little_behind_the_controllers():
    assert verify_token(TOKEN, TRUSTED, now=BEGIN - SKEW, holder=GPU1.public) == capability()
    assert refused(TOKEN, now=BEGIN - SKEW - 1)[0] is Refusal.BAD_CAPABILITY


@given(st.integers(0, len(TOKEN) * 8 - 1))
def test_one_changed_bit_and_it_gives_nothing(bit):
    changed = bytearray(TOKEN)
    changed[bit // 8] ^= 1 << bit % 8
    assert refused(bytes(changed))[0] is Refusal.BAD_CAPABILITY


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    assert refused(data)[0] is Refusal.BAD_CAPABILITY


def signed(**change) -> bytes:
    body = msgspec.json.encode({**msgspec.json.decode(TOKEN[64:]), **change})
    return CONTROLLER.sign(LABEL + body) + body


@pytest.mark.parametrize(
    "change",
    [
        {"only_at_night": True},
        {"schema": "kvctl.capability/2"},
        {"operations": ["get", "delete"]},
        {"limits": {"chunk": 1, "keys": None, "rate": 3}},
        {"limits": {"chunk": 0, "keys": None}},
        {"epoch": "AAAA"},
        {"holder": "AAAA"},
        {"id": "AAAA"},
        {"tenant": ""},
        {"domain": "d" * 129},
        {"expires_at": BEGIN},
        {"expires_at": 1.5},
    ],
    ids=str,
)
def test_a_signed_text_that_this_version_cannot_keep_is_refused(change):
    assert refused(signed(**change))[0] is Refusal.BAD_CAPABILITY


def test_a_signature_on_another_kind_of_text_is_no_capability():
    body = TOKEN[64:]
    assert refused(CONTROLLER.sign(body) + body)[0] is Refusal.BAD_CAPABILITY
    assert refused(CONTROLLER.sign(b"kvctl other 1\0" + body) + body)[0] is Refusal.BAD_CAPABILITY


def test_a_token_fits_a_frame():
    longest = capability(tenant="\N{GRINNING FACE}" * 128, domain="\N{GRINNING FACE}" * 128)
    assert len(sign(longest, CONTROLLER)) < MAX_CONTROL
    assert refused(signed() + b" " * MAX_CONTROL)[0] is Refusal.BAD_CAPABILITY


def test_equal_capabilities_are_signed_as_equal_texts():
    backwards = frozenset(sorted(ALL, reverse=True))
    assert sign(capability(operations=backwards), CONTROLLER) == TOKEN
