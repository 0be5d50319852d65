"""The console in a real Chromium: every page as every role, and a second person who approves a move."""

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from kvctl.api.console import instead, pages
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import ApprovalList, HoldSet, TenantCreate, TierPropose
from tests.api.rig import PASSWORD, People, controller, listening
from tests.controller.policy_site import apply, put_copies

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN, Role.DPO}), fresh=True)
ROLES = [role for role in Role if role is not Role.SERVICE]
# Without the last three, Chromium looks for hosts of its maker's at every start.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def ctl(tmp_path_factory):
    with controller(tmp_path_factory.mktemp("browser")) as made:
        for tenant in ("acme", "globex"):
            made.call("tenant.create", ROOT, TenantCreate(tenant, f"{tenant} SA"))
        apply(made, who=ROOT)
        put_copies(made, 5)
        made.call("hold.set", ROOT, HoldSet("globex", "a lawsuit"))
        yield made


@pytest.fixture(scope="module")
def console(ctl, tmp_path_factory):
    people = People(**{role.name.lower(): role for role in ROLES})
    people.add("ann", Role.TENANT_ADMIN, tenant="acme")
    with listening(ctl, tmp_path_factory.mktemp("l"), accounts=people, pages=pages, instead=instead) as found:
        yield found.https


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def artefacts(tmp_path):
    place = Path(os.environ.get("KVCTL_ARTIFACTS") or tmp_path)
    place.mkdir(parents=True, exist_ok=True)
    return place


class Person:
    """Somebody at the console; what the browser complained about, and where it went besides."""

    def __init__(self, chromium, base, name):
        # The certificate is of a CA that this test's site has just made.
        context = chromium.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 900})
        self.page, self.base = context.new_page(), base
        self.complaints, self.elsewhere = [], []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda r: None if r.url.startswith(base) else self.elsewhere.append(r.url))
        self.page.goto(f"{base}/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{base}/")


def findings(page):
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS]


@pytest.mark.parametrize("name", [*(role.name.lower() for role in ROLES), "ann"])
def test_every_page_of_a_role_is_clean(chromium, console, artefacts, name):
    person = Person(chromium, console, name)
    links = person.page.locator("nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert "/" in links
    seen = {}
    for path in links:
        person.page.goto(console + path)
        assert person.page.locator("h1").is_visible()
        seen[path] = findings(person.page)
        person.page.screenshot(path=artefacts / f"{name}-{path.strip('/') or 'posture'}.png", full_page=True)
    assert {path: bad for path, bad in seen.items() if bad} == {}
    assert person.complaints == []
    assert person.elsewhere == []
    person.page.context.close()


def test_a_second_person_approves_a_move_in_the_browser(chromium, console, ctl, artefacts):
    ctl.call("tier.propose", ROOT, TierPropose("acme", "flash", "disk", reason="make room"))
    person = Person(chromium, console, "approver")
    person.page.goto(f"{console}/approvals")
    person.page.get_by_role("button", name="Look and vote").first.click()
    person.page.get_by_text("payload_sha256").first.wait_for()
    person.page.get_by_role("button", name="Approve").click()
    person.page.get_by_role("heading", name="approve: vote").wait_for()
    person.page.get_by_role("status").wait_for()
    person.page.screenshot(path=artefacts / "approved.png")
    states = [one["state"] for one in ctl.call("approve.ls", ROOT, ApprovalList())["approvals"]]
    assert states == ["approved"]
    assert person.complaints == []
    person.page.context.close()
