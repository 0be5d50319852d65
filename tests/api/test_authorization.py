"""Every route that the OpenAPI document has, as every kind of caller: allowed if and only if the table says so."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import pytest

from kvctl.api.app import create_app
from kvctl.api.identity import Peer
from kvctl.controller.core import Controller
from kvctl.controller.pki import Authority, Services, new_request
from kvctl.types.operations import OPERATIONS, READERS, Operation
from kvctl.types.principals import Kind, Principal, Role
from kvctl.types.requests import TenantCreate
from tests.api.rig import ORIGIN, Browser, People, controller

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
OTHER = "zz-marker-tenant"  # nothing of it may be in any answer to acme's people
MARKERS = (OTHER, "Marker Entity GmbH", "marker-label")
SAMPLES: dict[str, Any] = {
    "name": "somebody", "roles": ["viewer"], "tenant": "acme", "entity": "Acme", "key": "k-none", "domain": "user",
    "holder": "00" * 32, "text": "schema: 1", "at": "2026-01-01T00:00:00Z", "reason": "why", "hold": "h-none",
    "erasure": "e-none", "source": "flash", "target": "disk", "move": "m-none", "approval": "a-none", "decision": "no",
    "payload_sha256": "00" * 32, "index": 0, "kind": "test.happened", "run": "r-none", "request": "none", "check": "R1",
    "until": "2026-01-01T00:00:00Z",
    "weights": "00" * 32, "tokenizer": "00" * 32, "config": "00" * 32, "licence": "none", "model": "tiny",
    "store": "none",
}  # fmt: skip
HUMAN_ROLES = tuple(role for role in Role if role is not Role.SERVICE)


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller(tmp_path_factory.mktemp("authorization")) as found:
        for name, entity in (("acme", "Acme"), (OTHER, "Marker Entity GmbH")):
            found.call("tenant.create", ROOT, TenantCreate(name, entity))
        yield found


@pytest.fixture(scope="module")
def people() -> People:
    found = People()
    for role in HUMAN_ROLES:
        found.add(f"site-{role}", role)
        found.add(f"acme-{role}", role, tenant="acme")
    return found


@pytest.fixture(scope="module")
def app(ctl: Controller, people: People) -> Any:
    return create_app(ctl, accounts=people)


@pytest.fixture(scope="module")
def browsers(app: Any, people: People) -> dict[str, Browser]:
    found = {}
    for number, name in enumerate(people.known):
        found[name] = Browser(app, Peer(f"198.51.100.{number}"))
        assert found[name].sign_in(name).status_code == 200
    return found


def routes(app: Any) -> list[tuple[str, str, dict[str, Any]]]:
    document = app.openapi()
    return [(m.upper(), path, about) for path, methods in document["paths"].items() for m, about in methods.items()]


def sample(operation: Operation, tenant: str) -> dict[str, Any]:
    """The least that the operation takes, naming this tenant; a rehearsal where there is one."""
    found = {f.name: SAMPLES[f.name] for f in fields(operation.request) if f.default is f.default_factory is MISSING}
    names = {field.name for field in fields(operation.request)}
    if "tenant" in names:
        found["tenant"] = tenant
    if "dry_run" in names:
        found["dry_run"] = True
    return found


def ask(browser: Browser, operation: Operation, body: dict[str, Any]) -> Any:
    if operation.changes:
        return browser.post(operation.path, body)
    return browser.get(operation.path, params=body)


def expected(operation: Operation, who: Principal, tenant: str) -> bool:
    if not who.has(*operation.roles):
        return False
    if who.tenant is None:
        return True
    return operation.names_tenant and not operation.site and tenant == who.tenant


def test_the_document_has_every_operation_and_nothing_that_is_not_accounted_for(app: Any):
    listed = {(method, path) for method, path, _ in routes(app)}
    own = {(o.method, o.path) for o in OPERATIONS.values()}
    sessions = {("POST", p) for p in ("/login", "/logout", "/join/{token}", "/session/confirm", "/session/end")}
    assert listed == own | sessions | {("GET", "/session"), ("GET", "/v1/stream"), ("GET", "/healthz")}
    served = {getattr(route, "path", "") for route in app.routes}
    assert {path for _, path in listed} | {"/v1/openapi.json"} >= served - {""}, "a route that no document shows"


def test_the_document_says_who_may(app: Any):
    for method, path, about in routes(app):
        for operation in OPERATIONS.values():
            if (operation.method, operation.path) == (method, path):
                assert about["x-kvctl-roles"] == sorted(operation.roles)


def test_nobody_gets_401_on_every_route_that_is_not_public(app: Any):
    nobody = Browser(app)
    for method, path, _ in routes(app):
        if path in ("/healthz", "/login", "/join/{token}"):
            continue
        answer = nobody.http.request(method, path, headers={"Origin": ORIGIN})
        assert (answer.status_code, answer.json()["code"]) == (401, "KV-API-010"), path
    assert nobody.get("/v1/openapi.json").status_code == 401
    assert nobody.get("/no/such/path").status_code == 401, "a path's absence is not for nobody either"
    assert nobody.get("/healthz").json() == {"ok": True}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_role_is_let_in_if_and_only_if_the_table_says_so(name: str, browsers: dict[str, Browser], people: People):
    operation = OPERATIONS[name]
    for account, browser in browsers.items():
        who = people.known[account]
        for tenant in ("acme", OTHER) if who.tenant else ("acme",):
            answer = ask(browser, operation, sample(operation, tenant))
            let_in = answer.status_code not in (401, 403)
            assert let_in == expected(operation, who, tenant), f"{account} {name} {tenant}: {answer.text[:300]}"
            if not let_in:
                assert answer.json()["code"] in ("KV-API-001", "KV-API-002"), answer.text
            if who.tenant:
                clean(answer.text)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_tenants_people_who_name_no_tenant_get_their_own(name: str, browsers: dict[str, Browser], people: People):
    operation = OPERATIONS[name]
    for account, browser in browsers.items():
        who = people.known[account]
        if who.tenant and expected(operation, who, who.tenant):
            body = {k: v for k, v in sample(operation, "acme").items() if k != "tenant"}
            clean(ask(browser, operation, body).text)


def clean(text: str) -> None:
    """Not a byte of the other tenant, whose name, entity and label are markers."""
    assert not [marker for marker in MARKERS if marker in text], text[:500]


def test_a_service_gets_what_is_for_services_and_nothing_else(ctl: Controller, app: Any):
    authority = Authority(ctl.directory / "tls", "par1")
    _, request = new_request("gw1")
    certificate = authority.service("gw1", request)
    der = certificate.public_bytes(_der())
    stranger = Browser(app, Peer("203.0.113.1", certificate=der))
    assert stranger.get("/session").status_code == 401, "the CA signed it, but nobody added it"
    Services(ctl.directory / "tls").add("gw1", certificate)
    gateway = Browser(app, Peer("203.0.113.1", certificate=der))
    about = gateway.get("/session").json()
    assert (about["name"], about["roles"], about["kind"]) == ("service:gw1", ["service"], str(Kind.SERVICE))
    for operation in OPERATIONS.values():
        answer = ask(gateway, operation, sample(operation, "acme"))
        refused = (answer.status_code, answer.json().get("code")) == (403, "KV-API-001")
        assert refused != (Role.SERVICE in operation.roles), f"{operation.name}: {answer.text[:300]}"
    assert gateway.get("/v1/stream").status_code == 403
    Services(ctl.directory / "tls").remove("gw1")
    assert gateway.get("/session").status_code == 401, "forgotten from the next request on"


def test_only_readers_follow_the_stream(browsers: dict[str, Browser], people: People):
    for account, browser in browsers.items():
        if not people.known[account].has(*READERS):
            assert browser.get("/v1/stream").status_code == 403, account


def test_a_socket_is_for_root_and_the_controllers_own_user(app: Any):
    assert Browser(app, Peer("unix", uid=0)).get("/session").json()["roles"] == ["admin", "operator"]
    assert Browser(app, Peer("unix", uid=65534)).get("/session").status_code == 401


def test_a_request_is_of_one_principal_only(ctl: Controller, app: Any):
    browser = Browser(app, Peer("203.0.113.9"))
    assert browser.sign_in("site-viewer").status_code == 200
    both = Browser(app, Peer("203.0.113.9", certificate=b"whatever"))
    both.http.cookies = browser.http.cookies
    assert "one only" in both.get("/session").json()["why"]


def test_what_was_refused_is_on_record(ctl: Controller, browsers: dict[str, Browser]):
    ctl.refusals.settle(every=True)  # other tests have used its minute up
    before = ctl.books.log.size
    assert (
        browsers["site-viewer"].post("/v1/tenant/create", sample(OPERATIONS["tenant.create"], "x")).status_code == 403
    )
    event = list(ctl.books.recorded(before))[-1]
    assert (event.kind, event.actor, event.outcome) == ("access.denied", "local:site-viewer", "denied")
    assert event.data["operation"] == "tenant.create"


def _der() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER
