"""The document as tables for terminals and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from kvctl.bench.report import Row, rendered
from kvctl.bench.ttft.cells import DEGRADED, HITS, TEXTS, Way
from kvctl.bench.ttft.figures import because, numbers

KINDS = {"first": "Time to first token, p50 / p99, ms", "between": "Between tokens, p50 / p99, ms"}
TENTHS = 0.1  # seconds, below which tenths of milliseconds are shown
WHOLE = 0.9999  # of the tokens
SAID = {True: "holds", False: "does not hold", None: "not measured"}

UNDECIDED = "not decided"  # measured, and too uneven to say


def render(document: Mapping[str, Any], fmt: str) -> str:
    return rendered(document, fmt, sections, notes)


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Title and rows, the header first."""
    if document["rows"]:
        yield "What must hold", judged(document["rows"])
    for kind, title in KINDS.items():
        yield f"{title}: by length, one session", pivot(document["cells"], kind, "tokens")
    for kind, title in KINDS.items():
        yield f"{title}: by sessions at once, 1024 tokens each", pivot(document["cells"], kind, "sessions")
    if given := shares(document):
        yield "What failing stores gave", given


def judged(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = [("measure", "ratio", "required", "", "medians, ms", "repetitions")]
    for one in found:
        medians = ", ".join(f"{name} {milliseconds(value)}" for name, value in one["medians"].items())
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
        if one["between"]:
            ratio += " ({:.2f} to {:.2f})".format(*one["between"])
        said = UNDECIDED if one["ratio"] is not None and one["holds"] is None else SAID[one["holds"]]
        rows.append((one["name"], ratio, one["required"], said, medians, str(one["repetitions"])))
    return rows


def swept(cells: Sequence[Mapping[str, Any]], by: str) -> list[Mapping[str, Any]]:
    """One session of every length, or every number of sessions of the shortest."""
    shortest = min((cell["tokens"] for cell in cells), default=0)
    return [cell for cell in cells if (cell["sessions"] == 1 if by == "tokens" else cell["tokens"] == shortest)]


def pivot(cells: Sequence[Mapping[str, Any]], kind: str, by: str) -> list[Row]:
    """A line a way, a column a length or a number of sessions."""
    found = {(cell["way"], cell[by]): cell for cell in swept(cells, by)}
    columns = sorted({column for _, column in found})
    rows: list[Row] = [("", *(f"{column}" for column in columns))]
    for way in Way:
        mine = [found.get((str(way), column)) for column in columns]
        if any(mine):
            rows.append((TEXTS[way], *(shown(cell, kind) for cell in mine)))
    return rows


def shown(cell: Mapping[str, Any] | None, kind: str) -> str:
    if cell is None:
        return ""
    pair = numbers(cell, kind)
    return cell["status"] if pair is None else " / ".join(milliseconds(value) for value in pair)


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f}" if seconds >= TENTHS else f"{1000 * seconds:.1f}"


def shares(document: Mapping[str, Any]) -> list[Row]:
    """A line a cell: tokens restored all the same, and the time beside the same prompt without any store."""
    rows: list[Row] = []
    for cell in document["cells"]:
        if cell["way"] in DEGRADED and cell["status"] == "measured":
            name = f"{TEXTS[Way(cell['way'])]}, {cell['sessions']} x {cell['tokens']}"
            beside = compared(document["samples"].get("failing", ()), cell)
            rows.append((name, f"{100 * cell['restored']:.0f}", beside, str(cell["first"]["count"])))
    return [("store, context", "tokens restored, %", "TTFT with / without", "samples"), *rows] if rows else []


def compared(pairs: Sequence[Mapping[str, Any]], cell: Mapping[str, Any]) -> str:
    mine = [pair for pair in pairs if (pair["way"], pair["tokens"]) == (cell["way"], cell["tokens"])]
    if not mine or cell["sessions"] > 1:
        return "-"
    return f"{median(pair['degraded'] for pair in mine) / median(pair['recompute'] for pair in mine):.2f}"


def notes(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Title and lines, the same in both forms."""
    if document["failing"]:
        yield "When a store came back", [f"- {TEXTS[Way(one['way'])]}: {one['said']}" for one in document["failing"]]
    not_whole = [
        f"- {cell['name']}: {100 * cell['restored']:.0f} % of the tokens were restored, the others computed: "
        f"{because(cell['reasons'])}"
        for cell in document["cells"]
        if cell["status"] == "measured" and cell["way"] in HITS and cell["restored"] < WHOLE
    ]
    late = [(one["recomputed"], one["known"]) for one in document["samples"].get("between", ())]
    if sum(count for count, _ in late):
        told = f"{sum(count for count, _ in late)} of {sum(known for _, known in late)}"
        not_whole.append(f"- inter-token comparison: {told} known contexts were computed; that is in its numbers")
    if not_whole:
        yield "Not restored whole, by the tier's decision", not_whole
    absent = [f"- {cell['name']}: {cell['status']}: {cell['why']}" for cell in document["cells"] if "why" in cell]
    absent += [f"- {name}: {why}" for name, why in document["left_out"].items()]
    if absent:
        yield "Not measured", absent
    lines = []
    for name, value in document["conditions"].items():
        if isinstance(value, Mapping):
            lines += [f"- {name}, {part}: {one}" for part, one in value.items()]
        else:
            lines.append(f"- {name}: {value}")
    yield "Conditions", lines
