"""The gateway's benchmark: its arithmetic, its verdicts, its report, and one short run of the real thing."""

import asyncio
import json
from pathlib import Path

import pytest

from kvctl.bench.gateway import Target, render, started, targets
from kvctl.bench.gateway_load import Load, offer, percentile

SPREAD = {"p50": 0.001, "p99": 0.002, "longest": 0.003}
DOCUMENT = {
    "targets": targets({"added": {"p50": 0.0012}}, {"ratio_p99": 1.3}),
    "added": {
        "transit": {"direct": SPREAD, "through": SPREAD},
        "first": {"direct": SPREAD, "through": SPREAD},
        "wrong": 0,
        "gateway_memory_grown_bytes": 1 << 20,
    },
    "fair": {"idle": SPREAD, "flooded": SPREAD, "gold_wrong": 1, "bronze_served": 7, "bronze_refused": 2},
    "conditions": {"processor": "2 x P"},
}


def test_percentiles():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(range(100)), 0.99) == 99
    with pytest.raises(ValueError, match="measured"):
        percentile([], 0.5)


def test_a_target_that_is_missed_is_said():
    assert [one["ok"] for one in DOCUMENT["targets"]] == [True, False]
    text = render(DOCUMENT, "table")
    assert "MISSED" in text
    assert "processor: 2 x P" in text
    assert json.loads(render(DOCUMENT, "json"))["fair"]["bronze_served"] == 7
    assert "| added latency p50, ms | 1.20 | 5.00 | ok |" in render(DOCUMENT, "markdown")


def test_streams_come_whole_through_both_ways(tmp_path: Path):
    with started(tmp_path / "site", 8, ["--first", "0.01"]) as site:
        for target in (site.engine, Target(site.gateway, "gold")):
            times = asyncio.run(offer(target, Load(streams=4, requests=2, words=5)))
            assert (times.wrong, len(times.first), len(times.transit)) == (0, 8, 8 * 7)
