"""Signing in and approving with an OpenID provider, in a real Chromium on a real kvctld: the cookies that a browser
sends, and does not send, on the way back from another site are what this is about."""

import json
import re
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from kvctl.client.choose import site_settings
from kvctl.controller.core import opened
from kvctl.controller.settings import read
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountCreate, ApprovalList, AuditLog, TenantCreate, TierPropose
from tests.api.openid import OpenId
from tests.controller.kvctld import served
from tests.controller.policy_site import apply, put_copies

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN, Role.DPO}), fresh=True)
SUB = "4f1c2a7e"


@pytest.fixture(scope="module")
def idp(tmp_path_factory):
    with OpenId(tmp_path_factory.mktemp("idp")) as made:
        yield made


@pytest.fixture(scope="module")
def kvctld(tmp_path_factory, idp):
    folder = tmp_path_factory.mktemp("k")
    settings = folder / "local" / "controller.yaml"

    def say(console):
        settings.write_text(json.dumps({"oidc": idp.settings(console)}))

    settings.parent.mkdir()
    say("https://localhost:1")
    with opened(site_settings(None, folder)) as made:
        made.call("tenant.create", ROOT, TenantCreate("acme", "acme SA", "FR", quota_bytes=2**40))
        apply(made, who=ROOT)
        put_copies(made, 5)
        assert read(made.directory, site="local").oidc
        made.call("account.create", ROOT, AccountCreate("anna", ["approver"], oidc_subject=SUB))
        made.call("account.create", ROOT, AccountCreate("bob", ["approver"]))
    with served(folder) as daemon:
        say(f"https://localhost:{daemon.port}")
        yield daemon


@pytest.fixture
def page(chromium, console, idp):
    idp.fair()
    idp.ask = True
    context = chromium.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints, elsewhere = [], []
    page.on(
        "console", lambda m: complaints.append(f"{m.text} {m.location}") if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    ours = (console + "/", idp.issuer.removesuffix("realm"))
    page.on("request", lambda r: None if r.url.startswith(ours) else elsewhere.append(r.url))
    yield page
    context.close()
    assert elsewhere == []
    page.complaints = [one for one in complaints if "status of 403" not in one]  # of pages that refuse, on purpose
    assert page.complaints == []


def sign_in(page, console):
    page.goto(f"{console}/")
    page.get_by_role("link", name="Sign in with Example").click()
    page.get_by_role("link", name=re.compile("Sign in as")).click()


def serious(page):
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")]


def test_somebody_signs_in_at_the_provider_and_approves_with_step_up(page, console, kvctld, idp, artefacts):
    asked = kvctld.client.call("tier.propose", TierPropose("acme", "flash", "disk", reason="make room"))
    idp.since = time.time() - 3600  # somebody who signed in at the provider this morning
    page.goto(f"{console}/login")
    expect(page.get_by_label("Password")).to_be_visible()
    assert serious(page) == []
    page.screenshot(path=artefacts / "oidc-login.png")
    sign_in(page, console)
    page.wait_for_url(f"{console}/")
    expect(page.locator(".me")).to_contain_text("local:anna")
    page.goto(f"{console}/access")
    expect(page.locator("#you")).to_contain_text("asked again")
    expect(page.locator("#you").get_by_label("password")).to_have_count(0)
    assert serious(page) == []
    page.goto(f"{console}/approvals/{asked['approval']}")
    page.get_by_label("Reason").fill("room is needed")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("KV-API-003")).to_be_visible()
    expect(page.locator("main input[type=password]")).to_have_count(0)
    assert serious(page) == []
    page.screenshot(path=artefacts / "oidc-step-up.png")
    idp.since = None
    page.get_by_role("link", name="Confirm at the provider").click()
    expect(page.get_by_role("heading", name="Provider")).to_be_visible()
    page.get_by_role("link", name=re.compile("Sign in as")).click()
    page.wait_for_url(f"{console}/confirmed/*")
    expect(page.locator("main")).to_contain_text("room is needed")
    assert serious(page) == []
    page.screenshot(path=artefacts / "oidc-confirmed.png")
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_role("status")).to_contain_text("Done.")
    shown = kvctld.client.call("approve.ls", ApprovalList())["approvals"]
    (one,) = [each for each in shown if each["id"] == asked["approval"]]
    assert [vote["voter"] for vote in one["votes"]] == ["local:anna"] if "votes" in one else one["yes"] == 1
    kinds = [event["kind"] for event in kvctld.client.call("audit.log", AuditLog(kind="session.*"))["events"]]
    assert set(kinds) == {"session.opened", "session.confirmed"}
    page.goto(f"{console}/access")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{console}/login")


def test_a_step_up_that_the_provider_answers_from_memory_leaves_the_session_as_it_was(page, console, idp):
    idp.since = time.time() - 3600
    sign_in(page, console)
    page.wait_for_url(f"{console}/")
    page.goto(f"{console}/access")
    page.get_by_role("link", name="Confirm at the provider now").click()
    page.get_by_role("link", name=re.compile("Sign in as")).click()
    expect(page.get_by_text("KV-API-090")).to_be_visible()
    page.get_by_role("link", name="Back to your session").click()
    expect(page.locator("#you")).to_contain_text("asked again")


def test_a_stranger_sees_what_an_administrator_must_bind(page, console, idp, artefacts):
    idp.subject = "somebody-new"
    sign_in(page, console)
    expect(page.get_by_text("KV-API-085")).to_be_visible()
    expect(page.locator("main")).to_contain_text(f"issuer {idp.issuer}, subject somebody-new")
    expect(page.locator("main")).to_contain_text("--oidc-subject somebody-new")
    assert serious(page) == []
    page.screenshot(path=artefacts / "oidc-stranger.png")
    page.goto(f"{console}/")
    page.wait_for_url(f"{console}/login")
