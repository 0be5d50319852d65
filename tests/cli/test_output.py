"""Tables, CSV and colour, as a terminal and a spreadsheet see them."""

import pytest

from kvctl.cli.output import as_csv, colored, table


def test_a_table_fits_100_columns_and_breaks_no_id(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    rows = [{"node": "storage1", "check": "nic.fw.running", "detail": "word " * 60}]
    lines = table(rows, ("node", "check", "detail")).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("storage1  nic.fw.running  word")
    assert lines[2].startswith(" " * 10)


def test_what_a_node_says_cannot_drive_the_terminal():
    assert "\x1b" not in table([{"a": "x\x1b[2Jy", "b": "z\r\n"}], ("a", "b"))


def test_no_rows_is_no_table():
    assert table([], ("a",)) == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"])
def test_a_cell_is_never_a_formula(text):
    assert as_csv([{"a": text}], ["a"]).splitlines()[1].lstrip('"').startswith("'")


def test_an_unknown_cell_is_empty_and_a_zero_is_zero():
    assert as_csv([{"a": None, "b": 0}], ["a", "b"]) == "a,b\r\n,0\r\n"


def test_colour_only_on_a_terminal_or_when_asked(monkeypatch):
    monkeypatch.delenv("KVCTL_COLOR", raising=False)
    assert colored("x", "red") == "x"
    monkeypatch.setenv("KVCTL_COLOR", "always")
    assert colored("x", "red") != "x"
    monkeypatch.setenv("KVCTL_COLOR", "never")
    assert colored("x", "red") == "x"
