"""Tables as CSV."""

from kvctl.controller.export import table_csv


def test_what_a_spreadsheet_would_run_is_text_and_a_number_stays_one():
    rows = [{"name": "=1+1", "clock_ms": -3.5, "n": -2}, {"name": "-x", "clock_ms": None, "n": 4}]
    assert table_csv(rows).decode().split("\r\n")[1:3] == ["'=1+1,-3.5,-2", "'-x,,4"]
