"""Signing in with an OpenID provider, against one that listens and signs for real, and lies when told to."""

import dataclasses
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import msgspec
import pytest
from argon2 import PasswordHasher

from kvctl.api import oidc, provider, sessions, throttle
from kvctl.api.app import create_app
from kvctl.api.console import instead, pages
from kvctl.api.identity import COOKIE, Peer
from kvctl.api.pending import LIFE
from kvctl.controller.accounts import Accounts
from kvctl.controller.core import Controller, opened
from kvctl.controller.settings import OidcSettings
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountChange, AccountCreate
from tests.api.openid import CLIENT, SECRET, OpenId, SigningKey, of_mac, signed
from tests.api.rig import ORIGIN, PASSWORD, Browser, Clock, settings

ROOT = Principal("unix:root", frozenset({Role.ADMIN, Role.OPERATOR}), fresh=True)
SUB = "4f1c2a7e"
HTML = {"Accept": "text/html"}
VOTE = {"approval": "a-none", "decision": "no", "payload_sha256": "00" * 32}


@pytest.fixture(scope="module")
def idp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenId]:
    with OpenId(tmp_path_factory.mktemp("idp")) as made:
        yield made


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory, idp: OpenId) -> Iterator[Controller]:
    known = msgspec.convert(idp.settings(ORIGIN), OidcSettings)
    with opened(dataclasses.replace(settings(tmp_path_factory.mktemp("oidc")), oidc=known)) as made:
        made.call("account.create", ROOT, AccountCreate("anna", ["approver"], oidc_subject=SUB))
        made.call("account.create", ROOT, AccountCreate("ada", ["admin"], oidc_subject="ada-there"))
        made.call("account.create", ROOT, AccountCreate("dora", ["viewer"], oidc_subject="dora-there"))
        made.call(
            "account.create",
            ROOT,
            AccountCreate("eve", ["viewer"], oidc_subject="eve-there", until="2026-01-01T00:00:00Z"),
        )
        made.call("account.change", ROOT, AccountChange("dora", disabled=True))
        link = made.call("account.create", ROOT, AccountCreate("vera", ["viewer"]))["link"]
        accounts(made).redeem(link.removeprefix("/join/"), PASSWORD)
        yield made


def accounts(ctl: Controller) -> Accounts:
    return Accounts(ctl.books, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(ctl: Controller, clock: Clock, idp: OpenId) -> Any:
    idp.fair()
    return create_app(ctl, accounts=accounts(ctl), clock=clock, pages=pages, instead=instead)


class Someone(Browser):
    """A browser that goes to the provider and comes back."""

    def __init__(self, app: Any, idp: OpenId, address: str = "192.0.2.1") -> None:
        super().__init__(app, Peer(address))
        self.trust = ssl.create_default_context(cafile=str(idp.ca))

    def begin(self, path: str = oidc.BEGIN) -> str:
        """The provider's address."""
        answer = self.get(path, headers=HTML)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def at_provider(self, address: str) -> str:
        """The way back: path and query."""
        back = httpx.get(address, verify=self.trust, trust_env=False).headers["location"]
        assert back.startswith(f"{ORIGIN}{provider.CALLBACK}?")
        return str(back.removeprefix(ORIGIN))

    def through(self, path: str = oidc.BEGIN) -> Any:
        return self.get(self.at_provider(self.begin(path)), headers=HTML)

    def sign_in_there(self) -> None:
        answer = self.through()
        assert answer.status_code == 200, answer.text
        self.csrf = self.get("/session").json()["csrf"]


@pytest.fixture
def anna(app: Any, idp: OpenId) -> Someone:
    return Someone(app, idp)


def refused(answer: Any, code: str, *words: str) -> None:
    assert code in answer.text, answer.text
    for word in words:
        assert word in answer.text
    assert answer.status_code >= 400
    assert COOKIE + "=" not in answer.headers.get("set-cookie", "").replace(oidc.COOKIE, "")


def events(ctl: Controller, since: int) -> list[Any]:
    return list(ctl.books.recorded(since))


# --- the way in -----------------------------------------------------------------------------------------------------
def test_somebody_who_is_bound_signs_in(app: Any, ctl: Controller, anna: Someone):
    before = ctl.books.log.size
    page = anna.get("/login", headers=HTML).text
    assert 'href="/login/oidc">Sign in with Example</a>' in page
    assert 'name="password"' in page, "a password signs in beside it"
    answer = anna.through()
    assert answer.status_code == 200
    assert answer.headers["refresh"] == "0; url=/"
    about = anna.get("/session").json()
    assert (about["name"], about["roles"], about["fresh"]) == ("local:anna", ["approver"], True)
    (event,) = events(ctl, before)
    assert (event.kind, event.actor, event.data["method"]) == ("session.opened", "local:anna", "oidc")


def test_the_cookies(anna: Someone):
    begun = anna.get(oidc.BEGIN)
    first = begun.headers["set-cookie"]
    assert first.startswith(f"{oidc.COOKIE}=")
    for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert part in first
    answer = anna.get(anna.at_provider(begun.headers["location"]))
    session, gone = answer.headers.get_list("set-cookie")
    assert session.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert part in session
    assert "Domain" not in session + first
    assert gone.startswith(f'{oidc.COOKIE}=""')
    assert "Max-Age=0" in gone


def test_what_the_provider_is_asked(anna: Someone, idp: OpenId):
    address = urlsplit(anna.begin())
    asked = {name: value for name, (value,) in parse_qs(address.query).items()}
    assert f"https://{address.netloc}{address.path}" == f"{idp.issuer}/authorize"
    assert asked.pop("redirect_uri") == f"{ORIGIN}/login/oidc/callback"
    again = dict(parse_qsl(urlsplit(anna.begin()).query))
    for name in ("state", "nonce", "code_challenge"):
        assert asked.pop(name) != again[name]
    assert asked == {
        "response_type": "code", "client_id": CLIENT, "scope": "openid", "code_challenge_method": "S256",
    }  # fmt: skip


def test_the_way_back_is_never_made_of_the_host_header(app: Any, idp: OpenId):
    answer = Someone(app, idp).get(oidc.BEGIN, headers={"Host": "evil.example"})
    assert parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"] == [f"{ORIGIN}/login/oidc/callback"]


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_either_kind_of_key(anna: Someone, idp: OpenId, alg: str):
    idp.keys = [SigningKey("one", alg)]
    anna.sign_in_there()


def test_a_client_that_says_its_secret_in_the_body(ctl: Controller, idp: OpenId, clock: Clock):
    idp.fair()
    before = ctl.settings
    ctl.settings = dataclasses.replace(before, oidc=msgspec.convert(
        idp.settings(ORIGIN, client_auth="client_secret_post", algorithms=["ES256"]), OidcSettings
    ))  # fmt: skip
    try:
        idp.keys = [SigningKey("ec", "ES256")]
        Someone(create_app(ctl, accounts=accounts(ctl), clock=clock), idp).sign_in_there()
    finally:
        ctl.settings = before


def test_signing_in_takes_the_place_of_the_session_that_was(app: Any, anna: Someone):
    anna.sign_in_there()
    old = anna.http.cookies[COOKIE]
    anna.sign_in_there()
    assert anna.http.cookies[COOKIE] != old
    other = Browser(app)
    other.http.cookies.set(COOKIE, old)
    assert other.get("/session").status_code == 401


def test_no_token_is_kept(app: Any, anna: Someone, ctl: Controller, idp: OpenId):
    made = []
    idp.make = lambda header, claims: made.append(signed(claims, header, idp.keys[0].sign)) or made[-1]
    before = ctl.books.log.size
    anna.sign_in_there()
    kept = repr([dataclasses.asdict(one) for one in app.state.sessions.ls()]) + repr(vars(app.state.oidc._made))
    assert made
    for part in made[0].split("."):
        assert part not in kept
        assert part not in json.dumps([event.data for event in events(ctl, before)])


# --- who gets in ----------------------------------------------------------------------------------------------------
def test_a_stranger_gets_no_session_and_learns_what_is_to_be_bound(app: Any, ctl: Controller, idp: OpenId):
    idp.subject = "who's <this>"
    before = ctl.books.log.size
    stranger = Someone(app, idp)
    answer = stranger.through()
    assert answer.status_code == 403
    refused(answer, "KV-API-085", idp.issuer, "who&#39;s &lt;this&gt;", "no account is bound to it", "--oidc-subject")
    assert stranger.get("/session").status_code == 401
    (event,) = events(ctl, before)
    assert (event.kind, event.outcome) == ("session.failed", "denied")
    assert {k: event.data[k] for k in ("account", "purpose", "code", "method", "reason")} == {
        "account": None, "purpose": "sign-in", "code": "KV-API-085", "method": "oidc", "reason": "unbound",
    }  # fmt: skip


def test_an_address_or_a_name_is_no_identity(app: Any, idp: OpenId):
    idp.subject = "mallory"
    idp.claims = {"email": "anna@example.org", "email_verified": True, "preferred_username": "anna", "name": "anna"}
    refused(Someone(app, idp).through(), "KV-API-085")
    for subject in ("anna", "local:anna", "4F1C2A7E", "4f1c2a7e "):
        idp.subject = subject
        refused(Someone(app, idp).through(), "KV-API-085")


@pytest.mark.parametrize("subject", ["dora-there", "eve-there"])
def test_an_account_that_is_disabled_or_over_stays_shut(app: Any, ctl: Controller, idp: OpenId, subject: str):
    idp.subject = subject
    before = ctl.books.log.size
    refused(Someone(app, idp).through(), "KV-API-085", "disabled, or its time is over")
    (event,) = events(ctl, before)
    assert (event.data["account"], event.data["reason"]) == (subject.split("-")[0], "closed")


def test_an_account_that_is_disabled_or_unbound_loses_its_sessions_at_once(ctl: Controller, app: Any, idp: OpenId):
    for change in ({"disabled": True}, {"unbind_oidc": True}):
        idp.subject = f"s-{'-'.join(change)}"
        name = f"n{len(idp.subject)}"
        ctl.call("account.create", ROOT, AccountCreate(name, ["viewer"], oidc_subject=idp.subject))
        who = Someone(app, idp)
        who.sign_in_there()
        ctl.call("account.change", ROOT, AccountChange(name, **change))
        assert who.get("/session").status_code == 401


def test_a_password_opens_no_account_that_is_bound(ctl: Controller, app: Any, idp: OpenId):
    link = ctl.call("account.create", ROOT, AccountCreate("otto", ["operator"]))["link"]
    accounts(ctl).redeem(link.removeprefix("/join/"), PASSWORD)
    otto = Browser(app, Peer("192.0.2.77"))
    assert otto.sign_in("otto").status_code == 200
    ctl.call("account.change", ROOT, AccountChange("otto", oidc_subject="otto-there"))
    assert otto.get("/session").status_code == 401
    assert Browser(app, Peer("192.0.2.77")).sign_in("otto").json()["code"] == "KV-API-062"
    idp.subject = "otto-there"
    Someone(app, idp).sign_in_there()


# --- what is not believed -------------------------------------------------------------------------------------------
NOW = time.time


@pytest.mark.parametrize(("claims", "reason"), [
    ({"iss": "https://127.0.0.1:1/realm"}, "iss"), ({"iss": None}, "iss"), ({"iss": ["x"]}, "iss"),
    ({"aud": "another"}, "aud"), ({"aud": []}, "aud"), ({"aud": None}, "aud"), ({"aud": [CLIENT, "another"]}, "azp"),
    ({"aud": [CLIENT, "another"], "azp": "another"}, "azp"), ({"azp": "another"}, "azp"),
    ({"exp": 1}, "exp"), ({"exp": None}, "exp"), ({"exp": "tomorrow"}, "exp"), ({"exp": True}, "exp"),
    ({"iat": None}, "iat"), ({"iat": 1}, "iat"), ({"iat": 2**40}, "iat"),
    ({"nonce": "another"}, "nonce"), ({"nonce": None}, "nonce"),
    ({"sub": None}, "sub"), ({"sub": ""}, "sub"), ({"sub": "x" * 256}, "sub"), ({"sub": 7}, "sub"),
    ({"sub": "gr\u00fcn"}, "sub"), ({"sub": "two\nlines"}, "sub"),
    ({"auth_time": "now"}, "auth_time"), ({"auth_time": 2**40}, "auth_time"),
    ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"), ({"nbf": 2**40}, "nbf"),
])  # fmt: skip
def test_a_claim_that_is_not_right(app: Any, ctl: Controller, idp: OpenId, claims: dict[str, Any], reason: str):
    idp.claims = claims
    not_believed(app, ctl, idp, reason)


def not_believed(app: Any, ctl: Controller, idp: OpenId, reason: str, words: str = "") -> None:
    before = ctl.books.log.size
    who = Someone(app, idp)
    answer = who.through()
    assert answer.status_code == 401
    refused(answer, "KV-API-084", words)
    assert who.get("/session").status_code == 401
    (event,) = events(ctl, before)
    assert (event.kind, event.data["reason"], event.data["account"]) == ("session.failed", reason, None)
    assert "eyJ" not in json.dumps(event.data) + answer.text, "a part of a token"


def test_a_token_that_nobody_signed(app: Any, ctl: Controller, idp: OpenId):
    for alg in ("none", "None", "NONE", "nOnE", ""):
        idp.header = {"alg": alg}
        idp.make = lambda header, claims: signed(claims, header, lambda _: b"")
        not_believed(app, ctl, idp, "algorithm", "not allowed here")


def test_a_token_signed_with_the_public_key_as_a_shared_secret(app: Any, ctl: Controller, idp: OpenId):
    key = idp.keys[0]
    for secret in (key.pem, json.dumps(key.jwk).encode(), SECRET.encode()):
        idp.header = {"alg": "HS256"}
        idp.make = lambda header, claims, secret=secret: signed(claims, header, of_mac(secret))
        not_believed(app, ctl, idp, "algorithm", "not allowed here")


def test_a_symmetric_key_that_the_provider_publishes_signs_nothing(app: Any, ctl: Controller, idp: OpenId):
    mine = {"kty": "oct", "kid": "first", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}
    idp.raw["/keys"] = json.dumps({"keys": [mine]}).encode()
    not_believed(app, ctl, idp, "key")


def test_a_real_algorithm_that_is_not_set(app: Any, ctl: Controller, idp: OpenId):
    idp.header = {"alg": "RS512"}
    not_believed(app, ctl, idp, "algorithm")


@pytest.mark.parametrize("made", [SigningKey("first"), SigningKey("first", "ES256")], ids=["rsa", "ec"])
def test_a_token_signed_by_somebody_else_under_the_same_name(app: Any, ctl: Controller, idp: OpenId, made: SigningKey):
    idp.make = lambda header, claims: signed(claims, header, made.sign)
    not_believed(app, ctl, idp, "signature")


def test_a_key_type_that_is_not_the_algorithms(app: Any, ctl: Controller, idp: OpenId):
    idp.header = {"alg": "ES256"}
    not_believed(app, ctl, idp, "key")


def test_a_key_that_comes_with_the_token(app: Any, ctl: Controller, idp: OpenId):
    own = SigningKey("own")
    idp.header = {"jwk": own.jwk | {"use": "sig"}, "kid": "own"}
    idp.make = lambda header, claims: signed(claims, header, own.sign)
    not_believed(app, ctl, idp, "form")  # it is longer than a header may be


@pytest.mark.filterwarnings("ignore:Key size")
def test_a_short_rsa_key(app: Any, ctl: Controller, idp: OpenId):
    idp.keys = [SigningKey("short", bits=1024)]
    not_believed(app, ctl, idp, "key")


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "....", "e30.e30.", "é.é.é", "[" * 100_000, "x" * 200_000])
def test_what_is_no_token(app: Any, ctl: Controller, idp: OpenId, token: str):
    idp.make = lambda *_: token
    not_believed(app, ctl, idp, "form")


def test_a_token_of_nested_brackets(app: Any, ctl: Controller, idp: OpenId):
    from tests.api.openid import b64

    deep = b64("[" * 60_000)

    def made(header, claims):
        text = f"{b64(json.dumps(header))}.{deep}"
        return f"{text}.{b64(idp.keys[0].sign(text.encode()))}"

    idp.make = made
    not_believed(app, ctl, idp, "form")


def test_a_header_that_must_be_understood_and_is_not(app: Any, ctl: Controller, idp: OpenId):
    idp.header = {"crit": ["exp-later"], "exp-later": 1}
    not_believed(app, ctl, idp, "form")


def test_a_header_that_nobody_knows_is_passed_over(anna: Someone, idp: OpenId):
    idp.header = {"x-of-the-vendor": "7"}
    anna.sign_in_there()


# --- its keys -------------------------------------------------------------------------------------------------------
def test_a_new_key_is_read_once_and_then_known(app: Any, idp: OpenId):
    Someone(app, idp).sign_in_there()
    idp.keys = [SigningKey("second")]
    idp.seen.clear()
    Someone(app, idp).sign_in_there()
    assert idp.seen.count("/keys") == 1
    Someone(app, idp).sign_in_there()
    assert idp.seen.count("/keys") == 1


def test_a_key_that_is_not_published_is_looked_for_once(app: Any, ctl: Controller, idp: OpenId):
    Someone(app, idp).sign_in_there()
    idp.header = {"kid": "nobodys"}
    idp.seen.clear()
    not_believed(app, ctl, idp, "key")
    assert idp.seen.count("/keys") == 1


def test_a_key_without_a_name_counts_when_it_is_the_only_one(app: Any, ctl: Controller, idp: OpenId):
    idp.header = {"kid": None}
    Someone(app, idp).sign_in_there()
    idp.keys.append(SigningKey("another"))
    not_believed(create_app(ctl, accounts=accounts(ctl), clock=Clock()), ctl, idp, "key")


# --- the browser that began -----------------------------------------------------------------------------------------
def test_an_answer_works_once(app: Any, anna: Someone):
    back = anna.at_provider(anna.begin())
    cookie = anna.http.cookies[oidc.COOKIE]
    assert anna.get(back).status_code == 200
    anna.http.cookies.clear()
    anna.http.cookies.set(oidc.COOKIE, cookie)
    refused(anna.get(back), "KV-API-080")


def test_an_answer_is_for_the_browser_that_began(app: Any, ctl: Controller, idp: OpenId, anna: Someone):
    """The attack: mallory begins, and has anna's browser open the answer, so that she works in his session."""
    mallory = Someone(app, idp, "192.0.2.66")
    back = mallory.at_provider(mallory.begin())
    refused(anna.get(back, headers=HTML), "KV-API-080", "begin again at https://testserver/login")
    anna.begin()  # also with a sign-in of her own under way
    before = ctl.books.log.size
    refused(anna.get(back, headers=HTML), "KV-API-080")
    (event,) = events(ctl, before)
    assert (event.kind, event.data["reason"]) == ("session.failed", "state")
    assert mallory.get(back).status_code == 200, "and his own browser still can"


def test_an_answer_with_another_state(anna: Someone):
    back = anna.at_provider(anna.begin())
    for wrong in ("", "&state=", "&state=x", "&state=%00", "&state=%C3%A9"):
        refused(anna.get(back.split("&state=")[0] + wrong), "KV-API-080")
    assert anna.get(back).status_code == 200


def test_an_answer_that_took_too_long(anna: Someone, clock: Clock):
    back = anna.at_provider(anna.begin())
    clock.now += LIFE
    refused(anna.get(back), "KV-API-080")


def test_a_code_of_another_sign_in_is_not_taken(app: Any, idp: OpenId, anna: Someone):
    """PKCE: a code that was caught elsewhere is nothing without the verifier of the browser that asked for it."""
    stolen = dict(parse_qsl(urlsplit(Someone(app, idp).at_provider(anna.begin())).query))["code"]
    state = dict(parse_qsl(urlsplit(anna.begin()).query))["state"]
    refused(anna.get(f"{provider.CALLBACK}?code={stolen}&state={state}"), "KV-API-083", "invalid_grant")


def test_an_answer_of_another_issuer(anna: Someone, idp: OpenId):
    back = anna.at_provider(anna.begin())
    refused(anna.get(f"{back}&iss=https://evil.example"), "KV-API-083", "another issuer")
    assert anna.get(f"{anna.at_provider(anna.begin())}&iss={idp.issuer}").status_code == 200


def test_an_issuer_that_always_says_so_must(app: Any, anna: Someone, idp: OpenId):
    idp.about = {"authorization_response_iss_parameter_supported": True}
    refused(anna.through(), "KV-API-083", "another issuer")


@pytest.mark.parametrize(("said", "shown"), [
    ("access_denied", "it says: access_denied"), ("<script>", "does not say why"), ("", "does not say why"),
])  # fmt: skip
def test_what_the_provider_says_when_it_refuses(anna: Someone, said: str, shown: str):
    state = dict(parse_qsl(urlsplit(anna.begin()).query))["state"]
    answer = anna.get(f"{provider.CALLBACK}?error={said}&error_description=<b>call+me&state={state}", headers=HTML)
    refused(answer, "KV-API-083", shown)
    assert "<script>" not in answer.text
    assert "call me" not in answer.text
    assert 'action="/login"' in answer.text


def test_another_site_begins_no_sign_in(anna: Someone):
    for site in ("cross-site", "same-site"):
        refused(anna.get(oidc.BEGIN, headers={"Sec-Fetch-Site": site}), "KV-API-017")
    assert anna.get(oidc.BEGIN, headers={"Sec-Fetch-Site": "none"}).status_code == 303


def test_attempts_are_limited_by_address_and_those_that_succeed_are_free(app: Any, idp: OpenId, clock: Clock):
    for _ in range(throttle.BY_ADDRESS + 5):
        Someone(app, idp, "198.51.100.1").sign_in_there()
    for _ in range(throttle.BY_ADDRESS):
        Someone(app, idp, "198.51.100.2").begin()
    stopped = Someone(app, idp, "198.51.100.2").get(oidc.BEGIN)
    assert (stopped.status_code, stopped.json()["code"]) == (429, "KV-API-019")
    for _ in range(throttle.BY_ADDRESS):
        Someone(app, idp, "198.51.100.3").get(f"{provider.CALLBACK}?code=x&state=y")
    assert Someone(app, idp, "198.51.100.3").get(f"{provider.CALLBACK}?code=x&state=y").status_code == 429
    assert Browser(app, Peer("198.51.100.3")).sign_in("vera").status_code == 200, "passwords have their own count"
    clock.now += throttle.WINDOW
    Someone(app, idp, "198.51.100.2").sign_in_there()


# --- a provider that is not well ------------------------------------------------------------------------------------
def trouble(app: Any, idp: OpenId, code: str, words: str) -> None:
    who = Someone(app, idp)
    answer = who.get(oidc.BEGIN, headers=HTML)
    if answer.status_code == 303:
        answer = who.get(who.at_provider(answer.headers["location"]), headers=HTML)
    assert answer.status_code == 502
    refused(answer, code, words)
    assert 'name="password"' in answer.text
    assert Browser(app, Peer("192.0.2.9")).sign_in("vera").status_code == 200, "a password signs in all the same"


def test_a_provider_that_lies_about_its_issuer(app: Any, idp: OpenId):
    for lie in ("https://evil.example", idp.issuer + "/", idp.issuer.upper(), None, [idp.issuer]):
        idp.about = {"issuer": lie}
        trouble(app, idp, "KV-API-082", "another issuer")


@pytest.mark.parametrize("field", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize("value", ["http://127.0.0.1:1/x", "javascript:alert(1)", None, ""])
def test_an_endpoint_that_is_not_https(app: Any, idp: OpenId, field: str, value: Any):
    idp.about = {field: value}
    trouble(app, idp, "KV-API-082", f"its {field} is not https")


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
@pytest.mark.parametrize("answer", [b"not json", b"[]", b"[" * 100_000, b"\xff"])
def test_an_answer_that_cannot_be_used(app: Any, idp: OpenId, path: str, answer: bytes):
    idp.raw[path] = answer
    trouble(app, idp, "KV-API-081", "its answer cannot be used")


def test_an_answer_that_would_be_right_and_is_too_long_or_packed(app: Any, idp: OpenId):
    room = b" " * provider.MOST_BYTES
    for path, document in (
        ("/.well-known/openid-configuration", idp.document()),
        ("/keys", {"keys": [key.jwk for key in idp.keys]}),
    ):
        for answer in (json.dumps(document).encode() + room, (200, {"content_encoding": "gzip"})):
            idp.raw = {path: answer}
            trouble(app, idp, "KV-API-081", "its answer cannot be used")
    idp.raw = {}
    Someone(app, idp).sign_in_there()


def test_keys_that_are_no_keys(app: Any, ctl: Controller, idp: OpenId):
    for keys in (None, "x", [1], [{}] * 101):
        idp.raw["/keys"] = json.dumps({"keys": keys}).encode()
        trouble(app, idp, "KV-API-082", "no list of at most 100 keys")
    junk = [{}, {"kty": "RSA"}, {"kty": "RSA", "kid": "first", "n": "!", "e": 5}, {"kty": "EC", "crv": "x"}]
    idp.raw["/keys"] = json.dumps({"keys": [*junk, idp.keys[0].jwk]}).encode()
    Someone(app, idp).sign_in_there()


def test_a_redirect_is_not_followed(app: Any, idp: OpenId):
    idp.raw["/.well-known/openid-configuration"] = 302, {"location": f"{idp.issuer}/elsewhere"}
    trouble(app, idp, "KV-API-081", "status 302")
    assert "/elsewhere" not in idp.seen


def test_a_provider_of_another_ca_is_not_believed(app: Any, ctl: Controller, idp: OpenId):
    before = ctl.settings
    ctl.settings = dataclasses.replace(before, oidc=msgspec.convert(idp.settings(ORIGIN, ca=""), OidcSettings))
    try:
        trouble(app, idp, "KV-API-081", "cannot be reached")
    finally:
        ctl.settings = before


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
def test_a_provider_that_hangs_holds_nobody_else(
    app: Any, idp: OpenId, monkeypatch: pytest.MonkeyPatch, path: str
):  # fmt: skip
    monkeypatch.setattr(provider, "DEADLINE", 2.0)
    idp.hangs_at = path
    asked = threading.Thread(target=trouble, args=(app, idp, "KV-API-081", "within 2 s"))
    asked.start()
    while path not in idp.seen:
        assert asked.is_alive()
        time.sleep(0.01)
    assert Browser(app, Peer("192.0.2.10")).sign_in("vera").status_code == 200
    asked.join(30)
    assert not asked.is_alive()
    idp.hang.set()


def test_a_secret_that_others_can_read_is_not_used(
    app: Any, idp: OpenId, caplog: pytest.LogCaptureFixture
):  # fmt: skip
    idp.client_secret.chmod(0o644)
    try:
        with caplog.at_level(logging.ERROR):
            trouble(app, idp, "KV-API-081", "secret cannot be read")
        assert "KV-CONN-011" in caplog.text
        assert SECRET not in caplog.text
    finally:
        idp.client_secret.chmod(0o600)


def test_a_secret_that_the_provider_does_not_know(app: Any, idp: OpenId):
    idp.client_secret.write_text("another")
    try:
        refused(Someone(app, idp).through(), "KV-API-083", "invalid_client")
    finally:
        idp.client_secret.write_text(SECRET)


# --- step-up --------------------------------------------------------------------------------------------------------
def test_a_sign_in_of_before_is_none_of_now(anna: Someone, idp: OpenId):
    for since in (time.time() - sessions.FRESH - 1, None):
        idp.claims = {"auth_time": int(since) if since else None}
        anna.sign_in_there()
        assert anna.get("/session").json()["fresh"] is False
        assert anna.post("/v1/approve/vote", VOTE).json()["code"] == "KV-API-003"


def test_step_up_sends_to_the_provider_and_takes_what_is_new(ctl: Controller, anna: Someone, clock: Clock):
    anna.sign_in_there()
    clock.now += sessions.FRESH
    assert anna.post("/v1/approve/vote", VOTE).json()["code"] == "KV-API-003"
    refused(anna.post("/session/confirm", {"password": PASSWORD}), "KV-API-089", "/session/oidc")
    address = anna.begin(oidc.AGAIN)
    asked = parse_qs(urlsplit(address).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    before, cookie = ctl.books.log.size, anna.http.cookies[COOKIE]
    del anna.http.cookies[COOKIE]  # SameSite=Strict: it does not come along from the provider's page
    answer = anna.get(anna.at_provider(address))
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/access")
    (event,) = events(ctl, before)
    assert (event.kind, event.data["method"]) == ("session.confirmed", "oidc")
    anna.http.cookies.set(COOKIE, cookie)
    assert anna.post("/v1/approve/vote", VOTE).json()["code"] != "KV-API-003"
    clock.now += sessions.FRESH
    assert anna.post("/v1/approve/vote", VOTE).json()["code"] == "KV-API-003"


@pytest.mark.parametrize("at", [-120, None])
def test_step_up_does_not_take_a_sign_in_of_before(
    ctl: Controller, anna: Someone, idp: OpenId, clock: Clock, at: int | None
):  # fmt: skip
    anna.sign_in_there()
    clock.now += sessions.FRESH
    idp.claims = {"auth_time": at and int(time.time()) + at}
    before = ctl.books.log.size
    answer = anna.through(oidc.AGAIN)
    refused(answer, "KV-API-090", 'href="/access">Back to your session')
    assert anna.get("/session").json()["fresh"] is False, "the session is as it was"
    (event,) = events(ctl, before)
    assert event.data["account"] == "anna"
    assert (event.data["purpose"], event.data["reason"]) == ("step-up", "auth_time")


def test_step_up_wants_a_second_factor_where_that_is_set(ctl: Controller, idp: OpenId, clock: Clock):
    idp.fair()
    before = ctl.settings
    strict = msgspec.convert(idp.settings(ORIGIN, step_up_acr=["mfa", "hwk"]), OidcSettings)
    ctl.settings = dataclasses.replace(before, oidc=strict)
    try:
        anna = Someone(create_app(ctl, accounts=accounts(ctl), clock=clock), idp)
        for weak in (None, "pwd", ["mfa"], "mf"):
            idp.claims = {"acr": weak}
            anna.sign_in_there()
            assert anna.get("/session").json()["fresh"] is False, "signing in is free, approving is not"
            refused(anna.through(oidc.AGAIN), "KV-API-090", "step_up_acr")
            assert anna.get("/session").json()["fresh"] is False
        idp.claims = {"acr": "hwk"}
        assert parse_qs(urlsplit(anna.begin(oidc.AGAIN)).query)["acr_values"] == ["mfa hwk"]
        assert anna.through(oidc.AGAIN).status_code == 200
        assert anna.get("/session").json()["fresh"] is True
    finally:
        ctl.settings = before


def test_step_up_is_of_the_same_person(anna: Someone, idp: OpenId, clock: Clock):
    anna.sign_in_there()
    clock.now += sessions.FRESH
    idp.subject = "ada-there"
    refused(anna.through(oidc.AGAIN), "KV-API-090", "somebody else")
    assert anna.get("/session").json()["name"] == "local:anna"
    assert anna.get("/session").json()["fresh"] is False


def test_step_up_of_a_session_that_is_over_opens_none(app: Any, anna: Someone, clock: Clock):
    anna.sign_in_there()
    back = anna.at_provider(anna.begin(oidc.AGAIN))
    app.state.sessions.close_account("anna")
    refused(anna.get(back), "KV-API-080", "is over")
    assert anna.get("/session").status_code == 401


def test_step_up_at_the_provider_is_for_sessions_that_it_opened(app: Any, idp: OpenId):
    assert Someone(app, idp).get(oidc.AGAIN).status_code == 401
    vera = Someone(app, idp, "192.0.2.8")
    assert vera.sign_in("vera").status_code == 200
    refused(vera.get(oidc.AGAIN), "KV-API-091")


def test_what_was_asked_for_is_kept_and_done_after_the_step_up(app: Any, idp: OpenId, clock: Clock):
    idp.subject = "ada-there"
    ada = Someone(app, idp)
    ada.sign_in_there()
    clock.now += sessions.FRESH
    fields = {"csrf": ada.csrf, "name": "newt", "roles": "viewer", "back": "/access"}
    asked = ada.http.post("/do/account.create", data=fields, headers={"Origin": ORIGIN, **HTML})
    assert 'name="password"' not in asked.text
    link = asked.text.split('href="/session/oidc?again=')[1].split('"')[0]
    answer = ada.through(f"{oidc.AGAIN}?again={link}")
    assert answer.headers["refresh"] == f"0; url=/confirmed/{link}"
    page = ada.get(f"/confirmed/{link}", headers=HTML)
    assert 'action="/do/account.create"' in page.text
    assert 'name="name" value="newt"' in page.text
    other = Someone(app, idp)
    idp.subject = SUB
    other.sign_in_there()
    assert other.get(f"/confirmed/{link}", headers=HTML).status_code == 400, "it is kept for who asked"
    done = ada.http.post("/do/account.create", data=fields, headers={"Origin": ORIGIN, **HTML})
    assert "shown this once" in done.text


@pytest.mark.parametrize("again", ["../logout", "https://evil.example", "x;url=https://evil.example", "%0d%0aX:y"])
def test_the_way_on_is_one_of_the_consoles_own(anna: Someone, again: str):
    anna.sign_in_there()
    assert anna.through(f"{oidc.AGAIN}?again={again}").headers["refresh"] == "0; url=/access"


def test_nobody_reads_what_somebody_asked_for(app: Any):
    answer = Browser(app).get("/confirmed/0123456789abcdef", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


# --- without one ----------------------------------------------------------------------------------------------------
def test_without_a_provider_nothing_is_there(tmp_path: Path):
    with opened(settings(tmp_path)) as bare:
        app = create_app(bare, accounts=accounts(bare), pages=pages, instead=instead)
        browser = Browser(app)
        assert "oidc" not in browser.get("/login", headers=HTML).text
        assert browser.get(oidc.BEGIN).status_code == 401, "a path like any other that is none"
        assert not [path for path in app.openapi()["paths"] if "oidc" in path]


def test_a_provider_that_is_taken_out_of_the_settings_is_out_at_once(app: Any, ctl: Controller, anna: Someone):
    before = ctl.settings
    ctl.settings = dataclasses.replace(before, oidc=None)
    try:
        assert "oidc" not in anna.get("/login", headers=HTML).text
        assert anna.get(oidc.BEGIN).json()["code"] == "KV-API-011"
        assert anna.get(f"{provider.CALLBACK}?code=x&state=y").json()["code"] == "KV-API-011"
    finally:
        ctl.settings = before


def test_its_routes_are_in_the_document_and_say_for_whom(app: Any):
    paths = app.openapi()["paths"]
    assert paths["/login/oidc"]["get"]["security"] == paths["/login/oidc/callback"]["get"]["security"] == []
    assert set(paths["/session/oidc"]["get"]["x-kvctl-roles"]) == set(map(str, Role))
