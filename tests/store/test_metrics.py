"""What Prometheus is given."""

import re

import pytest

from kvctl.daemon.metrics import process, render
from kvctl.store.metrics import BUCKETS, FAMILIES, Metrics

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? \S+')


def test_every_line_is_a_comment_or_a_sample():
    metrics = Metrics()
    metrics.request("get", "ok", 0.003)
    metrics.count("kvstored_refusals_total", reason='a "quoted"\nline\\')
    text = render([*metrics.samples(), *process()], FAMILIES)
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith("# ") or SAMPLE.fullmatch(line), line


def test_a_histogram_counts_each_request_in_every_bucket_above_it():
    metrics = Metrics()
    for seconds in (0.0004, 0.003, 1000.0):
        metrics.request("get", "ok", seconds)
    samples = {(name, labels): value for name, labels, value in metrics.samples()}
    counts = [samples["kvstored_request_seconds_bucket", (("op", "get"), ("le", str(le)))] for le in BUCKETS]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 2)
    assert samples["kvstored_request_seconds_bucket", (("op", "get"), ("le", "+Inf"))] == 3
    assert samples["kvstored_request_seconds_sum", (("op", "get"),)] == pytest.approx(1000.0034)


def test_large_counts_keep_every_digit():
    metrics = Metrics()
    metrics.count("kvstored_bytes_total", 2**53 - 1, op="get")
    assert f'kvstored_bytes_total{{op="get"}} {2**53 - 1}\n' in render(metrics.samples(), FAMILIES)


def test_a_family_has_one_type_and_a_unit_in_its_name():
    for name, (kind, about) in FAMILIES.items():
        assert kind in ("counter", "gauge", "histogram")
        assert about.endswith(".")
        if "bytes" in about and "kvstored_ram" not in name:
            assert "bytes" in name
