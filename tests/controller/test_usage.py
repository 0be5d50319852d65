"""Usage: every record once, what is missing is counted, and what is not known is not zero."""

import time

import pytest

from kvctl.controller.catalogue import sync
from kvctl.controller.settings import EngineSettings
from kvctl.controller.usage import collect
from kvctl.types.errors import UsageError
from kvctl.types.requests import UsageShow
from tests.controller import people
from tests.controller.stores import Gateway, Store, serving

BOOT = "20260301000000-00000001"


def record(counter, **fields):
    return {
        "boot": BOOT, "counter": counter, "at": time.time(), "tenant": "acme", "key": "k1", "model": "m", "requests": 1,
        "prompt": 100, "cached": 40, "output": 10, "subject": True, "partial": False, **fields,
    }  # fmt: skip


@pytest.fixture
def gateway(tmp_path):
    with serving(Gateway(tmp_path / "g"), tmp_path / "g") as made:
        yield made


@pytest.fixture
def ctl(tmp_path, gateway):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as store:
        how = EngineSettings(admin=f"unix:{gateway.socket}")
        with people.controller(tmp_path, gateways={"g1": how}, stores={"s1": store.settings}) as made:
            made.store = store
            yield made


def shown(ctl, **asked):
    return ctl.call("usage.show", people.OPERATOR, UsageShow(**asked))


def test_records_are_taken_in_once_and_summed(ctl, gateway, monkeypatch):
    monkeypatch.setattr("kvctl.controller.usage.PAGE", 2)
    gateway.records = [record(n, subject=n > 1) for n in (1, 2, 3)]
    assert collect(ctl) == [{"gateway": "g1", "state": "ok", "records": 3, "lost": 0}]
    assert collect(ctl)[0]["records"] == 0
    (row,) = shown(ctl)["requests"]
    assert (row["requests"], row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (3, 300, 120, 30)
    assert (row["without_user"], row["share_without_user"], row["unmetered"]) == (1, 0.3333, 0)
    assert ("collected", {"upto": f"{BOOT}:3"}) in gateway.asked


def test_tokens_that_no_engine_told_of_are_counted_as_such(ctl, gateway):
    gateway.records = [record(1), record(2, prompt=None, output=None), record(3, partial=True)]
    collect(ctl)
    (row,) = shown(ctl)["requests"]
    assert (row["prompt_tokens"], row["unmetered"]) == (200, 2)


def test_missing_records_are_a_gap(ctl, gateway):
    gateway.records = [record(1), record(4)]
    assert collect(ctl)[0]["lost"] == 2
    gateway.records = [record(2, boot="20260302000000-00000002")]
    collect(ctl)
    (row,) = shown(ctl)["gateways"]
    assert (row["state"], row["records"], row["lost"]) == ("ok", 3, 3)


def test_a_gateway_that_does_not_answer_is_said_to_be_so(ctl, gateway):
    assert shown(ctl)["gateways"][0]["state"] == "never read"
    gateway.broken.add("usage")
    assert collect(ctl)[0]["state"] == "unreachable"
    assert shown(ctl)["gateways"][0]["state"] == "unreachable"


def test_bytes_by_store_and_tier_and_only_of_the_tenant_that_was_named(ctl):
    ctl.store.put("a")
    ctl.store.put("b", tier="disk", length=7)
    ctl.store.put("c", tenant="beta")
    sync(ctl, "s1")
    found = [(row["tenant"], row["tier"], row["bytes"]) for row in shown(ctl)["stored"]]
    assert found == [("acme", "disk", 7), ("acme", "flash", 100), ("beta", "flash", 100)]
    bound = ctl.call("usage.show", people.ACME_ADMIN, UsageShow())
    assert {row["tenant"] for row in bound["stored"]} == {"acme"}
    assert [row["store"] for row in bound["stores"]] == ["s1"]


def test_a_tenant_hears_whether_records_are_missing_and_not_how_many_there_are(ctl, gateway):
    (never,) = ctl.call("usage.show", people.ACME_ADMIN, UsageShow())["gateways"]
    gateway.records = [record(1), record(4, tenant="beta")]
    collect(ctl)
    (bound,) = ctl.call("usage.show", people.ACME_ADMIN, UsageShow())["gateways"]
    (whole,) = shown(ctl)["gateways"]
    assert (never["whole"], bound["whole"], bound["records"], bound["lost"]) == (None, False, None, None)
    assert (whole["whole"], whole["records"], whole["lost"]) == (False, 2, 2)


def test_a_time_that_is_none_is_refused(ctl):
    with pytest.raises(UsageError) as error:
        shown(ctl, since="yesterday")
    assert error.value.code == "KV-RET-009"


def test_only_the_hours_that_were_asked_for(ctl, gateway):
    gateway.records = [record(1, at=1_772_000_000), record(2)]
    collect(ctl)
    assert shown(ctl, until="2026-03-01T00:00:00Z")["requests"][0]["requests"] == 1
    assert shown(ctl, since="2090-01-01T00:00:00Z")["requests"] == []
