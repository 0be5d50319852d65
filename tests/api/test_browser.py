"""The console in a real Chromium on a real kvctld: every page as every role, by keyboard, live, and without script."""

import fcntl
import os
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from kvctl.client.choose import site_settings
from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.controller.accounts import Accounts
from kvctl.controller.core import opened
from kvctl.fleet.remote.journal import LOCK, Journal
from kvctl.types.chunks import Ack, Meta
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    AccountCreate,
    ApprovalList,
    AuditRun,
    EraseSubject,
    HoldSet,
    KeyCreate,
    StoreNamed,
    TenantCreate,
    TierPropose,
)
from tests.api.rig import PASSWORD
from tests.controller.kvctld import served
from tests.controller.policy_site import apply, put_copies
from tests.store.daemon import SCOPE, Daemon

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN, Role.DPO}), fresh=True)
PEOPLE = {str(role): [str(role)] for role in Role if role is not Role.SERVICE} | {"chief": ["operator", "admin", "dpo"]}
SERIOUS = ("serious", "critical")
CHUNKS, SIZE = 12, 500_000
NARROW = {"width": 375, "height": 720}


RUN, FAILED_RUN = "r-20260101-000000-aaaa", "r-20260101-000000-bbbb"
STEPS = [{"id": f"s0{i}", "node": f"n{i}", "role": "host", "verb": "apply"} for i in (1, 2, 3)]


def furnish(made):
    """A site with something on every page."""
    for tenant in ("acme", "globex"):
        made.call("tenant.create", ROOT, TenantCreate(tenant, f"{tenant} SA", "FR", quota_bytes=2**40))
    apply(made, who=ROOT)
    put_copies(made, 5)
    put_copies(made, 3, tenant="globex", store="s2", first=20)
    made.call("key.create", ROOT, KeyCreate("acme", label="prod"))
    made.call("hold.set", ROOT, HoldSet("globex", "a lawsuit"))
    made.call("tier.propose", ROOT, TierPropose("acme", "flash", "disk", reason="make room"))
    made.call("erase.subject", ROOT, EraseSubject("acme", user="u1"))
    made.call("audit.run", ROOT, AuditRun("gdpr"))
    with Journal(made.directory / "runs" / FAILED_RUN) as log:
        log.append("run.started", plan="p-1", steps=STEPS)
        log.append("step.failed", step="s01", node="n1", error={"code": "KV-RUN-020", "what": "it changed", "why": "x"})
        log.append("run.finished", state="failed")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that holds some of acme's chunks on flash, and has room on disk."""
    folder = tmp_path_factory.mktemp("s")
    for tier in ("flash", "disk"):
        (folder / tier).mkdir()
    tiers = {tier: {"mounts": [{"path": f"{folder}/{tier}", "capacity": "256MiB"}]} for tier in ("flash", "disk")}
    daemon = Daemon(folder, module="kvctl.store.main", tiers=tiers).start()
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    lease = KeyLease(RootKey(SCOPE, os.urandom(32)), daemon.token(scope=SCOPE), 2**40)
    for number in range(CHUNKS):
        client.put(lease, number.to_bytes(32, "big"), os.urandom(SIZE), Meta(position=number), Ack.DURABLE)
    client.close()
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def kvctld(tmp_path_factory, store):
    folder = tmp_path_factory.mktemp("k")
    with opened(site_settings(None, folder)) as made:
        furnish(made)
        accounts = Accounts(made.books)
        for name, roles in PEOPLE.items():
            tenant = "acme" if "tenant-admin" in roles else None
            answer = made.call("account.create", ROOT, AccountCreate(name, roles, tenant))
            accounts.redeem(answer["link"].removeprefix("/join/"), PASSWORD)
    (folder / "local" / "controller.yaml").write_text(f"stores:\n  s1: {{admin: 'unix:{store.folder}/admin.sock'}}\n")
    with served(folder) as daemon:
        yield daemon


class Person:
    """Somebody at the console; what the browser complained about, and where it went besides."""

    def __init__(self, chromium, base, name, **context):
        # The certificate is of a CA that this test's site has just made.
        settings = {"viewport": {"width": 1280, "height": 900}, **context}
        self.context = chromium.new_context(ignore_https_errors=True, **settings)
        self.page, self.base = self.context.new_page(), base
        self.complaints, self.elsewhere = [], []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda r: None if r.url.startswith(base) else self.elsewhere.append(r.url))
        self.page.goto(f"{base}/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{base}/")

    def go(self, path):
        self.page.goto(self.base + path)
        expect(self.page.locator("h1")).to_be_visible()

    def pages(self):
        """Goes to every page of the menu, and of each kind of page below them to one: their paths."""
        self.go("/")
        below, waiting = set(), hrefs(self.page, "nav[aria-label=Pages] a")
        while waiting:
            path = waiting.pop(0)
            self.go(path)
            for href in hrefs(self.page, "main td a, main dd a"):
                kind = re.match(r"/(tenants|approvals|erasure|fleet/runs)/[^?]+$", href)
                if kind and kind[1] not in below:
                    below.add(kind[1])
                    waiting.append(href)
            yield path

    def leave(self):
        assert self.complaints == []
        assert self.elsewhere == []
        self.context.close()


def hrefs(page, selector):
    return page.locator(selector).evaluate_all("links => links.map(link => link.getAttribute('href'))")


def findings(page):
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS]


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def name_of(path):
    return re.sub(r"\W+", "-", re.sub(r"[aeh]-\d{8}-\w+", "one", path.strip("/"))) or "posture"


def walk(person, artefacts, prefix):
    seen = {}
    for path in person.pages():
        seen[path] = findings(person.page)
        if overflow(person.page) > 0:
            seen[path].append("the page scrolls sideways")
        person.page.screenshot(path=artefacts / f"{prefix}-{name_of(path)}.png", full_page=True)
    assert {path: bad for path, bad in seen.items() if bad} == {}
    return list(seen)


@pytest.mark.parametrize("name", PEOPLE)
def test_every_page_of_a_role_is_clean(chromium, console, artefacts, name):
    person = Person(chromium, console, name)
    paths = walk(person, artefacts, name)
    assert {"/", "/access"} <= set(paths)
    if name == "chief":
        assert len(paths) == 11 + 4, paths
    person.leave()


@pytest.mark.parametrize(("look", "context"), [
    ("dark", {"color_scheme": "dark"}), ("narrow", {"viewport": NARROW}),
    ("narrow-dark", {"viewport": NARROW, "color_scheme": "dark"}), ("forced", {"forced_colors": "active"}),
])  # fmt: skip
def test_every_page_is_clean_in_every_look(chromium, console, artefacts, look, context):
    person = Person(chromium, console, "chief", **context)
    walk(person, artefacts, look)
    person.leave()


def test_the_menu_opens_on_a_narrow_page(chromium, console):
    person = Person(chromium, console, "chief", viewport=NARROW)
    menu = person.page.locator("nav[aria-label=Pages]")
    expect(menu).not_to_be_visible()
    person.page.get_by_role("button", name="Menu").click()
    expect(menu).to_be_visible()
    person.page.get_by_role("link", name="Audit log").click()
    expect(person.page.get_by_role("heading", name="Audit log", level=1)).to_be_visible()
    person.leave()


def test_the_console_without_script(chromium, console, kvctld, artefacts):
    person = Person(chromium, console, "chief", java_script_enabled=False)
    for link in person.page.locator("nav[aria-label=Pages] a").all():
        assert link.get_attribute("href")
    for path in (
        "/",
        "/fleet",
        "/tenants",
        "/tenants/acme",
        "/residency",
        "/retention",
        "/erasure",
        "/moves",
        "/audit",
    ):
        person.go(path)
        expect(person.page.locator("main section").first).to_be_visible()
    person.page.get_by_label("Kind").fill("tenant.*")
    person.page.get_by_role("button", name="Filter").click()
    expect(person.page.locator("tbody tr")).to_have_count(2)
    person.go("/tenants")
    person.page.get_by_text("Take a tenant in", exact=True).click()
    person.page.get_by_label("Name").fill("initech")
    person.page.get_by_label("Legal entity").fill("Initech GmbH")
    person.page.get_by_role("button", name="Take in").click()
    expect(person.page.get_by_role("status")).to_contain_text("Done.")
    person.page.screenshot(path=artefacts / "no-script-outcome.png", full_page=True)
    person.go("/tenants/initech")
    expect(person.page.get_by_role("heading", name="initech")).to_be_visible()
    person.leave()


def test_what_happens_is_seen_without_a_reload(chromium, console, kvctld):
    person = Person(chromium, console, "approver")
    page = person.page
    person.go("/approvals")
    page.evaluate("window.same = true")
    expect(page.locator("#live")).to_have_text(re.compile("Live"))
    before = page.locator("#waits-for-approval tbody tr").count()
    asked = kvctld.client.call("tier.propose", TierPropose("acme", "flash", "disk", reason="seen live"))
    expect(page.locator("#waits-for-approval")).to_contain_text(asked["approval"], timeout=20_000)
    expect(page.locator("#waiting")).to_contain_text(str(before + 1))
    assert page.evaluate("window.same")
    person.go("/audit")
    page.evaluate("window.same = true")
    expect(page.locator("#live")).to_have_text(re.compile("Live"))
    kvctld.client.call("key.create", KeyCreate("acme", label="seen in the tail"))
    expect(page.locator("#events tbody tr").first).to_contain_text("key.created", timeout=20_000)
    page.get_by_label("Kind").fill("approval.*")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#events tbody")).not_to_contain_text("key.created")
    assert page.evaluate("window.same"), "a filter reads its table alone"
    assert "kind=approval" in page.url
    page.go_back()
    expect(page.locator("#events tbody")).to_contain_text("key.created")
    expect(page.locator("#live")).to_have_text(re.compile("Live"))  # the page that was read again listens, too
    page.go_forward()
    expect(page.locator("#events tbody")).not_to_contain_text("key.created")
    person.leave()


def test_a_run_shows_how_far_it_is_without_a_reload(chromium, console, kvctld, artefacts):
    person = Person(chromium, console, "operator")
    page = person.page
    folder = kvctld.directory / "runs" / RUN
    with Journal(folder) as log, (folder / LOCK).open("w") as lock:
        lock.write('{"pid": 1}')
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)  # as whoever is at work on a run does
        log.append("run.started", plan="p-1", steps=STEPS)
        log.append("step.finished", step="s01", node="n1", changed=[])
        person.go(f"/fleet/runs/{RUN}")
        page.evaluate("window.same = true")
        expect(page.locator("#run")).to_contain_text("running")
        expect(page.locator("#run")).to_contain_text("1 of 3")
        page.screenshot(path=artefacts / "run.png", full_page=True)
        log.append("step.finished", step="s02", node="n2", changed=[])
        expect(page.locator("#run")).to_contain_text("2 of 3", timeout=20_000)
        log.append("step.finished", step="s03", node="n3", changed=[])
        log.append("run.finished", state="finished")
    expect(page.locator("#run")).to_contain_text("finished", timeout=20_000)
    assert page.evaluate("window.same")
    person.leave()


def tab_to(page, words):
    """Press Tab until what has the focus says these words; it must show that it has it."""
    for _ in range(300):
        page.keyboard.press("Tab")
        said = page.evaluate("document.activeElement.matches('a, button, summary') && document.activeElement.innerText")
        if said and words in said:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"{words} does not show its focus"
            return
    raise AssertionError(f"the keyboard does not reach {words!r}")


def test_a_second_person_approves_a_move_by_keyboard_alone(chromium, console, kvctld, artefacts):
    asked = kvctld.client.call("tier.propose", TierPropose("acme", "flash", "disk", reason="by keyboard"))
    person = Person(chromium, console, "approver")
    page = person.page
    person.go("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    tab_to(page, asked["approval"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console}/approvals/{asked['approval']}")
    expect(page.locator("main")).to_contain_text(asked["payload_sha256"])
    tab_to(page, "Approve")
    page.screenshot(path=artefacts / "approval-by-keyboard.png")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Done.")
    page.screenshot(path=artefacts / "approved.png")
    shown = kvctld.client.call("approve.ls", ApprovalList("approved"))["approvals"]
    assert asked["approval"] in [one["id"] for one in shown]
    person.leave()


def test_a_move_is_approved_carried_out_and_seen_to_its_end(chromium, console, kvctld, store, artefacts):
    synced = kvctld.client.call("store.sync", StoreNamed())["stores"]
    assert [one["state"] for one in synced] == ["ok"], synced
    asked = kvctld.client.call("tier.propose", TierPropose("acme", "flash", "disk", store="s1", reason="room"))
    assert asked["impact"]["chunks"] == CHUNKS
    approver, operator = Person(chromium, console, "approver"), Person(chromium, console, "operator")
    for person, button in ((approver, "Approve"), (operator, "Carry out")):
        person.go(f"/approvals/{asked['approval']}")
        person.page.get_by_role("button", name=button).click()
        expect(person.page.get_by_role("status")).to_contain_text("Done.")
    operator.go("/moves")
    row = operator.page.locator("tr", has_text=asked["move"])
    expect(row).to_contain_text("done", timeout=60_000)
    expect(row).to_contain_text(f"{CHUNKS}")
    operator.page.screenshot(path=artefacts / "moved.png", full_page=True)
    store.admin("POST", "/v1/flush")
    tiers = {tier["name"]: tier["chunks"] for tier in store.admin("GET", "/v1/stat")[1]["tiers"]}
    assert tiers == {"flash": 0, "disk": CHUNKS}
    approver.leave()
    operator.leave()


def test_a_receipt_prints_without_the_frame(chromium, console, artefacts):
    person = Person(chromium, console, "chief")
    person.go("/erasure")
    person.page.locator("main td a[href^='/erasure/e-']").first.click()
    expect(person.page.get_by_role("heading", name="Not covered")).to_be_visible()
    person.page.emulate_media(media="print")
    expect(person.page.get_by_role("heading", name="Not covered")).to_be_visible()
    expect(person.page.locator("nav[aria-label=Pages]")).not_to_be_visible()
    (artefacts / "receipt.pdf").write_bytes(person.page.pdf())
    person.leave()


def test_a_pack_is_run_seen_and_downloaded(chromium, console, artefacts):
    person = Person(chromium, console, "auditor")
    person.go("/packs")
    person.page.get_by_role("button", name="Run gdpr").click()
    expect(person.page.get_by_role("heading", level=1)).to_have_text(re.compile("Run a pack"))
    with person.page.expect_download() as waited:
        person.page.get_by_role("link", name="Download the pack").click()
    assert waited.value.suggested_filename.endswith("-gdpr.zip")
    person.page.screenshot(path=artefacts / "pack.png", full_page=True)
    person.leave()


def test_a_failed_sign_in_keeps_the_form_and_a_link_sets_a_password(chromium, console, kvctld):
    link = kvctld.client.call("account.create", AccountCreate("new-one", ["viewer"]))["link"]
    context = chromium.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(console + link)
    page.get_by_label("Password").fill("a password that is long")
    page.get_by_role("button", name="Set password").click()
    page.wait_for_url(f"{console}/login")
    page.get_by_label("Name").fill("new-one")
    page.get_by_label("Password").fill("not that one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("KV-API-062")
    expect(page.get_by_label("Name")).to_have_value("new-one")
    assert findings(page) == []
    page.get_by_label("Password").fill("a password that is long")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{console}/")
    context.close()
