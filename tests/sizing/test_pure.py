"""The sizing room decides; it does not look at the world."""

import ast
from pathlib import Path

import pytest

import kvctl.sizing

ROOM = Path(kvctl.sizing.__file__).parent
FILES = sorted(ROOM.rglob("*.py"))
WORLD = {"time", "datetime", "random", "os", "sys", "socket", "subprocess", "threading", "asyncio", "click", "logging"}


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOM)))
def test_it_reads_no_clock_and_no_environment(file):
    assert {name.split(".")[0] for name in imports(file)} & WORLD == set()


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOM)))
def test_it_needs_nothing_else_of_kvctl_but_types(file):
    others = {name for name in imports(file) if name.startswith("kvctl.")}
    assert {name for name in others if not name.startswith(("kvctl.sizing", "kvctl.types"))} == set()


def test_only_the_trace_reader_opens_a_file():
    assert [f.name for f in FILES if "open(" in f.read_text() or "read_text(" in f.read_text()] == ["trace.py"]
