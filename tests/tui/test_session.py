"""A person at the console over https: votes, a password that must be given again, a session that is over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.api import sessions
from kvctl.api.app import create_app
from kvctl.client.http import Http
from kvctl.controller import approvals
from kvctl.controller.core import Controller
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import ApprovalNamed
from tests.api.rig import PASSWORD, Clock, Listening, People, controller
from tests.tui.driving import drive, shows

ASKER = Principal("local:otto", frozenset({Role.OPERATOR}), fresh=True)


@pytest.fixture
def ctl(tmp_path: Path) -> Iterator[Controller]:
    with controller(tmp_path) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(ctl: Controller, clock: Clock, tmp_path: Path) -> Iterator[Listening]:
    people = People(anna=Role.APPROVER, otto=Role.OPERATOR)
    with Listening(create_app(ctl, accounts=people, clock=clock), ctl, tmp_path) as found:
        yield found


def person(served: Listening, name: str) -> Http:
    client = Http(served.https, ca=served.ca)
    client.login(name, PASSWORD)
    return client


def asked(ctl: Controller) -> str:
    return str(approvals.request(ctl, ASKER, "tier.move", "acme", {"move": "m-1"}, {"chunks": 3}, 1)["approval"])


def test_a_vote_after_a_while_wants_the_password_once_more(ctl: Controller, served: Listening, clock: Clock) -> None:
    approval = asked(ctl)

    async def script(app: Any, pilot: Any) -> None:
        await shows(app, pilot, "site par1  anna")
        await pilot.press("7")
        await shows(app, pilot, approval, "1 pending")
        clock.now += sessions.FRESH + 1
        await pilot.press("w", "d", *"no need", "enter")
        await shows(app, pilot, "Vote no?", "chunks")
        await pilot.press("y")
        await shows(app, pilot, "this needs your password once more", "password of anna:")
        await pilot.press(*PASSWORD.replace(" ", "_"), "enter")
        await shows(app, pilot, "KV-API-062")  # it was another one
        await pilot.press("escape", "d", *"no need", "enter")
        await shows(app, pilot, "Vote no?")
        await pilot.press("y")
        await shows(app, pilot, "password of anna:")
        await pilot.press(*(("space" if c == " " else c) for c in PASSWORD), "enter")
        await shows(app, pilot, f"{approval} is rejected", "1 rejected")

    drive(person(served, "anna"), script, who="anna", account="anna", size=(120, 30))
    assert ctl.call("approve.show", ASKER, ApprovalNamed(approval))["votes"][0]["reason"] == "no need"


def test_a_role_that_may_not_vote_is_told_so(ctl: Controller, served: Listening) -> None:
    approval = asked(ctl)

    async def script(app: Any, pilot: Any) -> None:
        await pilot.press("7")
        await shows(app, pilot, approval)
        await pilot.press("w", "a", "enter")
        await shows(app, pilot, "Vote yes?")
        await pilot.press("y")
        await shows(app, pilot, "KV-API-001", "local:otto may not approve.vote", "approver")

    drive(person(served, "otto"), script, who="otto", account="otto")


def test_a_session_that_is_over_is_said_and_taken_up_again(served: Listening, clock: Clock) -> None:
    async def script(app: Any, pilot: Any) -> None:
        await shows(app, pilot, "no nodes", "data 0 s old")
        clock.now += sessions.ABSOLUTE + 1
        await shows(app, pilot, "not signed in any more: L signs in again", "stale since ")
        await pilot.press("2", "1", "question_mark")
        await shows(app, pilot, "this help")
        await pilot.press("escape", "L")
        await shows(app, pilot, "sign in as otto")
        await pilot.press(*(("space" if c == " " else c) for c in PASSWORD), "enter")
        await shows(app, pilot, "data 0 s old", without=("not signed in", "stale"))

    drive(person(served, "otto"), script, who="otto", account="otto")
