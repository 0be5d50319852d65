"""kvctl residency, over a state directory of its own."""

import pytest

from tests.cli.governed import Kvctl
from tests.controller.policy_site import POLICY, put_copies


@pytest.fixture
def kvctl(tmp_path):
    made = Kvctl(tmp_path)
    made("policy", "apply", made.file(POLICY), "--yes")
    with made.opened() as ctl:
        put_copies(ctl, 3)
        put_copies(ctl, 2, store="s2", first=10)
    return made


def test_inside_is_exit_code_0_and_outside_3(kvctl):
    done = kvctl("residency", "now")
    assert "residency acme v1: FR is in storage_countries" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100
    with kvctl.opened() as ctl:
        put_copies(ctl, 1, tier="object", first=20)
    document = kvctl.document("residency", "now", "--tenant", "acme", code=3)
    assert document["totals"]["outside"] == {"chunks": 1, "bytes": 100}
    done = kvctl("residency", "now", "--outside", code=3)
    assert len(done.stdout.splitlines()) >= 2
    assert "1 copies, 100 bytes are outside" in done.stderr


def test_whatif_says_what_would_be_outside(kvctl):
    narrow = kvctl.file(POLICY.replace("[FR, DE]", "[FR]"))
    done = kvctl("residency", "whatif", narrow, code=3)
    assert "tightening" in done.stdout
    assert "outside: 0 copies now, 2 under this policy" in done.stderr
    (row,) = kvctl.document("residency", "whatif", narrow, code=3)["by_country"]
    assert (row["country"], row["chunks"]) == ("DE", 2)
    kvctl("residency", "whatif", kvctl.file(POLICY))


def test_history_needs_a_time_and_answers_for_it(kvctl):
    kvctl("residency", "history", "acme", code=2)
    assert "KV-POL-005" in kvctl("residency", "history", "acme", "--at", "then", code=2).stderr
    document = kvctl.document("residency", "history", "acme", "--at", "2026-01-02", code=3)
    assert document["policy"] is None
    assert document["totals"]["copies"]["chunks"] == 5
    done = kvctl("residency", "history", "acme", "--at", "2025-01-02", "-o", "csv")
    assert done.stdout.splitlines() == [
        "tenant,store,tier,site,country,entity_country,controlled_by,chunks,verdict,rule"
    ]
    assert "the catalogue knows of copies since 2026-01-01" in done.stderr
