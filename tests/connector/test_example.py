"""The page on the sealed chunk shows what the code does."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from kvctl.connector.example import PARTS
from kvctl.connector.fingerprint import Fingerprint
from kvctl.connector.seal import HEADER_BYTES, SealFault

PAGE = (Path(__file__).parents[2] / "docs" / "sealed-chunk.md").read_text()


def test_the_worked_example_is_what_the_command_prints():
    """When this fails: python -m kvctl.connector.example, and put it into the page."""
    done = subprocess.run([sys.executable, "-m", "kvctl.connector.example"], capture_output=True, text=True, check=True)
    assert done.stdout in PAGE


def test_the_parts_cover_the_header():
    at = 0
    for start, size, name in PARTS:
        assert start == at
        assert f"| {start} | {size} | {name} |" in PAGE
        at += size
    assert at == HEADER_BYTES


def test_every_field_of_a_fingerprint_is_explained_in_order():
    rows = re.findall(r"^\| (`.*?`) \|", PAGE[PAGE.index("### Fingerprint") : PAGE.index("## Keys")], re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == [f.name for f in fields(Fingerprint)]


def test_every_reason_is_explained():
    assert all(f"| `{fault}` |" in PAGE for fault in SealFault)
