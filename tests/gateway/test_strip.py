"""What of a body passes."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.gateway import strip
from kvctl.gateway.answers import Refused
from kvctl.gateway.routes import ROUTES, Api, find

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=8) | st.sampled_from(sorted(strip.DROPPED)), JSON, max_size=6),
    st.sampled_from(Api),
)
def test_only_what_may_not_pass_is_taken_out(body, api):
    clean, stripped = strip.clean(strip.read(json.dumps(body).encode()), api)
    kept = json.loads(strip.write(clean))
    assert not strip.DROPPED & set(kept)
    assert not [name for name in kept if name.lower().startswith(strip.DROPPED_PREFIXES)]
    ours = {"store", "metadata", "user", "safety_identifier"}
    for name, value in body.items():
        if name not in stripped and name not in ours:
            assert kept[name] == value
    assert set(kept) <= set(body) | {"store"}


WORDS = [
    *(b'"cache_salt"', b'"kv_hints"', rb'"cache\u005fsalt"', b'"model"', b'"a"', b'"x-tenant-id"', b'"\\"', b'"\\\\"'),
    *(b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"1", b"null", b"NaN", b"-", b" ", b"\n", b"\0", b"\xff", b"/*"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.booleans())
def test_an_engine_reads_no_other_fields_than_were_cleaned(words: list[bytes], framed: bool):
    """Whatever passes for JSON here: another reader finds each outermost field once, and none that may not pass."""
    data = b"".join(words)
    try:
        body = strip.read(b'{"a":' + data + b',"cache_salt":"x"}' if framed else data)
        clean, _ = strip.clean(body, Api.CHAT)
        strip.put(clean, {"cache_salt": "ours"})
        found = json.loads(strip.write(clean), object_pairs_hook=lambda pairs: pairs)
    except (Refused, ValueError):
        return
    names = [name for name, _ in found]
    assert len(names) == len(set(names))
    assert {name for name in names if name in strip.DROPPED} == {"cache_salt"}
    assert dict(found)["cache_salt"] == "ours"


def test_a_field_that_stands_twice_passes_once():
    body = strip.read(b'{"model": "a", "model": "b", "cache_salt": "x", "cache_salt": "y"}')
    assert strip.write(strip.clean(body, Api.CHAT)[0]) == b'{"model":"b"}'


def test_an_escaped_name_is_the_name():
    body = strip.read(rb'{"c\u0061che_salt": "x", "kv\u005ftransfer_params": {}, "a": 1}')
    assert strip.write(strip.clean(body, Api.CHAT)[0]) == b'{"a":1}'


def test_equal_beginnings_have_equal_prefixes():
    def prefix(messages, **more):
        return strip.prefix(strip.read(json.dumps({"model": "m", "messages": messages} | more).encode()), 64)

    first = [{"role": "system", "content": "x" * 80}]
    assert prefix(first) == prefix(first + [{"role": "user", "content": "y"}])
    assert prefix(first) == prefix(first, temperature=1)
    assert prefix(first) != prefix([{"role": "system", "content": "z" * 80}])
    assert len(prefix(first)) == 64


def test_our_fields_win():
    body = strip.read(b'{"cache_salt": "x"}')
    strip.put(body, {"cache_salt": "ours"})
    assert strip.value(body, "cache_salt") == "ours"
    assert isinstance(body["cache_salt"], msgspec.Raw)


@given(st.text(max_size=40))
def test_no_target_is_a_route_but_those_of_the_list(target):
    if ("POST", target.partition("?")[0]) in ROUTES:
        return
    with pytest.raises(Refused):
        find("POST", target)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_is_asked_for_by_its_method(method: str, path: str):
    assert find(method, path).path == path
    with pytest.raises(Refused):
        find("PUT", path)
