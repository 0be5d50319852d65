"""What every request passes: headers, origins, tokens, sizes, and one shape of errors."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kvctl.api.app import create_app
from kvctl.api.gate import MAX_BODY
from kvctl.api.identity import Peer
from kvctl.controller import tenants
from kvctl.controller.core import Controller
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Role
from tests.api.rig import ORIGIN, Browser, People, controller

TENANT = {"tenant": "acme", "entity": "Acme", "dry_run": True}
SHAPE = {"code", "what", "where", "why", "fix", "exit_code"}


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller(tmp_path_factory.mktemp("gate")) as found:
        yield found


@pytest.fixture
def app(ctl: Controller) -> Any:
    return create_app(ctl, accounts=People(otto=Role.OPERATOR))


@pytest.fixture
def otto(app: Any) -> Browser:
    browser = Browser(app)
    browser.sign_in("otto")
    return browser


@pytest.fixture
def root(app: Any) -> Browser:
    return Browser(app, Peer("unix", uid=0))


def test_a_change_needs_the_sessions_token(otto: Browser):
    assert otto.post("/v1/tenant/create", TENANT).status_code == 200
    for token in ("", "wrong", otto.csrf[:-1], otto.csrf + "x"):
        answer = otto.post("/v1/tenant/create", TENANT, headers={"X-CSRF-Token": token})
        assert (answer.status_code, answer.json()["code"]) == (403, "KV-API-017"), token


def test_the_token_of_another_session_is_none(app: Any, otto: Browser):
    again = Browser(app)
    again.sign_in("otto")
    assert otto.post("/v1/tenant/create", TENANT, headers={"X-CSRF-Token": again.csrf}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://testserver"},
        {"Origin": "https://testserver:8443"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"}, {"Origin": ""},
    ],
)  # fmt: skip
def test_a_change_that_another_site_sends_is_refused(otto: Browser, headers: dict[str, str]):
    answer = otto.post("/v1/tenant/create", TENANT, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "KV-API-017")


def test_signing_in_from_another_site_is_refused(app: Any):
    for headers in ({"Origin": "https://evil.example"}, {"Origin": ""}):
        answer = Browser(app).post("/login", {"name": "otto", "password": "x"}, headers=headers)
        assert answer.json()["code"] == "KV-API-017"


def test_a_socket_needs_no_token(root: Browser):
    assert root.http.post("/v1/tenant/create", json=TENANT).status_code == 200
    foreign = root.http.post("/v1/tenant/create", json=TENANT, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403


def test_no_get_changes_anything(ctl: Controller, root: Browser):
    before = ctl.books.log.size
    for operation in OPERATIONS.values():
        if operation.changes:
            answer = root.get(operation.path)
            assert (answer.status_code, answer.json()["code"]) == (405, "KV-API-012"), operation.name
    assert ctl.books.log.size == before


def test_every_answer_carries_the_headers(app: Any, otto: Browser):
    for answer in (otto.get("/session"), otto.get("/nope"), Browser(app).get("/session"), otto.get("/healthz")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["strict-transport-security"].startswith("max-age=")
        assert answer.headers["cache-control"] == "no-store"


def test_every_error_has_the_one_shape(root: Browser, otto: Browser):
    json_body = {"Content-Type": "application/json"}
    answers = {
        404: otto.get("/v1/nope"),
        405: otto.post("/v1/tenant/ls"),
        400: root.http.post("/v1/tenant/create", content=b"{", headers=json_body),
        403: otto.get("/v1/account/ls"),
        413: root.http.post("/v1/tenant/create", content=b" " * (MAX_BODY + 1), headers=json_body),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert set(answer.json()) == SHAPE


@pytest.mark.parametrize(
    "body",
    [
        {}, {"tenant": "acme"}, {**TENANT, "more": 1}, {**TENANT, "max_concurrent": "5"}, {**TENANT, "dry_run": "yes"},
        {**TENANT, "domains": "user"}, {**TENANT, "tenant": 5}, {**TENANT, "quota_bytes": 1.5}, [], "text", None,
    ],
)  # fmt: skip
def test_a_body_is_taken_strictly(root: Browser, body: Any):
    answer = root.http.post("/v1/tenant/create", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "KV-API-016"), answer.text


@pytest.mark.parametrize("query", ["?x=1", "?tenant=a&x=", "?limit=many"])
def test_a_query_is_taken_strictly(root: Browser, query: str):
    path = "/v1/approve/ls" if "limit" in query else "/v1/tenant/ls"
    answer = root.get(path + query)
    assert (answer.status_code, answer.json()["code"]) == (400, "KV-API-016")


def test_what_is_wrong_is_named_but_not_repeated(root: Browser):
    answer = root.http.post("/v1/tenant/create", json={**TENANT, "sla": 5, "passwort": "my secret"})
    assert "sla" in answer.json()["why"]
    assert "my secret" not in answer.text


def test_a_defect_is_told_by_a_number_and_the_log_has_the_rest(
    root: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(*_: Any) -> dict[str, Any]:
        raise RuntimeError("the inner workings")

    monkeypatch.setitem(tenants.SERVICES, "tenant.ls", broken)
    with caplog.at_level(logging.ERROR):
        answer = root.get("/v1/tenant/ls")
    assert (answer.status_code, answer.json()["code"]) == (500, "KV-API-015")
    assert "inner workings" not in answer.text
    number = answer.json()["why"].split()[-1]
    assert number in caplog.text
    assert "inner workings" in caplog.text


def test_pages_may_answer_errors_where_a_browser_asked(ctl: Controller):
    from starlette.responses import RedirectResponse

    def instead(scope: Any, error: Any) -> Any:
        wants = dict(scope["headers"]).get(b"accept", b"")
        return RedirectResponse("/login", 303) if b"text/html" in wants and error.code == "KV-API-010" else None

    browser = Browser(create_app(ctl, instead=instead))
    assert browser.get("/", headers={"Accept": "text/html"}).headers["location"] == "/login"
    assert browser.get("/", headers={"Accept": "application/json"}).status_code == 401


def test_the_document_has_types(root: Browser):
    document = root.get("/v1/openapi.json").json()
    create = document["paths"]["/v1/tenant/create"]["post"]
    name = create["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = document["components"]["schemas"][name]
    assert schema["properties"]["max_concurrent"] == {"type": "integer", "title": "Max Concurrent", "default": 16}
    assert schema["required"] == ["tenant", "entity"]
    assert schema["additionalProperties"] is False
    query = {p["name"]: p for p in document["paths"]["/v1/audit/log"]["get"]["parameters"]}
    assert query["limit"]["schema"]["type"] == "integer"
    assert "422" not in str(document["paths"].keys())
    assert set(create["responses"]) >= {"200", "400", "401", "403", "409"}
    assert ORIGIN not in str(document)
