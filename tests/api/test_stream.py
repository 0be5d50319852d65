"""The stream of events, as a console that is open sees it."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.api import stream
from kvctl.api.identity import COOKIE
from kvctl.controller.core import Controller
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Role
from tests.api.rig import PASSWORD, Listening, People, controller, listening


class Tail:
    """One open stream, over the controller's socket; or as an account."""

    def __init__(self, server: Listening, cookie: str = "", last: str | None = None) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(server.path))
        lines = ["GET /v1/stream HTTP/1.1", "Host: kvctld"]
        lines += [f"Cookie: {COOKIE}={cookie}"] if cookie else []
        lines += [f"Last-Event-ID: {last}"] if last is not None else []
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        self.answer = http.client.HTTPResponse(self.sock)
        self.answer.begin()
        if self.answer.status == 200:
            assert self.block() == ["retry: 3000"]

    def block(self) -> list[str]:
        """Lines up to the next empty one; none at the end of the stream."""
        lines = []
        while (line := self.answer.readline()) not in (b"\n", b""):
            lines.append(line.decode().rstrip("\n"))
        return lines

    def event(self) -> dict[str, Any]:
        while (lines := self.block())[0].startswith(":"):
            pass
        return {"id": lines[0].removeprefix("id: "), **json.loads(lines[2].removeprefix("data: "))}

    def close(self) -> None:
        self.answer.close()
        self.sock.close()


@pytest.fixture
def ctl(tmp_path: Path) -> Iterator[Controller]:
    with controller(tmp_path) as found:
        yield found


@pytest.fixture
def people() -> People:
    found = People(vera=Role.VIEWER, paul=Role.AUDITOR)
    found.add("anne", Role.VIEWER, tenant="acme")
    return found


@pytest.fixture
def server(ctl: Controller, tmp_path: Path, people: People) -> Iterator[Listening]:
    with listening(ctl, tmp_path, accounts=people, heartbeat=0.2) as found:
        yield found


def cookie_of(server: Listening, name: str) -> str:
    from kvctl.client.http import Http

    client = Http(server.unix)
    client.login(name, PASSWORD)
    assert client._cookie
    return client._cookie


def happen(ctl: Controller, kind: str, tenant: str | None = None) -> int:
    return ctl.books.commit(SYSTEM, [Event(kind, {"n": 1}, tenant)])[0].index


def test_events_come_as_they_are_recorded(ctl: Controller, server: Listening):
    tail = Tail(server)
    for kind in ("test.first", "test.second"):
        index = happen(ctl, kind)
        event = tail.event()
        assert (event["id"], event["index"], event["kind"], event["data"]) == (str(index), index, kind, {"n": 1})
    tail.close()


def test_a_stream_goes_on_behind_the_last_event_that_was_seen(ctl: Controller, server: Listening):
    first = happen(ctl, "test.first")
    happen(ctl, "test.second")
    tail = Tail(server, last=str(first))
    assert tail.event()["kind"] == "test.second"
    happen(ctl, "test.third")
    assert tail.event()["kind"] == "test.third"
    tail.close()


def test_what_is_further_back_than_a_stream_goes_is_told_as_a_gap(
    ctl: Controller, server: Listening, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(6):
        happen(ctl, "test.happened")
    monkeypatch.setattr(stream, "FURTHEST", 2)
    tail = Tail(server, last="0")
    assert tail.block() == ["event: gap", f"data: {json.dumps({'from': 1, 'to': 4})}"]
    assert tail.event()["index"] == 4
    tail.close()


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30])
def test_a_last_event_that_is_none_is_refused(server: Listening, last: str):
    assert Tail(server, last=last).answer.status == 400


def test_people_of_a_tenant_see_that_tenants_alone(ctl: Controller, server: Listening):
    tail = Tail(server, cookie_of(server, "anne"))
    happen(ctl, "test.hidden", "zen")
    happen(ctl, "test.hidden")
    happen(ctl, "test.shown", "acme")
    assert tail.event()["kind"] == "test.shown"
    tail.close()


def test_a_stream_that_has_nothing_to_tell_still_shows_life(server: Listening):
    tail = Tail(server)
    assert tail.block()[0].startswith(":")
    tail.close()


def test_a_stream_ends_with_its_session(server: Listening, people: People):
    tail = Tail(server, cookie_of(server, "vera"))
    del people.known["vera"]
    while lines := tail.block():
        assert lines[0].startswith(":")
    tail.close()


def test_watching_does_not_keep_a_session_alive(server: Listening, people: People):
    tail = Tail(server, cookie_of(server, "vera"))
    session = server.app.state.sessions.ls()[0]
    used = session.used
    tail.block()
    tail.block()
    assert session.used == used
    tail.close()


def test_an_auditors_look_is_on_record(ctl: Controller, server: Listening):
    tail = Tail(server, cookie_of(server, "paul"))
    last = list(ctl.books.recorded(0))[-1]
    assert (last.kind, last.actor) == ("stream.opened", "local:paul")
    tail.close()


def test_a_controller_that_stops_ends_its_streams(ctl: Controller, tmp_path: Path, people: People):
    with listening(ctl, tmp_path, accounts=people) as server:
        tail = Tail(server)
    assert tail.block() == []
    tail.close()
