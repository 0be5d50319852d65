"""kvctl policy, over a state directory of its own."""

import pytest

from tests.cli.governed import Kvctl
from tests.controller.policy_site import POLICY


@pytest.fixture
def kvctl(tmp_path):
    return Kvctl(tmp_path)


def test_a_policy_is_looked_at_put_in_force_and_shown(kvctl):
    file = kvctl.file(POLICY)
    dry = kvctl("policy", "apply", file, "--dry-run")
    assert "would be in force" in dry.stderr
    assert "initial" in dry.stdout
    assert "no residency in force" in kvctl("policy", "show").stderr
    assert "KV-CLI-004" in kvctl("policy", "apply", file, code=2).stderr
    assert "in force" in kvctl("policy", "apply", file, "--yes").stderr
    assert "no changes" in kvctl("policy", "apply", file, "--yes").stderr
    shown = kvctl("policy", "show").stdout
    assert "DE FR" in shown
    assert "30d" in shown
    document = kvctl.document("policy", "show", "--tenant", "acme")
    assert document["schema"] == "kvctl.policy.show/1"
    assert [row["version"] for row in document["residency"]] == [1]
    assert kvctl.document("policy", "show", "--at", "2020-01-01")["residency"] == []


def test_what_needs_others_says_so_before_it_asks(kvctl):
    kvctl("policy", "apply", kvctl.file(POLICY), "--yes")
    wider = kvctl.file(POLICY.replace("[FR, DE]", "[FR, DE, US]"))
    asked = kvctl("policy", "apply", wider, typed=("n",), code=130).stderr
    assert "weakening: residency acme: storage_countries [DE FR] -> [DE FR US]" in asked
    assert "needs 2 votes of others" in asked
    done = kvctl("policy", "apply", wider, "--yes").stderr
    assert "kvctl approve show a-" in done
    assert "0 accounts beside yours" in done


def test_a_file_that_is_wrong_is_exit_code_2_with_its_line(kvctl):
    done = kvctl("policy", "apply", kvctl.file(POLICY.replace("country: US, entity", "country: usa, entity")), code=2)
    assert "KV-POL-003" in done.stderr
    assert "line 8 (sites[2]): 'usa' is no country" in done.stderr
