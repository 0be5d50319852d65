import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.fleet.probe.document import dumps

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(VALUES)
def test_json_reads_back_what_was_written(value: object) -> None:
    text = dumps(value)
    assert json.loads(text) == value
    assert "\n" not in text
    assert text.isascii()


def test_what_json_has_no_number_for_is_null() -> None:
    assert json.loads(dumps([float("nan"), float("inf"), -float("inf")])) == [None, None, None]


def test_true_is_not_one() -> None:
    assert dumps({"a": True, "b": 1, "c": ()}) == '{"a":true,"b":1,"c":[]}'


def test_an_object_without_a_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="bytes"):
        dumps({"a": b"x"})
