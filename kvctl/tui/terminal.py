"""What the terminal can show: ASCII alone where its locale says so."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# Python sets LC_CTYPE to one of these by itself where the locale is C (PEP 538); that says nothing of the terminal.
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
LOOKS = {"…": ".", "▔": "-", "▁": "_", "▌": "|", "▐": "|", "▎": "|", "█": "#", "│": "|", "─": "-", "•": "*"}


def ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether the locale is not UTF-8."""
    if environ.get("LC_ALL"):
        said = environ["LC_ALL"]
    else:
        said = environ.get("LC_CTYPE", "")
        if not said or said in COERCED:
            said = environ.get("LANG", "")
    return "utf-8" not in said.lower() and "utf8" not in said.lower()


class Ascii(LineFilter):
    """Everything that is drawn, in ASCII and as wide as before."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [s if s.text.isascii() else Segment(spelled(s.text), s.style, s.control) for s in segments]


def spelled(text: str) -> str:
    return "".join(c if c.isascii() else LOOKS.get(c, "?" * cell_len(c)) for c in text)
