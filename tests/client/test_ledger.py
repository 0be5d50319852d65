"""Events of fleet verbs, over each carrier."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kvctl.client.choose import Embedded, nearest
from kvctl.client.http import Http
from kvctl.client.ledger import Recorder
from kvctl.controller.core import opened
from kvctl.controller.settings import read
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UnreachableError, UsageError
from kvctl.types.requests import AuditLog, EventRecord
from tests.controller.kvctld import Kvctld

CHECKED = {"nodes": 2, "findings": 0}


def never(kind: str, error: KvctlError) -> None:
    raise error


@pytest.fixture
def kvctld(tmp_path: Path) -> Any:
    made = Kvctld(tmp_path)
    yield made
    made.end()


def test_an_event_goes_to_the_kvctld_that_is_there_and_into_the_log_itself_otherwise(tmp_path: Path, kvctld: Kvctld):
    sock = tmp_path / "local" / "kvctld.sock"
    with_default = Kvctld(tmp_path, "--socket", str(sock))
    settings = read(tmp_path / "local", site="local")
    recorder = Recorder(lambda: nearest(settings), "local", never)
    recorder.record("fleet.checked", {"by": "embedded"})
    try:
        with_default.start()
        recorder.record("fleet.checked", {"by": "kvctld"})
        found = Http(f"unix:{sock}").call("audit.log", AuditLog(kind="fleet.*"))["events"]
    finally:
        with_default.end()
    assert [event["data"]["by"] for event in found] == ["kvctld", "embedded"]
    assert {event["actor"] for event in found} == {"unix:root"}
    recorder.record("fleet.checked", {"by": "embedded again"})  # the socket file of the one that was killed is there


def test_an_event_waits_for_the_command_that_has_the_books_for_a_moment(tmp_path: Path):
    settings = read(tmp_path / "local", site="local")
    entered, done = threading.Event(), threading.Event()
    recorder = Recorder(lambda: Embedded(settings), "local", never)

    def other() -> None:
        with opened(settings):
            entered.set()
            done.wait(5)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(5)
    threading.Timer(0.3, done.set).start()
    recorder.record("fleet.checked", CHECKED)
    thread.join()


def test_what_happened_and_is_not_on_record_is_told(tmp_path: Path):
    told: list[tuple[str, str]] = []
    recorder = Recorder(
        lambda: Http(f"unix:{tmp_path}/nobody"), "local", lambda kind, error: told.append((kind, error.code))
    )
    assert recorder.note("fleet.checked", CHECKED) is False
    assert told == [("fleet.checked", "KV-CTL-032")]
    with pytest.raises(UnreachableError):
        recorder.record("fleet.checked", CHECKED)


def test_an_event_of_another_site_is_refused(tmp_path: Path):
    settings = read(tmp_path / "local", site="local")
    with pytest.raises(RefusedError) as caught:
        Recorder(lambda: Embedded(settings), "oslo", never).record("fleet.checked", CHECKED)
    assert caught.value.code == "KV-CTL-073"


@pytest.mark.parametrize("kind", ["tenant.created", "hold.lifted", "account.created", "nonsense", "approval.voted"])
def test_what_tables_are_made_from_is_not_for_others_to_record(tmp_path: Path, kind: str):
    settings = read(tmp_path / "local", site="local")
    with pytest.raises(UsageError) as caught:
        Embedded(settings).call("event.record", EventRecord(kind))
    assert (caught.value.code, caught.value.exit_code) == ("KV-AUD-005", ExitCode.USAGE)
