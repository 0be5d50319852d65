"""The benchmark of the time to the first token: its percentiles, its verdicts and its chart."""

import xml.etree.ElementTree as ET

from kvctl.bench.ttft import WAYS, render, spread, summary
from kvctl.bench.ttft_chart import svg
from kvctl.fleet.lab.serving_demo import Answer


def answers(first, cached, output=(1, 2)):
    return [Answer(first, (0.1, 0.2), 1024, cached, output)]


def taken(**changes):
    return {"miss": answers(4.0, 0), "host": answers(0.1, 1024), "store": answers(0.2, 1024), **changes}


def test_percentiles_are_values_that_were_measured():
    assert spread([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "count": 3}
    assert spread(range(1, 201)) == {"p50": 100, "p99": 198, "count": 200}


def test_another_output_and_half_a_context_are_noticed():
    assert summary(taken(), 1024)["identical"]
    assert summary(taken(), 1024)["whole"]
    assert not summary(taken(store=answers(0.2, 1024, (1, 3))), 1024)["identical"]
    assert not summary(taken(store=answers(0.2, 896)), 1024)["whole"]


def test_the_chart_is_a_drawing_with_a_line_a_way():
    parts = [{"tokens": tokens, **summary(taken(), 1024)} for tokens in (1024, 4096)]
    root = ET.fromstring(svg(parts, WAYS))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == len(WAYS)


def test_what_was_not_measured_is_printed():
    part = {"tokens": 1024, "sessions": 1, **summary(taken(), 1024)}
    document = {"contexts": [part], "sessions": [part], "conditions": {"load": "1"}, "not_measured": {"flash": "why"}}
    assert "- flash: why" in render(document, "table")
