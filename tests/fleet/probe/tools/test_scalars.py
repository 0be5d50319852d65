from __future__ import annotations

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, scalars


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (7.0, 7),
        ("7", 7),
        ("1,234", 1234),
        ("12,34,567", 1234567),
        ("0x1F", 31),
        (-3, -3),
        (7.5, None),
        (float("inf"), None),
        (float("nan"), None),
        ("1,23", None),
        ("\u0663", None),
        ("1_000", None),
        ("9" * 5000, None),
        (True, None),
        (None, None),
    ],
)
def test_integers(value: object, expected: int | None) -> None:
    assert scalars.integer(value) == expected


def test_counts_are_never_negative_nor_above_their_limit() -> None:
    assert scalars.count(-1) is None
    assert scalars.count(256, 255) is None
    assert scalars.count(255, 255) == 255


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3,4", {3, 4}),
        (3, {3}),
        ("3-5", {3, 4, 5}),
        ("3 4", {3, 4}),
        ([3, 4], {3, 4}),
        ("8", None),
        ("5-3", None),
        ("", None),
    ],
)
def test_priorities(value: object, expected: set[int] | None) -> None:
    assert scalars.priorities(value) == (None if expected is None else frozenset(expected))


def test_json_after_warnings() -> None:
    assert scalars.load_json('warning: old\n{"a": NaN}') == {"a": None}
    assert scalars.load_json("\ufeff[1]") == [1]


@pytest.mark.parametrize("text", ["", "no", '{"a": ', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_broken_json_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        scalars.load_json(text)


def test_same_key_with_two_values_is_refused() -> None:
    assert scalars.once([("a", "1"), ("a", "1")]) == {"a": "1"}
    with pytest.raises(ToolOutputError):
        scalars.once([("a", "1"), ("a", "2")])


@pytest.mark.parametrize("between", ["\n", "", "\nnode01# tool -o json\n"])
def test_two_documents_are_refused(between: str) -> None:
    with pytest.raises(ToolOutputError, match="several"):
        scalars.load_json('{"a": 1}' + between + '{"a": 2}')


def test_what_is_in_brackets_is_not_always_json() -> None:
    assert scalars.load_json('[   12.345678] nvme nvme0: message\n[root@node01 ~]# tool\n{"a": 1}') == {"a": 1}
