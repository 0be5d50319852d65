"""Every evidence check: PASS after real operations, FAIL after a violation planted behind the product's back, NO
EVIDENCE where there is nothing to judge."""

import base64
import io
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import _duckdb as duckdb
import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.controller.accounts import Accounts
from kvctl.controller.catalogue import compare_all, sync_all
from kvctl.controller.checks import checks, run
from kvctl.controller.settings import StoreSettings
from kvctl.types.chunks import Ack, Kind, Meta
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    AccountCreate,
    AuditLog,
    AuditRun,
    AuditVerify,
    BackupMake,
    EraseSubject,
    HoldSet,
    KeyCreate,
    MoveNamed,
    TenantCreate,
    TenantOffboard,
    TierPropose,
)
from tests.controller.people import ADMIN, controller
from tests.controller.policy_site import ANN, BOB, DPO, OPERATOR, POLICY, apply, vote
from tests.store.daemon import SCOPE, Daemon

ROOT = Path(__file__).resolve().parents[2]
AUDITOR = Principal("local:olga", frozenset({Role.AUDITOR}), fresh=True)
ALICE, CAROL = bytes.fromhex("a1" * 16), bytes.fromhex("ca" * 16)
FIXED = POLICY.replace("  - {store: s1, tier: object, site: dallas}\n", "")
MONTH = 30 * 86400
# Check -> what is done to the tables without the product. L1 has a case of its own: a changed byte of the log.
PLANTED = {
    "A1": "UPDATE votes SET voter = (SELECT requester FROM approvals LIMIT 1)",
    "A2": "UPDATE approvals SET executed_sha256 = 'other' WHERE state = 'executed'",
    "A3": "UPDATE residency_policies SET approval = NULL WHERE version = 2",
    "A4": "UPDATE approvals SET state = 'pending', expires = TIMESTAMP '2026-01-01'",
    "E1": "UPDATE erasures SET due = closed - INTERVAL 1 DAY",
    "E2": "UPDATE chunks SET removed_at = NULL, removed_why = NULL WHERE removed_why = 'erased'",
    "E3": "UPDATE erasures SET receipt_idx = 0",
    "E4": "UPDATE epochs SET destroy_receipt = NULL WHERE destroyed_at IS NOT NULL",
    "L2": "UPDATE sources SET sent = stored + 5",
    "L3": "UPDATE sources SET seen_at = seen_at - INTERVAL 1 HOUR",
    "L4": "UPDATE sources SET clock_ms = -4000",
    "L5": "UPDATE events SET actor = '' WHERE kind = 'audit.read'",
    "R1": "UPDATE residency_policies SET storage_countries = ['IT'] WHERE valid_to IS NULL",
    "R2": """UPDATE residency_policies SET storage_countries = ['IT'], valid_from = TIMESTAMP '2020-01-01'
             WHERE version = 1""",
    "R3": "UPDATE decisions SET verdict = 'deny' WHERE action = 'move'",
    "R4": "UPDATE moves SET source_removed_at = NULL",
    "R5": "DELETE FROM decisions WHERE action = 'backup'",
    "R6": "UPDATE comparisons SET untracked = 3",
    "T1": "UPDATE chunks SET expires_at = TIMESTAMP '2026-01-01' WHERE removed_at IS NULL AND subject IS NULL",
    "T2": "UPDATE chunks SET expires_at = expires_at + INTERVAL 400 DAY",
    "T3": """UPDATE chunks SET removed_at = now()::TIMESTAMP + INTERVAL 1 SECOND, removed_why = 'evicted'
             WHERE subject = 'cacacacacacacacacacacacacacacaca'""",
    "X1": "UPDATE events SET actor_tenant = 'other', outcome = 'ok' WHERE kind = 'key.created'",
    "X2": """INSERT INTO epochs (tenant, domain, epoch, created_at)
             SELECT 'other', domain, epoch, created_at FROM epochs LIMIT 1""",
    "X3": "UPDATE chunks SET sealed = 'none' WHERE removed_at IS NULL",
    "X5": "UPDATE accounts SET roles = ['operator', 'approver']",
}


def settings(base):
    return {"s1": StoreSettings(admin=f"unix:{base}/admin.sock")}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The directory of a site after a day of real work, closed."""
    base = tmp_path_factory.mktemp("site")
    for tier in ("flash", "disk"):
        (base / tier).mkdir()
    tiers = {tier: {"mounts": [{"path": f"{base}/{tier}", "capacity": "256MiB"}]} for tier in ("flash", "disk")}
    daemon = Daemon(base, module="kvctl.store.main", tiers=tiers).start()
    try:
        with controller(base, stores=settings(base)) as ctl:
            work(ctl, daemon, base)
    finally:
        daemon.stop()
    return base


def work(ctl, daemon, base):
    for tenant in ("acme", "beta"):
        ctl.call("tenant.create", OPERATOR, TenantCreate(tenant, "Acme SAS", "FR"))
    apply(ctl, FIXED)
    applied = int(time.time())
    while int(time.time()) == applied:  # a store counts whole seconds: what is stored now is older than the policy
        time.sleep(0.02)
    write_chunks(daemon)
    ctl.call("key.create", OPERATOR, KeyCreate("acme"))
    sync_all(ctl)
    compare_all(ctl)
    asked = ctl.call("tier.propose", OPERATOR, TierPropose("acme", "flash", "disk"))
    vote(ctl, ANN, asked["approval"])
    ctl.call("tier.move", OPERATOR, MoveNamed(asked["move"]))
    wider = apply(ctl, FIXED.replace("[FR, DE]}", "[FR, DE, NL]}"))
    for person in (ANN, BOB):
        vote(ctl, person, wider["approval"])
    ctl.call("hold.set", DPO, HoldSet("acme", "a lawsuit", subject=CAROL.hex()))
    ctl.call("erase.subject", DPO, EraseSubject("acme", subject=ALICE.hex()))
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("beta", "beta"))
    ctl.call("controller.backup", OPERATOR, BackupMake(str(base / "backup")))
    Accounts(ctl.books)
    ctl.call("account.create", ADMIN, AccountCreate("olga", ["auditor"]))
    ctl.call("audit.log", AUDITOR, AuditLog())
    sync_all(ctl)


def write_chunks(daemon):
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    lease = KeyLease(RootKey(SCOPE, os.urandom(32)), daemon.token(scope=SCOPE), 2**40)
    ends = int(time.time()) + MONTH - 3600
    for number, meta in enumerate((Meta(ends, ALICE), Meta(ends, CAROL), Meta(ends), Meta(ends, kind=Kind.COMMON))):
        client.put(lease, number.to_bytes(32, "big"), os.urandom(10_000), meta, Ack.DURABLE)
    client.close()


@pytest.fixture
def copy(site, tmp_path):
    shutil.copytree(site / "paris", tmp_path / "paris")
    return tmp_path


def judged(base, stores=None):
    with controller(base, stores=stores or {}) as ctl:
        return {one.check.id: one for one in run(ctl, checks())}


def plant(base, sql):
    with duckdb.connect(str(base / "paris" / "governance.duckdb")) as db:
        db.execute(sql)


def test_every_check_passes_after_real_operations(copy):
    found = judged(copy)
    assert {name: (str(one.verdict), one.rows[:2]) for name, one in found.items() if str(one.verdict) != "PASS"} == {}


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_violation_is_found(copy, name):
    plant(copy, PLANTED[name])
    one = judged(copy)[name]
    assert str(one.verdict) == "FAIL"
    assert one.violations
    assert one.rows


def test_a_changed_byte_of_the_log_is_found_and_named(copy):
    tiles = (copy / "paris" / "ledger" / "control" / "tile" / "entries").rglob("*")
    place = next(path for path in sorted(tiles) if path.is_file())
    data = bytearray(place.read_bytes())
    data[100] ^= 1
    with controller(copy) as ctl:
        place.write_bytes(data)
        one = next(one for one in run(ctl, checks()) if one.check.id == "L1")
    assert str(one.verdict) == "FAIL"
    assert any("entries" in str(row["place"]) for row in one.rows)


def test_a_row_that_is_not_in_the_log_is_found(copy):
    plant(copy, "UPDATE events SET actor = 'nobody' WHERE idx = 3")
    assert str(judged(copy)["L1"].verdict) == "FAIL"


def test_nothing_is_a_pass_on_an_empty_site(tmp_path):
    assert {str(one.verdict) for one in judged(tmp_path).values()} == {"NO EVIDENCE"}
    with controller(tmp_path) as ctl:
        found = ctl.call("audit.run", DPO, AuditRun("gdpr"))
    assert {one["verdict"] for one in found["verdicts"]} == {"NO EVIDENCE"}


def test_each_check_has_a_case_here():
    assert {check.id for check in checks()} == {*PLANTED, "L1"}


@pytest.fixture
def pack(copy):
    with controller(copy) as ctl:
        made = ctl.call("audit.run", AUDITOR, AuditRun("gdpr"))
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(made["zip"]))) as archive:
        archive.extractall(copy)
    return copy / made["name"]


def verify(pack: Path):
    """By the pack's own program, in a Python that finds nothing of this product."""
    argv = [sys.executable, "-I", str(pack / "verify.py"), str(pack), "--key", str(pack / "keys" / "site.pub")]
    return subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False)


def test_a_pack_verifies_by_itself(pack):
    done = verify(pack)
    assert done.returncode == 0, done.stdout
    assert "everything holds" in done.stdout
    assert list(pack.glob("evidence/*.tlog-proof"))


@pytest.mark.parametrize("name", ["report.html", "pack.json", "checks/R1.csv", "ledger/control/checkpoint"])
def test_a_changed_file_of_a_pack_is_named(pack, name):
    data = bytearray((pack / name).read_bytes() or b"x")
    data[len(data) // 2] ^= 1
    (pack / name).write_bytes(data)
    done = verify(pack)
    assert done.returncode == 1
    assert name.rpartition("/")[2] in done.stdout


def test_the_report_needs_nothing_else(pack):
    text = (pack / "report.html").read_text()
    assert "<script" not in text
    assert "src=" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_a_tenants_pack_holds_nothing_of_another(copy):
    with controller(copy) as ctl:
        made = ctl.call("audit.run", AUDITOR, AuditRun("gdpr", "acme"))
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(made["zip"]))) as archive:
        assert [name for name in archive.namelist() if b"beta" in archive.read(name)] == []


def test_a_log_written_anew_is_found_by_an_earlier_checkpoint(copy):
    with controller(copy) as ctl:
        kept = ctl.books.log.checkpoint()
        assert ctl.call("audit.verify", AUDITOR, AuditVerify(since=kept))["sound"]
    shutil.rmtree(copy / "paris" / "ledger")
    (copy / "paris" / "governance.duckdb").unlink()
    with controller(copy) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        again = ctl.call("audit.verify", AUDITOR, AuditVerify(since=kept))
    assert not again["sound"]


def test_the_docs_list_every_check():
    listed = [
        line.split("|")[1:3] for line in (ROOT / "docs" / "audits.md").read_text().splitlines() if line[:2] == "| "
    ]
    rows = {name.strip(): question.strip() for name, question in listed}
    assert {check.id: rows.get(check.id) for check in checks()} == {check.id: check.question for check in checks()}
