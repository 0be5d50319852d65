"""kvctl retention, hold, erase, usage, store sync and compare: what each prints and with which code it ends."""

import json

import duckdb
import pytest

from tests.cli.governed import Kvctl
from tests.controller.stores import ALICE, Store, key, serving


@pytest.fixture
def store(tmp_path):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as made:
        yield made


@pytest.fixture
def kvctl(tmp_path, store):
    made = Kvctl(tmp_path)
    made.site.mkdir(parents=True)
    (made.site / "controller.yaml").write_text(json.dumps({"stores": {"s1": {"admin": store.settings.admin}}}))
    made("tenant", "create", "acme", "--entity", "Acme SAS")
    return made


def test_a_catalogue_that_was_edited_is_found_by_a_comparison(kvctl, store):
    store.put("a")
    assert "would be compared" in kvctl("store", "compare", "--dry-run").stdout
    kvctl("store", "compare")
    with duckdb.connect(str(kvctl.site / "governance.duckdb")) as db:
        db.execute("UPDATE chunks SET subject = 'somebody'")
    found = kvctl.document("store", "compare", "s1", code=3)["stores"]
    assert [(one["store"], one["unlike"], one["finding"]) for one in found] == [("s1", 1, True)]
    assert not kvctl.document("store", "compare", "s1")["stores"][0]["finding"]


def test_sync_then_plan_then_apply(kvctl, store):
    store.put("ended", expires_at=1)
    store.put("kept")
    assert "its" not in kvctl("retention", "plan", code=5).stdout  # never read: not known
    assert kvctl("store", "sync").stdout.split()[6:9] == ["s1", "ok", "2"]
    plan = kvctl.document("retention", "plan", "--items", "5")
    assert [row["key"] for row in plan["items"]] == [key("ended")]
    assert "GOES" in kvctl("retention", "plan").stdout
    assert "GOES" in kvctl("retention", "apply", "--dry-run").stdout
    assert len(store.chunks) == 2
    assert "KV-CLI-004" in kvctl("retention", "apply", code=2).stderr
    kvctl("retention", "apply", "--yes")
    assert [name[4] for name in store.chunks] == [key("kept")]
    shown = kvctl("retention", "explain", "acme", key("kept")[:10])
    assert "no policy was in force" in shown.stdout
    assert "hold: does not decide" in shown.stderr


def test_a_hold_by_a_users_id_from_a_file_that_is_printed_nowhere(kvctl, store, tmp_path):
    (tmp_path / "user").write_text("alice@example.org\n")
    done = kvctl("hold", "set", "acme", "--reason", "case 7", "--user-file", str(tmp_path / "user"))
    assert "alice" not in done.stdout + done.stderr
    assert len(store.holds["holds"]) == 1
    (held,) = kvctl.document("hold", "ls")["holds"]
    assert held["subject"] == store.holds["holds"][0]["subject"]
    asked = kvctl("hold", "lift", "acme", held["id"], "--reason", "closed", "--yes")
    assert "is pending" in asked.stderr
    assert "KV-CLI-012" in kvctl("hold", "set", "acme", "--reason", "x", "--user-file", "-", code=2).stderr
    store.broken.add("holds")
    assert "NOT YET" in kvctl("hold", "set", "acme", "--reason", "x", code=5).stdout


def test_erasing_a_user_asks_and_ends_with_a_receipt(kvctl, store, tmp_path):
    store.put("a")
    kvctl("store", "sync")
    assert "not covered" in kvctl("erase", "subject", "acme", "--subject", ALICE, "--dry-run").stderr
    kvctl("erase", "subject", "acme", "--subject", ALICE, code=2)
    assert len(store.chunks) == 1
    kvctl("erase", "subject", "acme", "--subject", ALICE, "--yes")
    assert store.chunks == {}
    (row,) = kvctl.document("erase", "ls")["erasures"]
    assert row["outcome"] == "erased"
    shown = kvctl("erase", "receipt", row["id"], "--proof", str(tmp_path / "proof"))
    assert json.loads(shown.stdout)["receipt"]["schema"] == "kvctl.erasure-receipt/1"
    assert (tmp_path / "proof").read_text() == json.loads(shown.stdout)["proof"]


def test_erasing_a_tenant_needs_its_name_typed(kvctl, store):
    assert "KV-CLI-004" in kvctl("erase", "tenant", "acme", code=2).stderr
    assert "KV-CLI-013" in kvctl("erase", "tenant", "acme", "--confirm", "acm", code=2).stderr
    kvctl("erase", "tenant", "acme", typed=("beta",), code=130)
    assert kvctl.document("erase", "ls")["erasures"] == []
    assert "erased" in kvctl("erase", "tenant", "acme", typed=("acme",)).stderr


def test_codes_tell_open_and_restricted_apart(kvctl, store):
    store.put("a")
    kvctl("hold", "set", "acme", "--reason", "case", "--subject", ALICE)
    kvctl("erase", "subject", "acme", "--subject", ALICE, "--yes", code=7)
    store.broken.add("probe")
    kvctl("erase", "tenant", "acme", "--confirm", "acme", code=5)


def test_usage_shows_bytes_and_says_who_was_not_read(kvctl, store):
    assert "never read" in kvctl("usage", code=5).stderr
    store.put("a")
    kvctl("store", "sync")
    assert kvctl("usage", "-o", "csv").stdout.splitlines()[1] == "acme,s1,flash,1,100"
