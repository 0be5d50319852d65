"""docs/ledger.md says what the code does: the numbers and names of the formats."""

from pathlib import Path

from kvctl.ledger import log, tail, tiles

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "ledger.md").read_text()


def test_the_formats_are_those_of_the_page():
    assert "`KVTAIL1\\n`" in TEXT
    assert tail.MAGIC == b"KVTAIL1\n"
    assert f"`{tail.GROUP.decode()}`" in TEXT
    assert (tail.SEGMENT.size, tail.FRAME.size) == (36, 24)
    assert f"up to {log.MAX_PENDING:,} ahead" in TEXT
    assert f"at most {tiles.MAX_ENTRY:,} bytes" in TEXT
    assert Path(tail.segment_name(7)).name == "0000000000000007"
