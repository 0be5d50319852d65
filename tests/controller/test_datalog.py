"""The data log: what sources counted, and every number that no entry could take."""

import json
import shutil
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.connector.keys import Identity
from kvctl.controller.catalogue import sync
from kvctl.controller.datalog import COVERED, DataLog, of_records
from kvctl.controller.settings import EngineSettings
from kvctl.controller.usage import collect
from kvctl.ledger.verify import verify
from kvctl.types.errors import KvctlError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AuditProve, AuditVerify, Nothing
from tests.controller import people
from tests.controller.stores import Gateway, Store, serving

AUDITOR = Principal("local:olga", frozenset({Role.AUDITOR}), fresh=True)
ONE = {"acme": {"put": 1}}


def entries(data):
    opened = data.open()
    return [json.loads(leaf) for leaf in opened.read(0, opened.size)]


@pytest.fixture
def signer():
    return Identity.generate()


@pytest.fixture
def data(tmp_path, signer):
    made = DataLog(tmp_path, "paris", signer)
    yield made
    made.close()


def told(data):
    return [(e["source"], e["seq"], e["kind"], e["data"].get("from"), e["data"].get("to")) for e in entries(data)]


def test_numbers_that_no_entry_took_are_a_gap_on_record(data):
    assert data.count("store:a", "chunks.counted", ("r1", 0, 5), ONE)
    assert data.count("store:a", "chunks.counted", ("r1", 9, 12), ONE)
    assert told(data) == [
        ("store:a", 1, "chunks.counted", 1, 5), ("store:a", 2, "counts.gap", 6, 9),
        ("store:a", 3, "chunks.counted", 10, 12),
    ]  # fmt: skip
    (gap,) = data.gaps()
    assert (gap["idx"], gap["boot"], gap["from"], gap["to"], gap["cause"]) == (1, "r1", 6, 9, "not recorded")


def test_another_run_of_a_source_that_keeps_nothing_is_a_gap_of_unknown_size(data):
    data.count("store:a", "chunks.counted", ("r1", 0, 5), ONE)
    data.count("store:a", "chunks.read", ("r2", 3, 3), {None: {"found": 7}}, cause="another run")
    (gap,) = data.gaps()
    assert (gap["boot"], gap["from"], gap["to"], gap["cause"]) == ("r1", 6, None, "another run")


def test_another_run_of_a_source_that_keeps_its_records_misses_what_it_does_not_begin_with(data):
    data.count("gateway:g", "usage.counted", ("r1", 0, 5), ONE, lasting=True)
    data.count("gateway:g", "usage.counted", ("r2", 0, 2), ONE, lasting=True)
    assert data.gaps() == []
    data.count("gateway:g", "usage.counted", ("r3", 4, 5), ONE, lasting=True)
    (gap,) = data.gaps()
    assert (gap["boot"], gap["from"], gap["to"]) == ("r3", 1, 4)


def test_what_is_taken_in_again_is_said_to_be_so(data):
    data.count("store:a", "chunks.counted", ("r1", 0, 9), ONE)
    data.count("store:a", "chunks.counted", ("r1", 4, 12), ONE)
    assert told(data)[1:] == [("store:a", 2, "counts.again", 5, 9), ("store:a", 3, "chunks.counted", 5, 12)]


@pytest.mark.parametrize("kept", ["written", "lost", "older", "spoilt", "of another log"])
def test_it_goes_on_after_an_end_of_any_kind(tmp_path, signer, kept):
    first = DataLog(tmp_path, "paris", signer)
    first.count("store:a", "chunks.counted", ("r1", 0, 5), ONE)
    first.close()
    older = (tmp_path / COVERED).read_bytes()
    second = DataLog(tmp_path, "paris", signer)
    second.count("store:a", "chunks.counted", ("r1", 5, 8), ONE)
    second.count("store:b", "chunks.read", ("r7", 40, 40), {None: {"found": 1}})
    second.close()
    file = tmp_path / COVERED
    if kept == "lost":
        file.unlink()
    elif kept != "written":
        file.write_bytes({"older": older, "spoilt": b"{", "of another log": b'{"size":99,"sources":{}}'}[kept])
    third = DataLog(tmp_path, "paris", signer)
    third.count("store:a", "chunks.counted", ("r1", 8, 9), ONE)
    third.count("store:b", "chunks.counted", ("r7", 41, 42), ONE)
    assert told(third)[3:] == [
        ("store:a", 3, "chunks.counted", 9, 9), ("store:b", 2, "counts.gap", 41, 41),
        ("store:b", 3, "chunks.counted", 42, 42),
    ]  # fmt: skip
    third.close()
    assert verify(third.directory, third.origin, signer.public).problems == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spans=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=12)
)
def test_every_number_is_counted_or_in_a_gap_and_counters_have_no_step(tmp_path_factory, signer, spans):
    """(source, numbers lost, numbers told, reopened before)"""
    folder = tmp_path_factory.mktemp("log")
    data, at = DataLog(folder, "paris", signer), {"a": 0, "b": 0}
    for source, lost, count, again in spans:
        if again:
            data.close()
            data = DataLog(folder, "paris", signer)
        start = at[source] + lost
        data.count(source, "chunks.counted", ("r", start, start + count), {"x": {}, "y": {}})
        at[source] = start + count
    found = entries(data)
    data.close()
    assert verify(data.directory, data.origin, signer.public).problems == []
    for source in "ab":
        numbers = [set(range(e["data"]["from"], e["data"]["to"] + 1)) for e in found if e["source"] == source]
        first = next((lost for name, lost, _, _ in spans if name == source), 0)
        assert set().union(*numbers) == set(range(first + 1, at[source] + 1))


@pytest.fixture
def store(tmp_path):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as made:
        yield made


@pytest.fixture
def gateway(tmp_path):
    with serving(Gateway(tmp_path / "g"), tmp_path / "g") as made:
        yield made


@pytest.fixture
def ctl(tmp_path, store, gateway):
    how = EngineSettings(admin=f"unix:{gateway.socket}")
    with people.controller(tmp_path, gateways={"g1": how}, stores={"s1": store.settings}) as made:
        yield made


def record(counter, **fields):
    return {
        "boot": "20260301000000-00000001", "counter": counter, "at": time.time(), "tenant": "acme", "key": "k1",
        "model": "m", "requests": 1, "prompt": 100, "cached": 40, "output": 10, "subject": True, "partial": False,
        **fields,
    }  # fmt: skip


def test_what_a_store_and_a_gateway_tell_is_there_by_tenant(ctl, store, gateway):
    sync(ctl, "s1")
    store.put("a")
    store.put("b", length=7)
    sync(ctl, "s1")
    gateway.records = [record(1), record(2, tenant="beta", prompt=None, subject=False)]
    collect(ctl)
    found = entries(ctl.books.data)
    assert [(e["source"], e["kind"], e["tenant"]) for e in found] == [
        ("store:s1", "chunks.read", None), ("store:s1", "chunks.counted", "acme"),
        ("gateway:g1", "usage.counted", "acme"), ("gateway:g1", "usage.counted", "beta"),
    ]  # fmt: skip
    assert found[1]["data"]["put"] == 2
    assert found[3]["data"] | {"boot": 0} == {
        "boot": 0, "from": 1, "to": 2, "requests": 1, "prompt": 0, "cached": 40, "output": 10, "anonymous": 1,
        "unmetered": 1,
    }  # fmt: skip
    assert "k1" not in str(found)


def test_a_store_goes_on_without_it_and_the_gap_is_on_record_afterwards(ctl, store, monkeypatch):
    sync(ctl, "s1")

    def full(entries):
        raise KvctlError("KV-LEDGER-002", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(ctl.books.data.open(), "append", full)
        store.put("a")
        assert sync(ctl, "s1")["state"] == "ok"
        assert (ctl.books.data.refused, ctl.books.data.trouble.code) == (1, "KV-LEDGER-002")
        status = ctl.call("controller.status", AUDITOR, Nothing())
        assert (status["data_log"]["refused"], status["data_log"]["trouble"]["code"]) == (1, "KV-LEDGER-002")
    store.put("b")
    sync(ctl, "s1")
    (gap,) = ctl.books.data.gaps()
    assert (gap["source"], gap["to"] - gap["from"] + 1) == ("store:s1", 1)
    assert ctl.books.data.trouble is None
    verified = ctl.call("audit.verify", AUDITOR, AuditVerify("data"))
    assert (verified["sound"], verified["gaps"]) == (True, [gap])


def test_a_changed_byte_is_found_and_an_entry_has_its_proof(ctl, store):
    store.put("a")
    sync(ctl, "s1")
    proved = ctl.call("audit.prove", AUDITOR, AuditProve(0, "data"))
    assert json.loads(proved["entry"])["source"] == "store:s1"
    assert "/data" in proved["proof"]
    assert ctl.call("audit.verify", AUDITOR, AuditVerify("data"))["sound"]
    tile = next((ctl.books.data.directory / "tile" / "entries").rglob("*.p/*"))
    whole = bytearray(tile.read_bytes())
    whole[60] ^= 1
    tile.write_bytes(whole)
    found = ctl.call("audit.verify", AUDITOR, AuditVerify("data"))
    assert not found["sound"]
    assert "entries" in found["problems"][0]["place"]


def test_the_control_log_does_not_need_it(ctl, store):
    folder = ctl.books.data.directory
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in its place")
    store.put("a")
    assert sync(ctl, "s1")["state"] == "ok"
    assert ctl.books.data.refused == 1
    assert ctl.call("audit.verify", AUDITOR, AuditVerify())["sound"]


def test_nothing_is_made_of_no_records():
    assert of_records([]) == {}


def test_how_far_a_source_was_in_another_log_is_not_believed_when_this_one_has_grown_past_it(tmp_path, signer):
    first = DataLog(tmp_path / "was", "paris", signer)
    for number in range(3):
        first.count("store:a", "chunks.counted", ("r1", number, number + 1), ONE)
    first.close()
    (tmp_path / "ledger").mkdir()
    shutil.copy(tmp_path / "was" / COVERED, tmp_path / COVERED)
    here = DataLog(tmp_path, "paris", signer)
    for number in range(4):
        here.count("store:b", "chunks.counted", ("r1", number, number + 1), ONE)
    here.open().close()  # as a process that was killed: nothing of it was written down
    again = DataLog(tmp_path, "paris", signer)
    again.count("store:a", "chunks.counted", ("r1", 9, 10), ONE)
    assert told(again)[-1] == ("store:a", 1, "chunks.counted", 10, 10)
    again.close()
