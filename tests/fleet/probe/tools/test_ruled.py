from __future__ import annotations

from kvctl.fleet.probe.tools import ruled

TABLE = """\
banner
  NAME    SIZE  LAST WORD
------  ------  -----------
    a     1,2   x y
   bb           
 c c         3  z

  OTHER    N
-------  ---
      p    1
"""


def test_tables_are_cut_by_their_rulers() -> None:
    first, second = ruled.tables(TABLE)
    assert first.header == ("NAME", "SIZE", "LAST WORD")
    assert first.rows[0] == {"NAME": "a", "SIZE": "1,2", "LAST WORD": "x y"}
    assert first.rows[1] == {"NAME": "bb", "SIZE": "", "LAST WORD": ""}
    assert first.rows[2]["NAME"] == "c c"
    assert first.before == "banner"
    assert second.rows == ({"OTHER": "p", "N": "1"},)


def test_a_row_that_fits_no_column_is_reported_not_guessed() -> None:
    (table,) = ruled.tables("A    B    C\n---  ---  ---\n1 2 3 4 5 6 7 8\n")
    assert table.rows == ()
    assert table.unread == ("1 2 3 4 5 6 7 8",)


def test_a_row_with_squeezed_blanks_is_split_by_words() -> None:
    (table,) = ruled.tables("AAAA    BBBB\n------  ------\nx1234567 y\n")
    assert table.rows == ({"AAAA": "x1234567", "BBBB": "y"},)


def test_text_without_rulers_has_no_tables() -> None:
    assert ruled.tables("a b\n1 2\n") == []
    assert not ruled.is_ruler("a ---")
