"""What Prometheus is given, whichever daemon counts."""

import math
import os
import re

import pytest

from kvctl.daemon.metrics import PROCESS, histogram, process, render

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? \S+')
FAMILIES = {"seen_total": ("counter", "What was seen."), "wait_seconds": ("histogram", "How long."), **PROCESS}


def test_whatever_a_label_holds_every_line_is_a_comment_or_a_sample():
    text = render([("seen_total", (("reason", 'a "quoted"\nline\\'),), 1), *process()], FAMILIES)
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith("# ") or SAMPLE.fullmatch(line), line


def test_a_histogram_is_one_family_and_each_bucket_counts_those_below():
    rows = render(histogram("wait_seconds", (("op", "get"),), (0.1, 1.0), [2, 1, 4], 9.5), FAMILIES).splitlines()
    assert rows[:2] == ["# HELP wait_seconds How long.", "# TYPE wait_seconds histogram"]
    assert rows[2:] == [
        'wait_seconds_bucket{op="get",le="0.1"} 2',
        'wait_seconds_bucket{op="get",le="1.0"} 3',
        'wait_seconds_bucket{op="get",le="+Inf"} 7',
        'wait_seconds_sum{op="get"} 9.5',
        'wait_seconds_count{op="get"} 7',
    ]


def test_a_sample_that_nobody_described_is_a_defect():
    with pytest.raises(KeyError):
        render([("nobody_knows", (), 1)], FAMILIES)


def test_a_process_tells_all_of_itself():
    found = {name: value for name, _, value in process()}
    assert found.keys() == PROCESS.keys()
    assert 1 << 20 < found["process_resident_memory_bytes"] < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert all(math.isfinite(value) and value > 0 for value in found.values())
