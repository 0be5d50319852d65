"""kvctl approve: people with passwords vote on what they see."""

import pytest

from tests.cli.governed import PASSWORD, Kvctl
from tests.controller.policy_site import POLICY


@pytest.fixture
def kvctl(tmp_path):
    made = Kvctl(tmp_path)
    made("policy", "apply", made.file(POLICY), "--yes")
    made.people("ann", "bob")
    return made


def ask(kvctl, countries):
    file = kvctl.file(POLICY.replace("[FR, DE]", countries))
    return kvctl.document("policy", "apply", file, "--yes", "--reason", "contract 14")["approval"]


def test_two_people_put_a_weakening_in_force(kvctl):
    one = ask(kvctl, "[FR, DE, US]")
    listed = kvctl("approve", "ls", "--state", "pending").stdout
    assert one in listed
    assert "contract 14" in listed
    shown = kvctl("approve", "show", one).stdout
    assert "storage_countries" in shown
    assert "impact" in shown
    seen = kvctl.document("approve", "show", one)["payload_sha256"]
    assert "KV-API-001" in kvctl("approve", "yes", one, "--yes", code=7).stderr
    first = kvctl("approve", "yes", one, "--as", "ann", "--payload", seen, typed=(PASSWORD, "y"))
    assert f"{one}: pending" in first.stderr
    assert PASSWORD not in first.stdout + first.stderr
    assert "KV-APP-005" in kvctl("approve", "yes", one, "--as", "ann", "--yes", typed=(PASSWORD,), code=7).stderr
    assert "executed" in kvctl("approve", "yes", one, "--as", "bob", "--yes", typed=(PASSWORD,)).stderr
    assert kvctl.document("policy", "show")["residency"][0]["approval"] == one
    assert "local:ann: yes" in kvctl("approve", "show", one).stdout


def test_what_was_seen_is_what_is_voted_on(kvctl):
    one = ask(kvctl, "[FR]")
    done = kvctl("approve", "no", one, "--as", "ann", "--payload", "0" * 64, "--yes", typed=(PASSWORD,), code=7)
    assert "KV-APP-014" in done.stderr
    assert "KV-CLI-010" in kvctl("approve", "no", one, "--as", "ann", "--yes", code=2).stderr
    kvctl("approve", "no", one, "--as", "ann", typed=(PASSWORD, "n"), code=130)
    assert kvctl.document("approve", "show", one)["state"] == "pending"
    assert "rejected" in kvctl("approve", "no", one, "--as", "ann", "--yes", typed=(PASSWORD,)).stderr


def test_what_is_not_what_was_approved_any_more_is_exit_code_7(kvctl):
    first, second = ask(kvctl, "[FR]"), ask(kvctl, "[DE]")
    kvctl("approve", "yes", first, "--as", "ann", "--yes", typed=(PASSWORD,))
    done = kvctl("approve", "yes", second, "--as", "ann", "--yes", typed=(PASSWORD,), code=7)
    assert f"{second}: aborted" in done.stderr
    assert "ended because" in kvctl("approve", "show", second).stdout
