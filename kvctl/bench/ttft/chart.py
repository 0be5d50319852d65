"""The chart of a run as PNG: both latencies against length and against sessions."""

import importlib
import importlib.util
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvctl.bench.ttft.cells import COMPUTED, DEGRADED, HITS, TEXTS, Way
from kvctl.bench.ttft.figures import numbers
from kvctl.bench.ttft.report import swept
from kvctl.types.errors import UsageError

INCHES, DOTS = (16.0, 9.0), 120
INK, FAINT = "#222222", "#dddddd"
# Colours that people with colour-blindness tell apart (Okabe and Ito); failing stores share one, with markers.
LOOKS: Mapping[Way, tuple[str, str, str]] = {
    Way.MISS: ("#d55e00", "-", "o"),
    Way.MISS_WRITING: ("#d55e00", "--", "o"),
    Way.HOST: ("#000000", "-", "s"),
    Way.MEMORY: ("#0072b2", "-", "o"),
    Way.FLASH: ("#009e73", "-", "o"),
    Way.FLASH_WRITING: ("#009e73", "--", "o"),
    Way.DISK: ("#56b4e9", "-", "D"),
    Way.OBJECT: ("#cc79a7", "-", "o"),
    Way.GONE: ("#999999", ":", "^"),
    Way.STOPPED: ("#999999", ":", "s"),
    Way.SLOW: ("#999999", ":", "v"),
}
AXES = {"tokens": "tokens of the context, one session", "sessions": "sessions at once, 1024 tokens each"}
KINDS = {"first": "time to first token", "between": "time between tokens"}
BLOCKS = {"Computed": COMPUTED, "Restored": HITS, "Stores fail": DEGRADED}
STEPS = (1, 2, 5)  # labels of a decade, where an axis has
CLOSE = 300  # times its least at most
FOOTER = ("date", "processor", "engine", "model", "chunk", "stores", "rounds", "load before")
MISSING = "matplotlib is not installed: ./dev peers, or pip install matplotlib"


def missing() -> str:
    """Why there can be no chart; "" when there can."""
    return "" if importlib.util.find_spec("matplotlib") else MISSING


def draw(document: Mapping[str, Any], path: Path) -> None:
    """UsageError KV-BENCH-034 without matplotlib."""
    if why := missing():
        raise UsageError("KV-BENCH-034", "the chart cannot be drawn", why=why, fix="./dev peers")
    importlib.import_module("matplotlib").use("Agg")
    plots: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = plots.subplots(2, 2, figsize=INCHES, sharex="col")
    for line, kind in enumerate(KINDS):
        for column, by in enumerate(AXES):
            panel(axes[line][column], document["cells"], kind, by)
    for column, by in enumerate(AXES):
        axes[1][column].set_xlabel(AXES[by], color=INK, fontsize=12)
    for line, kind in enumerate(KINDS):
        axes[line][0].set_ylabel(f"{KINDS[kind]} (ms, s)", color=INK, fontsize=12)
    decorate(figure, axes, document)
    figure.savefig(path, dpi=DOTS)
    plots.close(figure)


def panel(axes: Any, cells: Sequence[Mapping[str, Any]], kind: str, by: str) -> None:
    """A line a way through its p50; from each point a thin line up to its p99."""
    columns = sorted({cell[by] for cell in swept(cells, by)})
    drawn = [way for way in LOOKS if any(cell["way"] == way for cell in cells)]
    for at, way in enumerate(drawn):
        points = sorted(
            (cell[by], *pair)
            for cell in swept(cells, by)
            if cell["way"] == way and (pair := numbers(cell, kind)) is not None
        )
        if not points:
            continue
        colour, dashes, marker = LOOKS[way]
        # Side by side, so that no way's p99 hides another's.
        places = [place * 1.022 ** (at - (len(drawn) - 1) / 2) for place, *_ in points]
        p50, p99 = ([1000 * point[rank] for point in points] for rank in (1, 2))
        axes.vlines(places, p50, p99, color=colour, linewidth=1, alpha=0.45)
        axes.plot(
            places, p50, color=colour, linestyle=dashes, marker=marker, markersize=5, linewidth=2, label=TEXTS[way]
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(columns, [f"{column:,}" for column in columns])
    axes.minorticks_off()
    ticks: Any = importlib.import_module("matplotlib.ticker")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(ticks.LogLocator(subs=STEPS if high / low < CLOSE else (1,), numticks=20))
    axes.yaxis.set_major_formatter(lambda value, _: duration(value))
    axes.grid(True, color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def decorate(figure: Any, axes: Any, document: Mapping[str, Any]) -> None:
    """Title, what a mark means, the legend beside the panels, and the conditions below them."""
    figure.suptitle(
        "Restored, not recomputed: vLLM with kvctl", x=0.06, y=0.975, ha="left", fontsize=20, color=INK,
        fontweight="bold",
    )  # fmt: skip
    figure.text(0.06, 0.918, subtitle(document), fontsize=12.5, color="#555555")
    legend(figure, [one for line in axes for one in line])
    told = "; ".join(f"{name}: {document['conditions'][name]}" for name in FOOTER if name in document["conditions"])
    figure.text(0.06, 0.02, textwrap.fill(told, 245), fontsize=8.5, color="#666666", linespacing=1.4)
    figure.subplots_adjust(left=0.06, right=0.775, top=0.875, bottom=0.155, wspace=0.13, hspace=0.09)


def legend(figure: Any, panels: Sequence[Any]) -> None:
    """Beside the panels, under the names of the three kinds of ways."""
    patches: Any = importlib.import_module("matplotlib.patches")
    seen: dict[str, Any] = {}
    for one in panels:
        handles, labels = one.get_legend_handles_labels()
        seen |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in seen}
    handles, labels = [], []
    for name, block in BLOCKS.items():
        mine = [TEXTS[way] for way in block if TEXTS[way] in seen]
        if mine:
            handles += [patches.Patch(alpha=0), *(seen[text] for text in mine)]
            labels += [name, *mine]
    made = figure.legend(
        handles, labels, loc="center left", bbox_to_anchor=(0.782, 0.53), frameon=False, fontsize=11,
        labelspacing=0.85, handlelength=2.4,
    )  # fmt: skip
    for text in made.get_texts():
        if text.get_text() in BLOCKS:
            text.set_fontweight("bold")
            text.set_x(-34)


def duration(milliseconds: float) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds >= 1000 else f"{milliseconds:g} ms"


def subtitle(document: Mapping[str, Any]) -> str:
    marks = "Points: p50; thin lines: up to p99; logarithmic scales."
    found = next(
        (row for row in document["rows"] if row["ratio"] is not None and "recompute / restored" in row["name"]), None
    )
    if found is None:
        return marks
    return f"{found['name'].partition(':')[0]}: {found['ratio']:.0f} times faster than recomputed. {marks}"
