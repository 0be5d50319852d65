"""The console's pages: everyone sees what their role may see, and nobody anything."""

import re

import pytest

from kvctl.api.app import create_app
from kvctl.api.console import instead, pages, read
from kvctl.api.menu import may
from kvctl.api.screens import PAGES
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import ApprovalList, TenantCreate, TierPropose
from tests.api.rig import PASSWORD, Browser, People, controller
from tests.controller.policy_site import apply, put_copies

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
NASTY = "zz-marker"
ENTITY = "<script>alert(1)</script>"
HTML = {"accept": "text/html"}
ROLES = [role for role in Role if role is not Role.SERVICE]


@pytest.fixture(scope="module")
def ctl(tmp_path_factory):
    with controller(tmp_path_factory.mktemp("console")) as made:
        for tenant in ("acme", NASTY):
            made.call("tenant.create", ROOT, TenantCreate(tenant, ENTITY))
        yield made


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


@pytest.mark.parametrize("path", [p.path for p in PAGES])
def test_nobody_is_sent_to_the_sign_in(app, path):
    answer = page(Browser(app), path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("role", ROLES)
def test_every_page_as_every_role(app, role):
    browser = signed_in(app, role.name.lower())
    who = Principal("x", frozenset({role}))
    for one in PAGES:
        answer = page(browser, one.path)
        allowed = one.path == "/" or one.open_to(who)
        assert answer.status_code == (200 if allowed else 403), one.path
        assert "<script" not in answer.text
        if allowed:
            assert [f.label in answer.text for f in one.forms if not may(who, f.operation)] == [
                False for f in one.forms if not may(who, f.operation)
            ]


def test_every_table_has_the_columns_that_its_operation_gives(app, ctl):
    """A list that an operation does not have would show as empty for ever."""
    everything = Principal("unix:root", frozenset(Role) - {Role.SERVICE}, fresh=True)
    for one in PAGES:
        for part in one.parts:
            if OPERATIONS[part.operation].name == "fleet.status":
                continue  # needs an inventory
            found = ctl.call(part.operation, everything, OPERATIONS[part.operation].request())
            assert part.rows in found, (one.path, part.operation, sorted(found))
            for row in found[part.rows][:1]:
                assert set(part.columns) <= set(row), (one.path, part.operation, sorted(row))


def test_a_tenants_person_sees_no_byte_of_another_tenant(app):
    browser = signed_in(app, "ann")
    texts = [page(browser, one.path).text for one in PAGES]
    assert any("acme" in text for text in texts)
    assert [text for text in texts if NASTY in text] == []


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
    apply(ctl, who=ROOT)
    put_copies(ctl, 3)
    ctl.call("tier.propose", ROOT, TierPropose("acme", "flash", "disk"))
    browser = signed_in(app, "approver")
    listed = page(browser, "/approvals").text
    assert "approve.vote" not in listed
    assert "tier.move" in page(browser, "/").text
    (row,) = ctl.call("approve.ls", ROOT, ApprovalList())["approvals"]
    shown = form(browser, "/do/approve.show", approval=row["id"])
    assert row["payload_sha256"] in shown.text
    form(browser, "/do/approve.vote", approval=row["id"], payload_sha256=row["payload_sha256"], decision="no")
    assert "tier.move" not in page(browser, "/").text, "what is decided does not wait"


def test_what_destroys_is_shown_before_it_can_be_done(app):
    browser = signed_in(app, "dpo")
    text = page(browser, "/erasure").text
    erase = text[text.index("Erase a user") : text.index("Erase all of a tenant")]
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
    assert "/join/" in done.text
    assert "/join/" not in page(browser, "/access").text
