"""kvctl tier, with a real kvstored."""

import os

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.types.chunks import Ack, Meta
from tests.cli.governed import PASSWORD, Kvctl
from tests.controller.policy_site import POLICY, put_copies
from tests.store.daemon import SCOPE, Daemon


@pytest.fixture
def daemon(tmp_path):
    folder = tmp_path / "s1"
    for tier in ("flash", "disk"):
        (folder / tier).mkdir(parents=True)
    tiers = {tier: {"mounts": [{"path": f"{folder}/{tier}", "capacity": "256MiB"}]} for tier in ("flash", "disk")}
    made = Daemon(folder, module="kvctl.store.main", tiers=tiers).start()
    client = StoreClient(made.unix, made.connector, made.identity.public)
    lease = KeyLease(RootKey(SCOPE, os.urandom(32)), made.token(scope=SCOPE), 2**40)
    for number in range(3):
        client.put(lease, number.to_bytes(32, "big"), os.urandom(70_000), Meta(position=number), Ack.DURABLE)
    client.close()
    yield made
    made.stop()


@pytest.fixture
def kvctl(tmp_path, daemon):
    made = Kvctl(tmp_path)
    made("policy", "apply", made.file(POLICY), "--yes")
    (made.site / "controller.yaml").write_text(f"stores:\n  s1: {{admin: 'unix:{daemon.folder}/admin.sock'}}\n")
    made.people("ann")
    with made.opened() as ctl:
        put_copies(ctl, 3, size=70_104)
    return made


def test_a_move_from_its_proposal_to_its_way_back(kvctl):
    asked = ("tier", "propose", "acme", "--from", "flash", "--to", "disk")
    dry = kvctl(*asked, "--dry-run").stderr
    assert "3 chunks, 210312 bytes, holds met: none" in dry
    assert "s1/disk: allow" in dry
    document = kvctl.document(*asked, "--reason", "room")
    move, approval = document["move"], document["approval"]
    assert "KV-APP-010" in kvctl("tier", "move", move, "--yes", code=7).stderr
    assert "approved" in kvctl("approve", "yes", approval, "--as", "ann", "--yes", typed=(PASSWORD,)).stderr
    assert "would be running" in kvctl("tier", "move", move, "--dry-run").stderr
    assert "KV-CLI-004" in kvctl("tier", "move", move, code=2).stderr
    done = kvctl("tier", "move", move, "--yes").stderr
    assert f"{move}: done; 3 chunks" in done
    (row,) = kvctl.document("tier", "ls")["moves"]
    assert (row["state"], row["approval_state"], row["moved"]) == ("done", "executed", 3)
    assert "KV-TIER-007" in kvctl("tier", "stop", move, code=7).stderr
    assert "rolled-back" in kvctl("tier", "rollback", move, "--yes").stderr
    assert "rolled-back" in kvctl("tier", "ls").stdout


def test_residency_refuses_with_exit_code_7_and_the_rule(kvctl):
    done = kvctl("tier", "propose", "acme", "--from", "flash", "--to", "object", code=7)
    assert "KV-TIER-003" in done.stderr
    assert "US is not in storage_countries" in done.stderr


def test_a_store_that_is_away_is_exit_code_1_and_can_be_resumed(kvctl, daemon):
    document = kvctl.document("tier", "propose", "acme", "--from", "flash", "--to", "disk")
    kvctl("approve", "yes", document["approval"], "--as", "ann", "--yes", typed=(PASSWORD,))
    daemon.stop()
    assert "KV-STORE-030" in kvctl("tier", "move", document["move"], "--yes", code=1).stderr
    daemon.events.clear()  # it says that it is ready once more
    daemon.start()
    assert "done; 3 chunks" in kvctl("tier", "resume", document["move"], "--yes").stderr
