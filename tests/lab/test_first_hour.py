"""docs/first-hour.md on real hosts: its commands in its order, a second person in a real browser between them."""

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/first-hour.md").read_text()
STORES = "storage1,storage2"
PASSWORD = "several words that nobody else has"
START = 60.0

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


def section(number):
    """The commands below one heading of the page."""
    text = PAGE.split(f"## {number}. ")[1].split("\n## ")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]


@pytest.fixture(scope="module")
def console(lab, tmp_path_factory):
    """Stores, a controller and two tenants that write, as `./dev up` makes them; the console's address."""
    lab.kvctl("provision", "--yes", ok=None)
    lab.kvctl("lab", "connector")
    lab.kvctl("deploy", "storage", "--yes", "-l", STORES)
    log = (tmp_path_factory.mktemp("kvctld") / "log").open("w+")
    command = [sys.executable, "-c", "import sys; from kvctl.cli.kvctld import main; sys.exit(main())"]
    with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], env=lab.env, stderr=log, cwd="/") as kvctld:
        try:
            address = f"https://localhost:{port(kvctld, Path(log.name))}"
            lab.kvctl("tenant", "create", "acme", "--entity", "Acme SA", "--country", "FR")
            lab.kvctl("tenant", "create", "globex", "--entity", "Globex Inc", "--country", "US")
            lab.kvctl("policy", "apply", str(ROOT / "docs/policy.lab.yaml"), "--yes")
            for tenant, users in (("acme", ("alice", "bob")), ("globex", ("carol",))):
                named = [word for user in users for word in ("--user", user)]
                lab.kvctl("lab", "traffic", "--tenant", tenant, *named, "--controller", address)
            lab.kvctl("store", "sync")
            yield address
        finally:
            kvctld.terminate()
            kvctld.wait(START)
            for store in STORES.split(","):
                lab.on(store, "systemctl disable --now kvstored")  # others format its drives


def port(kvctld, log):
    end = time.monotonic() + START
    while time.monotonic() < end:
        for line in log.read_text().splitlines():
            if '"event": "serving"' in line:
                return json.loads(line)["port"]
        assert kvctld.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def run(lab, console):
    def run(line, ok=0, **names):
        words = [names.get(word, word) for word in shlex.split(line)]
        assert words[0] == "kvctl"
        return lab.kvctl(*words[1:], ok=(ok,))

    return run


def test_whose_bytes_are_where(run):
    usage, residency = map(run, section(1))
    assert {"acme", "globex"} <= set(usage.stdout.split())
    assert "residency acme v1: FR is in" in residency.stdout


def test_a_move_is_refused_and_the_rule_is_named(run):
    (line,) = section(2)
    refused = run(line, ok=7)
    assert "KV-TIER-003" in refused.stderr
    assert "residency acme v1: US is not in storage_countries [FR]" in refused.stderr


def test_a_second_person_approves_another_move_in_the_browser(run, console):
    account, propose, listed, move, moves = section(3)
    link = re.search(r"https://\S+/join/\S+", run(account).stdout).group()
    name = re.search(r"m-\d+-\w+", run(propose).stderr).group()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(ignore_https_errors=True)
        page.goto(link)
        page.get_by_label("Password").first.fill(PASSWORD)
        page.get_by_role("button", name="Set password").click()
        page.get_by_label("Name").fill("bob")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Approvals").click()
        page.get_by_role("link", name=re.compile(r"^a-\d+-")).first.click()
        page.get_by_role("button", name="Approve").click()
        page.get_by_role("status").wait_for()
        browser.close()
    assert "approved" in run(listed).stdout
    run(move, MOVE=name)
    until(lambda: "ended" in run(moves).stdout or "done" in run(moves).stdout)


def until(true):
    end = time.monotonic() + START
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_user_is_erased_with_a_receipt(run):
    erase, listed, receipt = section(4)
    erased = run(f"{erase} --yes")
    assert "not covered" in erased.stderr
    name = re.search(r"e-\d+-\w+", run(listed).stdout).group()
    assert "alice" not in run(receipt, ERASURE=name).stdout


def test_the_pack_verifies_with_python_and_one_package(run, tmp_path):
    verify, pack, *auditor = section(5)
    run(verify)
    run(pack.replace("packs", str(tmp_path / "packs")))
    (place,) = (tmp_path / "packs").iterdir()
    assert "cryptography" in auditor[1]
    done = subprocess.run(
        [sys.executable, "-I", place / "verify.py", place, "--key", place / "keys/site.pub"],
        capture_output=True, text=True, check=False, env={}, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "everything holds")
