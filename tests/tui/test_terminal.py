"""What a terminal is taken to show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kvctl.tui import words
from kvctl.tui.terminal import ascii_only, spelled


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LANG": "en_GB.UTF-8"}, False),
        ({"LANG": "C.utf8"}, False),
        ({"LANG": "C"}, True),
        ({}, True),
        ({"LC_CTYPE": "C.UTF-8"}, True),  # Python's own doing in the C locale
        ({"LC_CTYPE": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, True),
    ],
)
def test_ascii_where_the_locale_is_not_utf_8(environ, expected):
    assert ascii_only(environ) is expected


@given(st.text(st.characters(exclude_categories=["Mn", "Me", "Cf", "Cc", "Cs", "Cn", "Co"])))
def test_ascii_is_as_wide_as_what_it_stands_for(text):
    assert spelled(text).isascii()


@pytest.mark.parametrize("text", ["abc…", "東京", "▐X▌"])
def test_width_is_kept(text):
    assert len(spelled(text)) == cell_len(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "never"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")]
)
def test_ages(seconds, text):
    assert words.age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "not known"), (0, "0 B"), (1024, "1.0 KiB"), (1 << 60, "1024.0 PiB")]
)
def test_sizes(count, text):
    assert words.size(count) == text


@given(st.text())
def test_text_is_one_printable_line(text):
    assert words.plain(text).isprintable()
