"""Sample outputs, and what every parser owes to a damaged one."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.fleet.probe.tools import ToolOutputError

FOLDER = Path(__file__).parents[3] / "data" / "samples"
JUNK = (
    "",
    "-W- DMA burning is not supported",
    "bash: line 1: ls: command not found",
    "[   12.3] mlx5_core: junk",
    "\x1b[0m",
)
fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def sample(path: str) -> str:
    return (FOLDER / path).read_bytes().decode()


def folder(name: str, start: str = "") -> list[str]:
    return [f"{name}/{path.name}" for path in sorted((FOLDER / name).iterdir()) if path.name.startswith(start)]


@st.composite
def damaged(draw: st.DrawFn, texts: list[str]) -> str:
    """A sample after up to three of: a line lost, doubled or moved, a cut, a wrong character, a foreign line."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        at = draw(st.integers(0, len(lines) - 1))
        where = draw(st.integers(0, len(text)))
        how = draw(st.sampled_from(["lose", "double", "move", "cut", "flip", "insert"]))
        if how == "cut":
            text = text[:where]
            continue
        if how == "flip":
            text = text[:where] + draw(st.characters(codec="utf-8")) + text[where + 1 :]
            continue
        if how == "lose":
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        else:
            lines.insert(at, draw(st.one_of(st.sampled_from(JUNK), st.text(max_size=20))))
        text = "\n".join(lines)
    return text


def assert_survives_damage(parse: Callable[[str], object], texts: list[str]) -> None:
    """Whatever the text: a value or ToolOutputError."""

    @fuzz
    @given(st.one_of(damaged(texts), st.text(max_size=80)))
    def survives(text: str) -> None:
        try:
            repr(parse(text))
        except ToolOutputError:
            return

    survives()


def assert_cut_changes_nothing(parse: Callable[[str], Any], text: str) -> None:
    """What the parser still says about the first lines of an output is what it says about the whole."""
    whole = parse(text)
    lines = text.splitlines(keepends=True)
    for count in range(len(lines)):
        try:
            part = parse("".join(lines[:count]))
        except ToolOutputError:
            continue
        assert_within(part, whole, f"first {count} lines")


def assert_within(part: Any, whole: Any, where: str) -> None:
    if part is None or part == whole:
        return
    if is_dataclass(part):
        for entry in fields(part):
            assert_within(getattr(part, entry.name), getattr(whole, entry.name), f"{where}: {entry.name}")
    elif isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, f"{where}: {key} is not in the whole"
            assert_within(value, whole[key], f"{where}: {key}")
    elif isinstance(part, tuple):
        assert len(part) <= len(whole), where
        for index, value in enumerate(part):
            assert_within(value, whole[index], f"{where}: [{index}]")
    else:
        assert part == whole, f"{where}: {part!r} is {whole!r} in the whole"


def assert_noise_changes_nothing(parse: Callable[[str], Any], text: str) -> None:
    """Carriage returns, terminal colours and trailing blanks are not part of an output."""
    whole = parse(text)
    assert parse(text.replace("\n", "\r\n")) == whole
    assert parse("\n".join(f"\x1b[1m{line}\x1b[0m  " if line else line for line in text.split("\n"))) == whole
