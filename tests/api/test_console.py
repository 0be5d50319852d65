"""The console's pages: everyone sees what their role may see, and nobody anything."""

import hashlib
import html
import json
import re

import pytest

from kvctl.api.app import create_app
from kvctl.api.console import instead, pages, read
from kvctl.api.drawing import detail_paths, templates
from kvctl.api.menu import SESSIONS, may
from kvctl.api.screens import PAGES
from kvctl.types.errors import RefusedError
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    ApprovalList,
    EraseSubject,
    HoldSet,
    KeyCreate,
    RetentionExplain,
    TenantCreate,
    TierPropose,
)
from kvctl.types.resources import resource
from tests.api.rig import ORIGIN, PASSWORD, Browser, People, controller
from tests.controller.policy_site import apply, put_copies

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
NASTY = "zz-marker"
KEY = b"10".hex()  # the first digits of every copy's
ENTITY = "<script>alert(1)</script>"
HTML = {"accept": "text/html"}
ROLES = [role for role in Role if role is not Role.SERVICE]


@pytest.fixture(scope="module")
def ctl(tmp_path_factory):
    with controller(tmp_path_factory.mktemp("console")) as made:
        for tenant in ("acme", NASTY):
            made.call("tenant.create", ROOT, TenantCreate(tenant, ENTITY))
        apply(made, who=ROOT)
        put_copies(made, 3, first=1000)
        made.call("key.create", ROOT, KeyCreate(NASTY, label=ENTITY))
        made.call("hold.set", ROOT, HoldSet("acme", ENTITY, domain="common"))
        yield made


@pytest.fixture(scope="module")
def address(ctl):
    """Names that the pages of one thing are about."""
    proposed = ctl.call("tier.propose", ROOT, TierPropose("acme", "flash", "disk"))
    erased = ctl.call("erase.subject", ROOT, EraseSubject(NASTY, user="u1"))
    return {
        "tenant": "acme", "at": "2026-02-01T00:00", "approval": proposed["approval"], "erasure": erased["erasure"],
        "key": KEY, "run": "none", "plan": "latest",
    }  # fmt: skip


def path_of(one, address):
    return re.sub(r"{(\w+)}", lambda found: address[found[1]], one.path)


@pytest.fixture(scope="module")
def app(ctl):
    people = People(**{role.name.lower(): role for role in ROLES})
    people.add("ann", Role.TENANT_ADMIN, tenant="acme")
    return create_app(ctl, accounts=people, pages=pages, instead=instead)


def signed_in(app, name):
    browser = Browser(app)
    assert browser.sign_in(name).status_code == 200
    return browser


def page(browser, path):
    return browser.get(path, headers=HTML)


def form(browser, path, **fields):
    headers = {"Origin": "https://testserver", "accept": "text/html"}
    return browser.http.post(path, data={"csrf": browser.csrf, **fields}, headers=headers)


def test_nobody_is_sent_to_the_sign_in(app):
    nobody = Browser(app)
    for path in [one.path for one in PAGES] + ["/live", "/waiting", "/made/x", "/no/such/page"]:
        answer = page(nobody, path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login"), path
        fragment = nobody.get(path, headers={"HX-Request": "true"})
        assert (fragment.status_code, fragment.headers["hx-redirect"]) == (401, "/login"), path
    for path in ("/do/tenant.create", "/confirm"):
        assert form(nobody, path).status_code == 303, path


def test_no_route_is_left_out_of_these_walks(app):
    documented = set(app.openapi()["paths"]) | {"/v1/openapi.json"}
    own = {getattr(route, "path", "") for route in app.routes} - documented - {""}
    walked = {one.path for one in PAGES} | {"/do/{operation}", "/confirm", "/made/{name}", "/waiting", "/live"}
    assert own == walked | {"/static", "/login", "/join/{token}"} - documented


@pytest.mark.parametrize("role", ROLES)
def test_every_page_as_every_role(app, role, address):
    browser = signed_in(app, role.name.lower())
    who = Principal("x", frozenset({role}))
    for one in PAGES:
        answer = page(browser, path_of(one, address))
        assert answer.status_code == (200 if one.open_to(who) else 403), one.path
        assert "<nav" in answer.text, "also a page that is refused leads on"
        for part in one.parts:
            assert (f'id="{part.id}"' in answer.text) == (one.open_to(who) and may(who, part.operation)), part.title
        for each in one.forms:
            if not may(who, each.operation):
                assert f'action="/do/{each.operation}"' not in answer.text, each.label
        assert ENTITY not in answer.text, "what people write is never markup"
        assert not re.findall(r"<script(?! src=./static/)|<[^>]* (?:style|on\w+)=", answer.text)


@pytest.mark.parametrize("role", ROLES)
def test_every_button_as_every_role(app, role):
    """The console decides nothing: what the table of operations refuses is refused by every form."""
    browser = signed_in(app, role.name.lower())
    who = Principal("x", frozenset({role}))
    for name, operation in OPERATIONS.items():
        answer = form(browser, f"/do/{name}", dry_run="true", tenant="none", check="none", run="none")
        if not may(who, name):
            assert answer.status_code in (400, 403), name
            assert "Done." not in answer.text, name
        elif operation.roles & who.roles:
            assert "KV-API-001" not in answer.text, name


def test_every_table_has_the_columns_that_its_operation_gives(app, ctl, address):
    """A list that an operation does not have would show as empty for ever."""
    everything = Principal("unix:root", frozenset(Role) - {Role.SERVICE}, fresh=True)
    for one in PAGES:
        for part in one.parts:
            if part.operation in (SESSIONS, "fleet.status", "run.show", "fleet.plan"):
                continue  # of the console itself, or they need a fleet
            fields = {name: address.get(name, "") for name in part.fields} | {k: str(v) for k, v in part.given}
            found = ctl.call(part.operation, everything, read(part.operation, fields))
            if not part.rows:
                continue
            assert part.rows in found, (one.path, part.operation, sorted(found))
            for row in found[part.rows][:1]:
                made = {"progress"}  # drawn from several
                assert set(part.columns) - made <= set(row), (one.path, part.operation, sorted(row))


def test_a_part_is_read_again_by_itself(app):
    browser = signed_in(app, "operator")
    fragment = browser.get("/tenants", headers={"HX-Request": "true", "HX-Target": "api-keys"})
    assert fragment.text.strip().startswith("<section")
    assert 'id="api-keys"' in fragment.text
    assert 'id="tenants"' not in fragment.text
    assert browser.get("/tenants", headers={"HX-Request": "true", "HX-Target": "nothing"}).status_code == 404


def test_watching_does_not_keep_a_session_alive(app):
    browser = signed_in(app, "viewer")
    (session,) = [one for one in app.state.sessions.ls() if one.account == "viewer"][-1:]
    used = session.used = session.used - 60
    browser.get("/tenants", headers={"X-Kvctl-Watching": "1"})
    assert session.used == used
    browser.get("/tenants")
    assert session.used > used


def test_a_table_pages_and_is_given_as_it_is_shown(app, ctl):
    for number in range(60):
        ctl.call("key.create", ROOT, KeyCreate("acme", label=f"key-{number:02d}"))
    browser = signed_in(app, "operator")
    first = page(browser, "/tenants/acme").text
    second = page(browser, "/tenants/acme?page-api-keys=2").text
    assert "Page 1 of 2" in first
    assert "Page 2 of 2" in second
    seen = [set(re.findall(r"key-\d\d", text)) for text in (first, second)]
    assert len(seen[0]) + len(seen[1]) == 60
    assert not seen[0] & seen[1]
    rows = browser.get("/tenants/acme?csv=api-keys").text.splitlines()
    assert (len(rows), rows[0].split(",")[0]) == (61, "id")


def test_the_audit_log_is_filtered_and_paged_without_gaps(app, ctl):
    browser = signed_in(app, "operator")
    text = page(browser, "/audit?kind=tenant.*&tenant=acme").text
    assert "tenant.created" in text
    assert "policy.activated" not in text
    assert "data-tail" not in text, "what is filtered is not added to"
    seen, path = [], "/audit"
    while True:
        text = page(browser, path).text
        seen += [int(index) for index in re.findall(r'id="event-(\d+)"', text)]
        older = re.search(r'href="(/audit\?before=\d+)#events"', text)
        if older is None:
            break
        path = older[1]
    assert seen == list(range(seen[0], -1, -1))


def test_why_a_block_is_kept(app, ctl):
    browser = signed_in(app, "operator")
    text = page(browser, f"/retention?tenant=acme&key={KEY}").text
    copies = ctl.call("retention.explain", ROOT, RetentionExplain("acme", KEY))["copies"]
    assert len(copies) == 3
    for copy in copies:
        assert copy["key"] in text
        assert copy["text"] in html.unescape(text)
        assert all(rule["says"] in html.unescape(text) for rule in copy["rules"])
    assert "KV-RET-007" in page(browser, "/retention?tenant=acme&key=zz").text
    assert "KV-RET-008" in page(browser, "/retention?tenant=acme&key=abcd").text


def test_where_copies_were_at_another_time(app):
    browser = signed_in(app, "auditor")
    asked = page(browser, "/residency").text
    assert "Choose a tenant and a time" in asked
    text = page(browser, "/residency?tenant=acme&at=2026-02-01T00:00").text
    assert "Choose a tenant and a time" not in text
    assert "s1/flash" in text


def test_a_tenants_person_sees_no_byte_of_another_tenant(app, address):
    browser = signed_in(app, "ann")
    texts = [page(browser, path_of(one, address)).text for one in PAGES]
    texts += [page(browser, f"/erasure/{address['erasure']}").text]
    assert any("acme" in text for text in texts)
    assert [text for text in texts if NASTY in text] == []


def test_a_tenant_that_is_anothers_looks_like_one_that_there_is_not(app):
    browser = signed_in(app, "ann")
    texts = [
        re.sub(r"20\d\d-[^<>]*", "", page(browser, f"/tenants/{name}").text.replace(name, "NAME"))
        for name in (NASTY, "zz-nobody")
    ]
    assert texts[0] == texts[1]
    assert "KV-API-002" in texts[0]


def test_a_change_needs_the_sessions_token(app):
    browser = signed_in(app, "operator")
    browser.csrf = "another"
    assert form(browser, "/do/tenant.suspend", tenant="acme").status_code == 403


def test_a_form_does_what_it_says_and_shows_a_key_once(app, ctl):
    browser = signed_in(app, "operator")
    would = form(browser, "/do/tenant.create", tenant="third", entity="Third", dry_run="true")
    assert "nothing was changed" in would.text
    assert "third" not in page(browser, "/tenants").text
    assert form(browser, "/do/tenant.create", tenant="third", entity="Third").status_code == 200
    assert "third" in page(browser, "/tenants").text
    made = form(browser, "/do/key.create", tenant="third")
    (secret,) = set(re.findall(r"kv-third-[A-Za-z0-9_-]{20,}", made.text))
    assert secret not in page(browser, "/tenants").text


@pytest.mark.parametrize("sent", [lambda note: note, lambda note: note.replace("\n", "\r\n"), str.strip])
def test_a_genuine_checkpoint_verifies_however_a_browser_sends_it(app, ctl, sent):
    answer = form(signed_in(app, "auditor"), "/do/audit.verify", since=sent(ctl.books.log.checkpoint()))
    assert "&#34;sound&#34;: true" in answer.text


def test_a_policy_text_keeps_its_bytes():
    text = "schema: kvctl.policy/1\nentities: []\n"
    assert read("policy.apply", {"text": text.replace("\n", "\r\n")}).text == text


def test_a_vote_is_given_where_the_payload_is_shown(app, ctl):
    asked = ctl.call("tier.propose", ROOT, TierPropose("acme", "flash", "disk", reason=ENTITY))
    browser = signed_in(app, "approver")
    listed = page(browser, "/approvals").text
    assert "approve.vote" not in listed
    assert asked["approval"] in page(browser, "/").text
    shown = page(browser, f"/approvals/{asked['approval']}").text
    assert asked["payload_sha256"] in shown
    assert 'value="yes">Approve' in shown
    vote = {"approval": asked["approval"], "payload_sha256": asked["payload_sha256"], "decision": "yes"}
    assert "Done." in form(browser, "/do/approve.vote", **vote).text
    assert asked["approval"] not in page(browser, "/").text, "what is decided does not wait"
    assert "Carry out" in page(signed_in(app, "operator"), f"/approvals/{asked['approval']}").text
    states = {one["id"]: one["state"] for one in ctl.call("approve.ls", ROOT, ApprovalList())["approvals"]}
    assert states[asked["approval"]] == "approved"


def test_a_move_that_residency_forbids_is_refused_with_the_rules_name_and_the_form_as_it_was(app, ctl):
    put_copies(ctl, 2, tenant=NASTY, store="s2", first=50)
    browser = signed_in(app, "operator")
    fields = {"tenant": NASTY, "source": "flash", "target": "object", "reason": "make room"}
    refused = form(browser, "/do/tier.propose", back="/moves", **fields)
    assert refused.status_code == 409
    assert "KV-TIER-003" in refused.text
    assert f"no residency policy of {NASTY}" in refused.text
    assert 'value="make room"' in refused.text
    assert re.search(r'value="object" selected', refused.text)


def test_a_pack_shows_what_fails_first_and_is_fetched_by_its_maker_alone(app):
    browser = signed_in(app, "auditor")
    made = form(browser, "/do/audit.run", pack="gdpr", back="/packs").text
    said = re.findall(r'class="pill \w+">.*?</svg>([A-Z ]+)</span>', made)
    assert said == sorted(said, key=("FAIL", "NO EVIDENCE", "WAIVED", "PASS").index)
    path = re.search(r"/made/[0-9a-f]+", made)[0]
    answer = browser.get(path)
    assert answer.content[:2] == b"PK"
    assert answer.headers["content-disposition"].endswith('-gdpr.zip"')
    assert signed_in(app, "dpo").get(path).status_code == 400


def test_an_export_is_a_file(app):
    answer = form(signed_in(app, "auditor"), "/do/audit.export", format="jsonl")
    assert answer.headers["content-disposition"].endswith('.jsonl"')
    assert json.loads(answer.text.splitlines()[0])["kind"] == "tenant.created"


def test_a_failed_sign_in_keeps_the_form(app):
    browser = Browser(app)
    answer = form(browser, "/login", name="operator", password="wrong")
    assert answer.status_code == 401
    assert "KV-API-062" in answer.text
    assert 'name="name" value="operator"' in answer.text
    assert "wrong" not in re.findall(r'value="([^"]*)"', answer.text)
    joining = form(browser, "/join/none", password="a long word and another")
    assert (joining.status_code, 'action="/join/none"' in joining.text) == (403, True)


@pytest.mark.parametrize(("path", "status", "words"), [
    ("/nope", 404, "There is nothing here"), ("/residency", 403, "You may not do that"),
])  # fmt: skip
def test_a_page_that_is_not_there_leads_on(app, path, status, words):
    answer = page(signed_in(app, "admin"), path)
    assert answer.status_code == status
    assert words in answer.text
    assert 'href="/access"' in answer.text


def test_sessions_are_ones_own_and_an_administrators(app):
    mine = page(signed_in(app, "viewer"), "/access").text
    assert "End all sessions of viewer" in mine
    assert "End all sessions of operator" not in mine
    assert "End all sessions of viewer" in page(signed_in(app, "admin"), "/access").text


def test_ending_sessions_from_the_page_ends_them(app):
    browser = signed_in(app, "approver")
    ended = form(browser, "/session/end", account="approver")
    assert (ended.status_code, ended.headers["location"]) == (303, "/access")
    assert page(browser, "/access").headers["location"] == "/login"
    assert form(signed_in(app, "viewer"), "/session/end", account="operator").status_code == 403


def test_the_stream_of_the_console_carries_rows_without_markup_of_anybody(ctl):
    """As the browser gets it: the kind, and one row of the table of events."""
    row = templates().get_template("event.html").module.row
    event = {"idx": 1, "ts": "2026-01-01T00:00:00.000Z", "kind": "x.y", "actor": ENTITY, "tenant": "acme",
             "outcome": "ok", "data": {"reason": ENTITY}}  # fmt: skip
    text = str(row(event, detail_paths(None), "", False))
    every = {"a": None, "b": True, "c": [1, "x"], "d": {"e": {}}, "f": 1.5, "g": "2026-01-01T00:00:00Z", "progress": {}}
    row(event | {"tenant": None, "data": every}, detail_paths(None), "", True)
    assert "<script>" not in text
    assert text.startswith('<tr id="event-1">')


def test_what_destroys_is_shown_before_it_can_be_done(app):
    browser = signed_in(app, "dpo")
    text = page(browser, "/erasure").text
    erase = text[text.index("Erase a user") : text.index("Erase a model or a time")]
    assert erase.count("<button") == 1
    would = form(browser, "/do/erase.subject", tenant="acme", user="somebody", dry_run="true")
    assert "nothing was changed" in would.text
    assert "Do it" in would.text


def test_a_wrong_form_says_what_and_where(app):
    answer = form(signed_in(app, "operator"), "/do/tenant.create", tenant="BAD NAME", entity="x")
    assert answer.status_code == 400
    assert "KV-TEN-001" in answer.text


def test_what_needs_the_password_again_asks_for_it_and_then_does_it(app):
    browser = signed_in(app, "admin")
    for session in app.state.sessions._open.values():
        session.proved -= 3600
    asked = form(browser, "/do/account.create", name="dora", roles="dpo")
    assert asked.status_code == 403
    assert "Confirm your password" in asked.text
    again = {f"again.{k}": v for k, v in {"name": "dora", "roles": "dpo", "back": "/access"}.items()}
    wrong = form(browser, "/confirm", operation="account.create", password="not it at all", **again)
    assert wrong.status_code == 401
    done = form(browser, "/confirm", operation="account.create", password=PASSWORD, **again)
    assert f"<pre>{ORIGIN}/join/" in done.text, "the whole link, as this browser reaches the console"
    assert "/join/" not in page(browser, "/access").text


def test_a_code_that_was_left_out_is_asked_for_and_nothing_is_typed_again(app, monkeypatch):
    browser = signed_in(app, "admin")

    def authenticate(name, password, code=""):
        raise RefusedError("KV-API-075", "a code of your authenticator app is needed, too")

    monkeypatch.setattr(app.state.identify.accounts, "authenticate", authenticate)
    again = {f"again.{k}": v for k, v in {"name": "dodo", "roles": "dpo", "back": "/access"}.items()}
    asked = form(browser, "/confirm", operation="account.create", password=PASSWORD, **again).text
    assert 'action="/confirm"' in asked
    assert 'name="again.name" value="dodo"' in asked


@pytest.mark.parametrize("number", ["9" * 5000, "0", "-1", "x"])
def test_a_page_number_that_is_none_is_no_fault(app, number):
    browser = signed_in(app, "operator")
    assert page(browser, f"/tenants?page-tenants={number}").status_code == 200


def test_what_is_vendored_is_what_was_published():
    place = resource("web")
    said = re.search(r"^    ([0-9a-f]{64})$", (place / "README.md").read_text(), re.MULTILINE)
    assert said
    assert hashlib.sha256((place / "static" / "htmx.min.js").read_bytes()).hexdigest() == said[1]
    assert "Zero-Clause BSD" in (place / "static" / "htmx.LICENSE.txt").read_text()


def test_a_browser_keeps_static_files_and_asks_whether_they_are_the_same(app):
    first = Browser(app).get("/static/htmx.min.js")
    assert first.headers["cache-control"] == "no-cache"
    again = Browser(app).get("/static/htmx.min.js", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
