"""Versions as vendors print them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.fleet.checks.versions import branch, canonical, same


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("14.26.0017", "14.26.17", True),
        ("28.43.1014", "28.43.1014 ", True),
        ("28.43.1014", "28.43.1015", False),
        ("30_2012_4038-006", "30_2012_4038-006", True),
        ("30_2012_4038-006", "30_2012_4038-6", False),
        ("1.0", "1.0.0", False),
    ],
)
def test_same(a, b, equal):
    assert same(a, b) is equal


@pytest.mark.parametrize(
    ("version", "parts", "expected"), [("237.1.137.0", 3, "237.1.137"), ("231", 1, "231"), ("", 1, "")]
)
def test_branch(version, parts, expected):
    assert branch(version, parts) == expected


@given(st.text())
def test_any_text_is_a_version(text):
    assert canonical(canonical(text)) == canonical(text)
