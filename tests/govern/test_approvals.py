"""Payloads have one text, and growth is growth."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kvctl.govern.approvals import canonical, digest, growth

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=4)
IMPACTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6), max_size=3)


@given(PAYLOADS)
def test_a_payload_has_one_text_whatever_the_order(payload):
    turned = dict(reversed(list(payload.items())))
    assert canonical(payload) == canonical(turned)
    assert json.loads(canonical(payload)) == payload
    assert canonical(json.loads(canonical(payload))) == canonical(payload)


@given(PAYLOADS, PAYLOADS)
def test_two_payloads_never_share_a_hash(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest(canonical(one)) == digest(canonical(other))) == same


@given(IMPACTS, IMPACTS)
def test_growth_is_more_than_a_twentieth_of_anything(before, after):
    grew = any(after.get(name, 0) * 100 > before.get(name, 0) * 105 for name in "abc")
    assert bool(growth({"n": before}, {"n": after})) == grew


def test_what_is_not_known_may_have_grown():
    assert growth({"a": None}, {"a": None}) == []
    assert growth({"a": 1}, {"a": None}) == ["a was 1, and is not known now"]
    assert growth({"a": None}, {"a": 1}) == ["a was not known, and is 1 now"]


def test_a_hold_that_was_not_met_is_named():
    assert growth({"holds": ["h1"]}, {"holds": ["h1"]}) == []
    assert growth({"holds": ["h1"]}, {"holds": []}) == []
    assert growth({"holds": ["h1"]}, {"holds": ["h1", "h2"]}) == ["hold h2 is met now"]
