"""Pins: each field that differs is named; the bytes of a token's KV as engines have them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.govern.models import Files, differences, family

FIELDS = ("weights", "tokenizer", "config", "licence")
PINNED = Files(*(f"sha256:{digit * 64}" for digit in "abcd"))


@given(st.sets(st.sampled_from(FIELDS)))
def test_exactly_the_fields_that_differ_are_named(changed):
    found = replace(PINNED, **dict.fromkeys(changed, "sha256:" + "0" * 64))
    assert {one.field for one in differences(PINNED, found)} == changed


def test_grouped_and_latent_attention_have_their_own_formulas():
    grouped = family({"name": "a", "licence": "MIT", "layers": 32, "kv_heads": 8, "head_dim": 128})
    latent = family({"name": "b", "licence": "MIT", "layers": 61, "latent": 512, "rotary": 64})
    assert grouped.token_bytes("bfloat16") == 131072
    assert latent.token_bytes("bfloat16") == 70272


def test_a_row_without_kv_is_refused():
    with pytest.raises(ValueError, match="no KV"):
        family({"name": "a", "licence": "MIT", "layers": 0, "kv_heads": 8, "head_dim": 128})
