"""kvctl store against a running kvstored."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.types.chunks import Ack, Scope
from tests.store.daemon import SCOPE, Daemon

ROOT = Path(__file__).resolve().parents[2]
OTHER = Scope("globex", "users", b"o" * 16)


def kvctl(daemon: Daemon, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return run(daemon, "store", args[0], "--admin", f"unix:{daemon.folder}/admin.sock", *args[1:], code=code)


def run(daemon: Daemon, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """In the folder of the daemon, where the site's inventory is."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("KVCTL", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-m", "kvctl", *args],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, cwd=daemon.folder,
        env={**environ, "KVCTL_STATE_DIR": str(daemon.folder / "site"), "HOME": str(daemon.folder),
             "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def daemon(tmp_path):
    (tmp_path / "mount").mkdir()
    nodes = "- {name: storage1, address: 127.0.0.1, role: storage}\n"
    (tmp_path / "inventory.yaml").write_text("site: {name: local}\nnodes:\n" + nodes)
    made = Daemon(tmp_path, module="kvctl.store.main").start()
    yield made
    made.stop()


def fill(daemon: Daemon, count: int = 3) -> None:
    """`count` durable chunks of each of two tenants."""
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    for scope in (SCOPE, OTHER):
        lease = KeyLease(RootKey(scope, b"r" * 32), daemon.token(scope=scope), 2**40)
        for number in range(count):
            client.put(lease, number.to_bytes(32, "big"), bytes([number]) * 70_000, ack=Ack.DURABLE)
    client.close()


def test_stat_shows_tiers_and_their_fill(daemon):
    fill(daemon)
    text = kvctl(daemon, "stat").stdout
    assert "storage1" in text
    assert "serving" in text
    (row,) = [line for line in text.splitlines() if line.startswith("flash")]
    assert "ok" in row
    assert json.loads(kvctl(daemon, "stat", "-o", "json").stdout)["tenants"]["acme"]["used"] == 3 * 70_104


def test_ls_is_filtered_and_bounded(daemon):
    fill(daemon)
    found = json.loads(kvctl(daemon, "ls", "--tenant", "globex", "-o", "json").stdout)
    assert [(row["tenant"], int(row["key"], 16), row["length"]) for row in found["chunks"]] == [
        ("globex", number, 70_104) for number in range(3)
    ]
    assert len(json.loads(kvctl(daemon, "ls", "-n", "4", "-o", "json").stdout)["chunks"]) == 4
    assert "no chunks" in kvctl(daemon, "ls", "--tenant", "nobody").stdout


def test_scrub_names_what_is_not_what_was_written(daemon):
    fill(daemon, count=1)
    assert "2 chunks" in kvctl(daemon, "scrub", "--tier", "flash").stdout
    (segment,) = (daemon.folder / "mount").rglob("*.seg")
    with segment.open("r+b") as file:
        file.seek(4096 + 1000)
        byte = file.read(1)
        file.seek(4096 + 1000)
        file.write(bytes([byte[0] ^ 1]))
    found = json.loads(kvctl(daemon, "scrub", "--tier", "flash", "-o", "json", code=3).stdout)
    assert [row["tenant"] for row in found["bad"]] == ["acme"]
    assert "no chunks" in kvctl(daemon, "ls", "--tenant", "acme").stdout


def test_drain_needs_a_word_and_can_be_taken_back(daemon):
    assert "KV-CLI-004" in kvctl(daemon, "drain", code=2).stderr
    assert "would drain" in kvctl(daemon, "drain", "--dry-run").stderr
    assert "serving" in kvctl(daemon, "stat").stdout
    kvctl(daemon, "drain", "--yes")
    assert "draining" in kvctl(daemon, "stat").stdout
    kvctl(daemon, "resume")
    assert "serving" in kvctl(daemon, "stat").stdout


def events(daemon: Daemon) -> list[dict]:
    found = json.loads(run(daemon, "audit", "log", "--kind", "upkeep.*", "-o", "json").stdout)["events"]
    return found[::-1]


def test_what_was_done_to_a_store_is_on_record_with_its_end(daemon):
    fill(daemon, count=1)
    for verb in (("drain", "--yes"), ("resume",), ("scrub", "--tier", "flash")):
        kvctl(daemon, *verb)
    found = events(daemon)
    assert [(e["kind"], e["outcome"]) for e in found] == [("upkeep.started", "ok"), ("upkeep.ended", "ok")] * 3
    assert [e["data"]["what"] for e in found[::2]] == ["drain", "resume", "scrub"]
    assert {tuple(e["data"]["nodes"]) for e in found[::2]} == {("storage1",)}
    assert found[-1]["data"]["chunks"] == 2
    assert [e["data"]["upkeep"] for e in found[::2]] == [e["data"]["upkeep"] for e in found[1::2]]


def test_what_a_store_refused_is_on_record_as_failed(daemon):
    kvctl(daemon, "scrub", "--tier", "archive", code=2)
    assert [(e["kind"], e["outcome"]) for e in events(daemon)][-1] == ("upkeep.ended", "failed")


def test_a_dry_run_changes_nothing_and_leaves_no_event(daemon):
    assert "no changes" in kvctl(daemon, "resume", "--dry-run").stderr
    assert "would read 0 chunks" in kvctl(daemon, "scrub", "--tier", "flash", "--dry-run").stderr
    assert not (daemon.folder / "site").exists()


def test_a_store_is_not_touched_when_nobody_keeps_a_record(daemon):
    done = kvctl(daemon, "drain", "--yes", "--controller", f"unix:{daemon.folder}/nobody", code=4)
    assert "KV-CTL-070" in done.stderr
    (daemon.folder / "inventory.yaml").unlink()
    assert "KV-STORE-034" in kvctl(daemon, "drain", "--yes", code=7).stderr
    assert "serving" in kvctl(daemon, "stat").stdout


def test_a_store_that_is_not_there_is_unreachable(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kvctl", "store", "stat", "--admin", f"unix:{tmp_path}/no.sock"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "KV-STORE-030" in done.stderr) == (4, True)


def test_a_tier_that_the_store_does_not_have_is_said_so(daemon):
    assert "KV-STORE-021" in kvctl(daemon, "scrub", "--tier", "archive", code=2).stderr
