"""What a check of a log found."""

from dataclasses import dataclass, field

from kvctl.ledger.tree import Hash


@dataclass(frozen=True, slots=True)
class Problem:
    """`place`: a file below the log's directory, or entries; `index`: the first entry concerned, where one is."""

    place: str
    what: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """`size` and `root` are what the entries give; the root is None when too much of them is missing."""

    origin: str
    size: int
    root: Hash | None
    problems: list[Problem]
    beyond: int = 0  # entries of the journal that no checkpoint covers yet
    sources: dict[str, int] = field(default_factory=dict)  # the last number of each source's counter

    @property
    def sound(self) -> bool:
        return not self.problems
