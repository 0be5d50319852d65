"""Which engine a request goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.gateway.answers import Refused
from kvctl.gateway.choose import Place, allowed, choose, prefix_digest, ranked, serving


def place(name: str, running: int = 0, **fields) -> Place:
    given = {"country": "DE", "models": frozenset({"m"}), "slots": 64} | fields
    return Place(name, running=running, **given)


FOUR = [place(f"e{number}") for number in range(4)]


def test_equal_prefixes_of_a_tenant_go_to_the_same_engine():
    digest = prefix_digest("acme", b"You are")
    assert {choose(FOUR, digest, 1.5).name for _ in range(5)} == {choose(FOUR[::-1], digest, 1.5).name}


def test_prefixes_spread_over_the_engines():
    chosen = [choose(FOUR, prefix_digest("acme", str(number).encode()), 1.5).name for number in range(400)]
    assert all(60 < chosen.count(one.name) < 140 for one in FOUR)
    assert prefix_digest("acme", b"x") != prefix_digest("other", b"x")


def test_an_engine_that_is_gone_moves_only_its_own_prefixes():
    digests = [prefix_digest("acme", str(number).encode()) for number in range(200)]
    before = [choose(FOUR, digest, 1.5).name for digest in digests]
    less = [place("e0", room=False), *FOUR[1:]]
    after = [choose(less, digest, 1.5).name for digest in digests]
    assert all(old == new for old, new in zip(before, after, strict=True) if old != "e0")


def test_a_busy_engine_gives_up_its_prefix():
    digest = prefix_digest("acme", b"x")
    own, *others = ranked(FOUR, digest)
    busy = [place(own.name, 40), *(place(one.name, 2) for one in others)]
    assert choose(busy, digest, 1.5).name != own.name
    alike = [place(own.name, 40), *(place(one.name, 38) for one in others)]
    assert choose(alike, digest, 1.5).name == own.name, "when all are busy it keeps it"


def test_no_room_is_no_engine():
    assert choose([place("e1", room=False)], b"x" * 32, 1.5) is None


def test_rules_are_named():
    with pytest.raises(Refused, match="KV-GATE-040") as unknown:
        serving(FOUR, "other")
    assert unknown.value.status == 404
    with pytest.raises(Refused) as forbidden:
        allowed(FOUR, ("FR",))
    assert (forbidden.value.status, forbidden.value.code) == (403, "KV-GATE-041")
    assert "processing_countries [FR]" in forbidden.value.message
    assert allowed(FOUR, None) == allowed(FOUR, ("FR", "DE")) == FOUR


@given(st.lists(st.integers(0, 64), min_size=1, max_size=6), st.binary(min_size=32, max_size=32))
def test_one_with_room_is_found_whenever_there_is_one(loads, digest):
    places = [place(f"e{at}", running, room=running < 64) for at, running in enumerate(loads)]
    chosen = choose(places, digest, 1.25)
    assert (chosen is None) == all(running == 64 for running in loads)
    assert chosen is None or chosen.room
