"""What a Prometheus server and a health check see."""

import json
import urllib.error
import urllib.request

import pytest

from kvctl.fleet.node.metrics import FAMILIES, Metrics, server


def test_what_is_not_known_is_not_shown_as_zero():
    assert Metrics().text().strip() == ""


def test_a_family_has_its_help_type_and_escaped_labels():
    metrics = Metrics()
    metrics.add("kvctl_link_flaps_total", interface='we"ird\\')
    metrics.add("kvctl_link_flaps_total", interface='we"ird\\')
    assert metrics.text().splitlines() == [
        "# HELP kvctl_link_flaps_total Times the interface went down while kvnoded watched.",
        "# TYPE kvctl_link_flaps_total counter",
        'kvctl_link_flaps_total{interface="we\\"ird\\\\"} 2',
    ]


def test_counters_are_named_total_and_times_carry_their_unit():
    for name, (kind, meaning) in FAMILIES.items():
        assert name.endswith("_total") is (kind == "counter")
        assert not ("Seconds" in meaning or "Unix time" in meaning) or name.endswith("_seconds")


@pytest.fixture
def answers():
    state = {"ok": True}
    metrics = Metrics()
    metrics.set("kvctl_link_up", 1, interface="eth1")
    made = server(metrics, lambda: state, lambda: {"schema": 1}, ("127.0.0.1", 0))
    yield state, f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


def test_the_three_pages_and_no_other(answers):
    state, url = answers
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert b'kvctl_link_up{interface="eth1"} 1' in opener.open(url + "/metrics").read()
    assert json.load(opener.open(url + "/facts")) == {"schema": 1}
    assert json.load(opener.open(url + "/healthz"))["ok"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        opener.open(url + "/other")
    state["ok"] = False
    with pytest.raises(urllib.error.HTTPError, match="503"):
        opener.open(url + "/healthz")
