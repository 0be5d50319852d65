"""What is wrong with an inventory: one record a place, and the error that carries all of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvctl.types.errors import UsageError

MISSING_FILE = "KV-INV-001"
UNREADABLE = "KV-INV-002"
NOT_YAML = "KV-INV-003"
TOO_LARGE = "KV-INV-004"
DUPLICATE_KEY = "KV-INV-005"
UNKNOWN_KEY = "KV-INV-006"
BAD_VALUE = "KV-INV-007"
DUPLICATE_NODE = "KV-INV-008"
NO_SUCH_NAME = "KV-INV-009"
SAME_ENDPOINT = "KV-INV-010"

SHOWN = 50  # problems printed; all are kept

CODES = {
    MISSING_FILE: "There is no inventory, or not where it was said to be.",
    UNREADABLE: "The inventory cannot be read.",
    NOT_YAML: "The inventory is not one YAML document in UTF-8.",
    TOO_LARGE: "The inventory is too large, too deep, or its aliases expand to too much.",
    DUPLICATE_KEY: "A key stands twice in one mapping.",
    UNKNOWN_KEY: "A key is not part of the format.",
    BAD_VALUE: "A value has the wrong type or is not allowed, or a required field is missing.",
    DUPLICATE_NODE: "Two nodes have one name.",
    NO_SUCH_NAME: "A node names a role, pool or rail that the inventory does not define.",
    SAME_ENDPOINT: "Two nodes have one address and port.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct. `line` and `column` count from 1; `field` is a dotted path, empty for the document."""

    line: int
    column: int
    field: str
    code: str
    problem: str
    allowed: str = ""

    def text(self, name: str) -> str:
        field = f"{self.field}: " if self.field else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        # What is allowed may be names of the same file, which can be anything.
        return printable(f"{name}:{self.line}:{self.column} {field}{self.problem}{allowed}")


class InventoryError(UsageError):
    """All problems of one file, sorted by line. `code` is that of the first problem; each problem has its own."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.line, p.column, p.code, p.field, p.problem)))
        count = len(self.problems)
        lines = [f"{p.text(name)} [{p.code}]" for p in self.problems[:SHOWN]]
        lines += [f"... and {count - SHOWN} more"] if count > SHOWN else []
        what = (
            self.problems[0].text(name)
            if count == 1
            else f"{count} errors in the inventory\n" + "\n".join(f"    {n}" for n in lines)
        )
        super().__init__(
            self.problems[0].code, what, where=name, fix="see docs/inventory.md, or run: kvctl config schema"
        )


def field_name(path: tuple[str | int, ...]) -> str:
    """nodes[0].address, as the error lines and the reference print it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return shorten(text, 120)


def shorten(text: str, limit: int = 40) -> str:
    """Input of any size and content as one printable line."""
    shown = printable(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def printable(text: str) -> str:
    """One line that moves no cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)
