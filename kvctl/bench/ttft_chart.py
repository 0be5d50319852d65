"""The chart of `python -m kvctl.bench ttft`, as SVG text: time to the first token against length, both logarithmic."""

import math
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT, MARGIN = 640, 400, 60
COLOURS = ("#b33", "#37b", "#383")


def svg(parts: Sequence[dict[str, Any]], ways: Sequence[str]) -> str:
    """`parts`: {"tokens", "ways": {way: {"first": {"p50": seconds}}}}; one line a way."""
    lengths = [part["tokens"] for part in parts]
    times = [part["ways"][way]["first"]["p50"] for part in parts for way in ways]
    low, high = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)) + 1e-9)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
        text(WIDTH / 2, 24, "Time to the first token, median, s", "middle"),
        text(WIDTH / 2, HEIGHT - 12, "tokens of the context", "middle"),
    ]
    for decade in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = scale(10.0**decade, low, high, HEIGHT - MARGIN, MARGIN)
        lines.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(text(MARGIN - 6, y + 4, f"{10.0**decade:g}", "end"))
    for tokens in lengths:
        lines.append(text(scale(tokens, lengths[0], lengths[-1], MARGIN, WIDTH - MARGIN), HEIGHT - 40, str(tokens)))
    for colour, way in zip(COLOURS, ways, strict=True):
        points = [
            (
                scale(part["tokens"], lengths[0], lengths[-1], MARGIN, WIDTH - MARGIN),
                scale(part["ways"][way]["first"]["p50"], low, high, HEIGHT - MARGIN, MARGIN),
            )
            for part in parts
        ]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{joined}"/>')
        lines.append(text(points[-1][0] + 6, points[-1][1] + 4, way, "start", colour))
    return "\n".join([*lines, "</svg>", ""])


def text(x: float, y: float, what: str, anchor: str = "middle", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{what}</text>'


def scale(value: float, low: float, high: float, begin: float, end: float) -> float:
    """Where a value lies between two ends, by its logarithm; a range of one value is its begin."""
    return begin if low == high else begin + (end - begin) * math.log(value / low) / math.log(high / low)
