"""kvctl tenant, key and account, over a state directory of their own."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kvctl(tmp_path):
    def run(*args, code=0, typed=None):
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("KVCTL", "XDG"))}
        stdin, ours = subprocess.DEVNULL, None
        if typed is not None:
            ours, stdin = pty.openpty()
            os.write(ours, f"{typed}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "kvctl", *args], capture_output=True, text=True, timeout=120, check=False,
            stdin=stdin, cwd=tmp_path,
            env={**environ, "KVCTL_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path),
                 "KVCTL_LAB_DIR": str(tmp_path / "lab"), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        if ours is not None:
            os.close(ours)
            os.close(stdin)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def acme(kvctl):
    kvctl(
        "tenant", "create", "acme", "--entity", "Acme SAS", "--country", "FR", "--domain", "common", "--domain", "user"
    )
    return kvctl


def document(done):
    return json.loads(done.stdout)


def test_create_and_look(acme):
    assert "acme" in acme("tenant", "ls").stdout
    shown = document(acme("tenant", "show", "acme", "-o", "json"))
    assert shown["schema"] == "kvctl.tenant.show/1"
    assert [epoch["domain"] for epoch in shown["epochs"]] == ["common", "user"]
    listed = acme("tenant", "ls", "-o", "csv").stdout.splitlines()
    assert listed[0].startswith("tenant,state,sla")
    assert "KV-TEN-003" in acme("tenant", "create", "acme", "--entity", "x", code=7).stderr
    assert "KV-TEN-001" in acme("tenant", "create", "A/B", "--entity", "x", code=2).stderr
    assert "KV-TEN-004" in acme("tenant", "show", "nobody", code=2).stderr


def test_an_api_key_is_the_only_thing_on_stdout(acme):
    made = acme("key", "create", "acme", "--label", "chat")
    (key,) = made.stdout.split()
    assert key.startswith("kv-acme-")
    assert key not in made.stderr
    (row,) = document(acme("key", "ls", "-o", "json"))["keys"]
    assert row["label"] == "chat"
    assert key not in acme("key", "ls", "-o", "json").stdout
    assert "KV-CLI-004" in acme("key", "revoke", "acme", row["id"], code=2).stderr
    acme("key", "revoke", "acme", row["id"], "--yes")
    assert document(acme("key", "ls", "-o", "json"))["keys"][0]["state"] == "revoked"


def test_suspending_asks_first(acme):
    assert "KV-CLI-004" in acme("tenant", "suspend", "acme", code=2).stderr
    assert "would suspend acme" in acme("tenant", "suspend", "acme", "--dry-run").stderr
    acme("tenant", "suspend", "acme", typed="n", code=130)
    assert document(acme("tenant", "ls", "-o", "json"))["tenants"][0]["state"] == "active"
    acme("tenant", "suspend", "acme", typed="y")
    assert document(acme("tenant", "ls", "-o", "json"))["tenants"][0]["state"] == "suspended"
    assert "no changes" in acme("tenant", "suspend", "acme", "--dry-run").stderr
    acme("tenant", "resume", "acme")
    assert document(acme("tenant", "ls", "-o", "json"))["tenants"][0]["state"] == "active"


def test_offboarding_wants_the_name_typed(acme):
    assert "KV-CLI-004" in acme("tenant", "offboard", "acme", code=2).stderr
    assert "KV-TEN-007" in acme("tenant", "offboard", "acme", "--confirm", "amce", code=2).stderr
    acme("tenant", "offboard", "acme", typed="yes", code=130)
    assert "would destroy the key of acme/user" in acme("tenant", "offboard", "acme", "--check").stderr
    done = acme("tenant", "offboard", "acme", typed="acme").stdout
    assert "not covered:" in done
    assert document(acme("tenant", "ls", "-o", "json"))["tenants"][0]["state"] == "offboarded"


def test_rotation_says_what_goes_cold_and_wants_the_domain_typed(acme):
    dry = acme("key", "rotate", "acme", "user", "--destroy-old", "--dry-run")
    assert "would destroy the key of epoch" in dry.stderr
    assert "not known" in dry.stderr
    acme("key", "rotate", "acme", "user", typed="common", code=130)
    done = acme("key", "rotate", "acme", "user", "--destroy-old", typed="user")
    assert "overwritten" in done.stdout
    answer = document(acme("key", "rotate", "acme", "common", "--confirm", "common", "-o", "json"))
    assert answer["epoch"] != answer["old_epoch"]


def test_a_store_that_is_away_is_shown_and_is_exit_code_5(acme, tmp_path):
    settings = tmp_path / "state" / "local" / "controller.yaml"
    settings.write_text(f"stores:\n  s1: {{admin: 'unix:{tmp_path}/none.sock'}}\n")
    done = acme("tenant", "suspend", "acme", "--yes", code=5)
    assert "NOT TOLD" in done.stdout
    assert "KV-STORE-030" in done.stdout


def test_accounts(acme):
    made = acme("account", "create", "ann")
    (link,) = made.stdout.split()
    assert link.startswith("/join/")
    assert link not in made.stderr
    assert "KV-API-064" in acme(
        "account", "create", "bo", "--role", "operator", "--role", "approver", code=7
    ).stderr  # fmt: skip
    listed = acme("account", "ls").stdout
    assert "admin operator" in listed
    again = acme("account", "change", "ann", "--new-link", "--yes").stdout.split()
    assert again != [link]
    acme("account", "change", "ann", "--disable", "--yes")
    assert document(acme("account", "ls", "-o", "json"))["accounts"][0]["disabled"]


def test_the_link_of_an_account_is_whole_where_the_consoles_address_is_set(acme, tmp_path):
    settings = tmp_path / "state" / "local" / "controller.yaml"
    settings.write_text("https: {listen: '192.0.2.1:8443'}\n")
    assert acme("account", "create", "ann").stdout.startswith("https://192.0.2.1:8443/join/")
    again = document(acme("account", "change", "ann", "--new-link", "--yes", "-o", "json"))
    assert again["link"].startswith("https://192.0.2.1:8443/join/")


def test_the_log_is_readable_as_a_table_and_whole_as_json(acme):
    acme("tenant", "suspend", "acme", "--yes", "--reason", "not paid")
    shown = acme("audit", "log", "--kind", "tenant.suspended").stdout
    assert "reason: not paid" in shown
    assert "{" not in shown
    (event,) = document(acme("audit", "log", "--kind", "tenant.suspended", "-o", "json"))["events"]
    assert event["data"] == {"reason": "not paid"}


def test_limits_are_written_with_units_and_taken_away_with_none(kvctl):
    kvctl("tenant", "create", "acme", "--entity", "Acme SAS", "--tokens-per-day", "900")
    done = kvctl("tenant", "quota", "acme", "--bytes", "1.5GiB", "--tokens", "none", "--dry-run")
    assert f"would set quota_bytes of acme from no limit to {3 << 29}" in done.stderr
    done = kvctl("tenant", "quota", "acme", "--bytes", "1.5GiB", "--tokens", "none")
    assert f"acme: quota_bytes {3 << 29}, tokens_per_day without limit" in done.stderr
    about = json.loads(kvctl("tenant", "show", "acme", "-o", "json").stdout)["about"]
    assert (about["quota_bytes"], about["tokens_per_day"], about["max_concurrent"]) == (3 << 29, None, 16)
    assert "is not a size" in kvctl("tenant", "quota", "acme", "--bytes", "much", code=2).stderr
    assert "KV-TEN-012" in kvctl("tenant", "quota", "acme", code=2).stderr
