"""Sessions, sign-in and step-up as a browser and an administrator see them."""

from collections.abc import Iterator
from typing import Any

import pytest

from kvctl.api import sessions as rules
from kvctl.api import throttle
from kvctl.api.app import create_app
from kvctl.api.identity import COOKIE, Peer
from kvctl.controller.core import Controller
from kvctl.types.principals import Role
from tests.api.rig import PASSWORD, Browser, Clock, People, controller


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller(tmp_path_factory.mktemp("sessions")) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people() -> People:
    found = People(vera=Role.VIEWER, otto=Role.OPERATOR, ada=Role.ADMIN, anna=Role.APPROVER)
    return found


@pytest.fixture
def app(ctl: Controller, people: People, clock: Clock) -> Any:
    return create_app(ctl, accounts=people, clock=clock)


@pytest.fixture
def vera(app: Any) -> Browser:
    browser = Browser(app)
    assert browser.sign_in("vera").status_code == 200
    return browser


def test_the_cookie_is_one_that_only_this_host_gets_and_no_script_reads(app: Any):
    answer = Browser(app).sign_in("vera")
    text = answer.headers["set-cookie"]
    assert text.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert part in text
    assert "Domain" not in text
    token = text.split("=")[1].split(";")[0]
    assert len(token) >= 32
    assert token not in answer.text
    assert answer.json()["roles"] == ["viewer"]


def test_signing_in_again_gives_another_token_and_ends_the_old_one(app: Any, vera: Browser):
    old = vera.http.cookies[COOKIE]
    vera.sign_in("vera")
    assert vera.http.cookies[COOKIE] != old
    other = Browser(app)
    other.http.cookies.set(COOKIE, old)
    assert other.get("/session").status_code == 401


def test_a_session_ends_when_nothing_comes_for_a_while(vera: Browser, clock: Clock):
    for _ in range(3):
        clock.now += rules.IDLE - 1
        assert vera.get("/session").status_code == 200
    clock.now += rules.IDLE
    assert vera.get("/session").json()["why"] == "the session is over"


def test_a_session_ends_after_hours_whatever_comes(vera: Browser, clock: Clock):
    began = clock.now
    while clock.now < began + rules.ABSOLUTE - rules.IDLE:
        clock.now += rules.IDLE - 1
        assert vera.get("/session").status_code == 200
    clock.now = began + rules.ABSOLUTE
    assert vera.get("/session").status_code == 401


def test_a_disabled_account_loses_its_sessions_at_once(vera: Browser, people: People):
    gone = people.known.pop("vera")
    assert vera.get("/session").status_code == 401
    people.known["vera"] = gone
    assert vera.get("/session").status_code == 401, "and does not get them back"


def test_a_role_that_was_taken_away_counts_from_the_next_request(vera: Browser, people: People):
    assert vera.get("/v1/tenant/ls").status_code == 200
    people.add("vera", Role.ADMIN)
    assert vera.get("/v1/tenant/ls").status_code == 403


def test_signing_out(app: Any, vera: Browser):
    token = vera.http.cookies[COOKIE]
    answer = vera.post("/logout")
    assert answer.status_code == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    other = Browser(app)
    other.http.cookies.set(COOKIE, token)
    assert other.get("/session").status_code == 401


def test_what_needs_a_fresh_proof_asks_for_the_password_again(app: Any, clock: Clock):
    anna = Browser(app)
    anna.sign_in("anna")
    vote = {"approval": "a-none", "decision": "no", "payload_sha256": "00" * 32}
    assert anna.post("/v1/approve/vote", vote).status_code != 403, "a password that was just given is a proof"
    clock.now += rules.FRESH
    assert anna.post("/v1/approve/vote", vote).json()["code"] == "KV-API-003"
    assert anna.post("/session/confirm", {"password": "not it"}).status_code == 401
    assert anna.post("/v1/approve/vote", vote).json()["code"] == "KV-API-003"
    assert anna.post("/session/confirm", {"password": PASSWORD}).status_code == 200
    assert anna.post("/v1/approve/vote", vote).status_code != 403
    clock.now += rules.FRESH
    assert anna.post("/v1/approve/vote", vote).json()["code"] == "KV-API-003"


def test_an_administrator_ends_anybodys_sessions_and_others_only_their_own(app: Any, vera: Browser):
    otto, ada = Browser(app), Browser(app)
    otto.sign_in("otto")
    ada.sign_in("ada")
    assert otto.post("/session/end", {"account": "vera"}).status_code == 403
    assert ada.post("/session/end", {"account": "vera"}).json()["sessions"] == 1
    assert vera.get("/session").status_code == 401
    assert otto.post("/session/end", {"account": "otto"}).json()["sessions"] == 1


def test_an_account_has_so_many_sessions_and_the_oldest_makes_room(clock: Clock):
    sessions = rules.Sessions(clock)
    tokens = [sessions.open("vera", "x")[0] for _ in range(rules.MOST + 2)]
    assert [sessions.find(token) is not None for token in tokens] == [False, False] + [True] * rules.MOST


def test_a_wrong_password_and_a_wrong_name_are_answered_alike(app: Any):
    wrong = [Browser(app).sign_in("vera", "no"), Browser(app).sign_in("nobody-such", "no")]
    assert wrong[0].json() == wrong[1].json()
    assert {answer.status_code for answer in wrong} == {401}


def test_guessing_is_slowed_down_by_name(app: Any, clock: Clock):
    for number in range(throttle.BY_NAME):
        assert Browser(app, Peer(f"198.51.100.{number}")).sign_in("vera", "guess").status_code == 401
    answer = Browser(app, Peer("198.51.100.99")).sign_in("vera")
    assert (answer.status_code, answer.json()["code"]) == (429, "KV-API-019"), "the right one is not tried either"
    assert Browser(app).sign_in("otto").status_code == 200, "others come in"
    clock.now += throttle.WINDOW
    assert Browser(app).sign_in("vera").status_code == 200


def test_guessing_is_slowed_down_by_address(app: Any):
    for number in range(throttle.BY_ADDRESS):
        Browser(app, Peer("198.51.100.7")).sign_in(f"name{number}", "guess")
    assert Browser(app, Peer("198.51.100.7")).sign_in("vera").status_code == 429
    assert Browser(app, Peer("198.51.100.8")).sign_in("vera").status_code == 200


def test_signing_in_is_on_record_without_passwords_or_words_that_may_be_one(app: Any, ctl: Controller):
    before = ctl.books.log.size
    browser = Browser(app, Peer("198.51.100.20"))
    browser.sign_in("vera", "secret guess")
    browser.sign_in("my password by mistake", "x")
    browser.sign_in("vera")
    browser.post("/session/confirm", {"password": PASSWORD})
    browser.post("/logout")
    events = list(ctl.books.recorded(before))
    kinds = [(e.kind, e.outcome, e.actor) for e in events]
    assert kinds == [
        *[("session.failed", "denied", "nobody")] * 2, ("session.opened", "ok", "local:vera"),
        ("session.confirmed", "ok", "local:vera"), ("session.closed", "ok", "local:vera"),
    ]  # fmt: skip
    assert [e.data["account"] for e in events[:2]] == ["vera", None]
    assert all(e.data.get("address", "198.51.100.20") == "198.51.100.20" for e in events)
    text = repr(events)
    assert not [secret for secret in ("secret guess", "my password", PASSWORD) if secret in text]


def test_a_link_sets_a_password_once(app: Any):
    browser = Browser(app)
    assert browser.post("/join/link1", {"password": PASSWORD}).json()["account"] == "viewer"
    assert browser.post("/join/link1", {"password": PASSWORD}).status_code == 403


def test_no_name_that_is_tried_keeps_a_link_from_being_used(app: Any):
    stranger, owner = Browser(app, Peer("203.0.113.9")), Browser(app, Peer("192.0.2.77"))
    for _ in range(10):
        stranger.sign_in("join from 192.0.2.77", "a guess")
    assert owner.post("/join/link1", {"password": PASSWORD}).status_code == 200


def test_a_new_password_ends_the_sessions_of_the_old_one(app: Any, people: People):
    people.links["link1"] = "vera"
    browser = Browser(app)
    assert browser.sign_in("vera").status_code == 200
    assert Browser(app).post("/join/link1", {"password": PASSWORD}).json()["account"] == "vera"
    assert browser.get("/session").status_code == 401


def test_a_form_works_as_well_as_json(app: Any):
    browser = Browser(app)
    headers = {"Origin": "https://testserver"}
    answer = browser.http.post("/login", data={"name": "vera", "password": PASSWORD}, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    csrf = browser.get("/session").json()["csrf"]
    assert browser.http.post("/logout", data={}, headers=headers).status_code == 403, "a form needs the token, too"
    assert browser.http.post("/logout", data={"csrf": csrf}, headers=headers).headers["location"] == "/login"


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b'{"name": 1}', b'{"name": "vera", "password": "x", "more": 1}', b"\xff"]
)
def test_a_body_that_is_not_right_is_refused_without_being_repeated(app: Any, body: bytes):
    headers = {"Origin": "https://testserver", "Content-Type": "application/json"}
    answer = Browser(app).http.post("/login", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "KV-API-016")
    assert "vera" not in answer.text
