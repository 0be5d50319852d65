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
from datetime import UTC, datetime, timedelta
from pathlib import Path

import _duckdb as duckdb
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease
from kvctl.controller.accounts import Accounts
from kvctl.controller.catalogue import compare_all, sync_all
from kvctl.controller.checks import checks, run
from kvctl.controller.keystore import MAGIC, MASTER, NONCE_BYTES
from kvctl.controller.settings import StoreSettings
from kvctl.types.chunks import Ack, Kind, Meta
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import (
    AccountChange,
    AccountCreate,
    AuditExport,
    AuditLog,
    AuditRun,
    AuditVerify,
    AuditWaive,
    BackupMake,
    EpochRotate,
    EraseSubject,
    EventRecord,
    HoldLift,
    HoldSet,
    KeyCreate,
    MoveNamed,
    TenantCreate,
    TenantOffboard,
    TierPropose,
)
from tests.controller.people import ACME_ADMIN, ADMIN, ahead, controller
from tests.controller.policy_site import ANN, BOB, DPO, OPERATOR, POLICY, apply, vote
from tests.store.daemon import Daemon

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
    "A5": "UPDATE moves SET approval = 'a-20260101-00000000'",
    "E1": "UPDATE erasures SET due = closed - INTERVAL 1 DAY",
    "E2": "UPDATE chunks SET removed_at = NULL, removed_why = NULL WHERE removed_why = 'erased'",
    "E3": "UPDATE erasures SET receipt_idx = 0",
    "E4": "UPDATE epochs SET destroy_receipt = NULL WHERE destroyed_at IS NOT NULL",
    "F1": "DELETE FROM events WHERE kind = 'plan.made'",
    "F2": """UPDATE events SET ts = TIMESTAMP '2026-01-01', kind = replace(kind, 'ended', 'cancelled')
             WHERE kind LIKE 'run.%'""",
    "F3": "UPDATE events SET kind = 'run.other' WHERE kind = 'run.started'",
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


# (check, what is done to the tables): each of them once passed as if nothing were wrong.
SUBTLE = [
    ("A1", "UPDATE approvals SET required = 0; DELETE FROM votes"),
    ("A1", "UPDATE votes SET voter = 'unix:op' WHERE voter = 'local:ann'"),
    ("A1", "UPDATE votes SET voter = 'local:op' WHERE voter = 'local:ann'"),
    ("A1", "UPDATE votes SET voter = 'LOCAL:Bob' WHERE voter = 'local:ann'"),
    ("A1", "UPDATE votes SET ts = ts + INTERVAL 2 DAY"),
    ("A1", "UPDATE votes SET ts = ts - INTERVAL 2 DAY"),
    ("A1", "UPDATE votes SET role = 'dpo'"),
    ("A1", "UPDATE votes SET fresh = false"),
    ("A1", "UPDATE votes SET payload_sha256 = 'other'"),
    ("A1", "INSERT INTO votes SELECT approval, 'local:eve', role, 'no', ts, payload_sha256, fresh, '' FROM "
           "votes LIMIT 1"),
    ("A1", """INSERT INTO events SELECT 1000, ts - INTERVAL 1 HOUR, 'account.created', 'unix:root', NULL, NULL, 'ok',
              '{"name": "ann", "roles": ["viewer"]}' FROM votes WHERE voter = 'local:ann' LIMIT 1"""),
    ("A2", "UPDATE approvals SET payload = replace(payload, 'flash', 'disk')"),
    ("A2", "UPDATE approvals SET executed = decided - INTERVAL 1 SECOND"),
    ("A2", "UPDATE approvals SET execute_by = NULL"),
    ("A2", "INSERT INTO events SELECT 1000 + idx, ts, kind, actor, actor_tenant, tenant, outcome, data FROM events "
           "WHERE kind = 'approval.executed'"),
    ("A3", "UPDATE residency_policies SET version = 9, approval = NULL WHERE version = 2"),
    ("A3", "UPDATE residency_policies SET controlled_by = 'same' WHERE version = 1; "
           "UPDATE residency_policies SET controlled_by = 'any', storage_countries = ['FR'], approval = NULL "
           "WHERE version = 2"),
    ("A3", "UPDATE approvals SET required = 1 WHERE kind = 'policy.apply'"),
    ("A3", """UPDATE events SET data = replace(replace(data, '"initial"', '"weakening"'), 'residency', 'places')
              WHERE kind = 'policy.activated'"""),
    ("A4", "UPDATE approvals SET state = 'approved', execute_by = TIMESTAMP '2026-01-01'"),
    ("A4", "UPDATE approvals SET state = 'forgotten'"),
    ("A5", "UPDATE approvals SET kind = 'policy.apply'"),
    ("A5", "UPDATE approvals SET payload = replace(payload, 'disk', 'object') WHERE kind = 'tier.move'"),
    ("A5", "UPDATE moves SET started_at = started_at - INTERVAL 1 MINUTE"),
    ("A5", "UPDATE moves SET id = 'm-20260101-00000000'"),
    ("A5", "UPDATE holds SET lifted_at = from_at + INTERVAL 1 HOUR"),
    ("E1", "UPDATE erasures SET received = received - INTERVAL 40 DAY"),
    ("E2", "UPDATE chunks SET removed_at = NULL, removed_why = NULL, class = 'conversation' WHERE removed_why = "
           "'erased'"),
    ("E3", """UPDATE erasures SET receipt = replace(receipt, '"probed": 1', '"probed": 0')"""),
    ("E3", "UPDATE erasures SET receipt = NULL"),
    ("E3", """UPDATE erasures SET receipt = replace(receipt, '"absent": 1', '"absent": 0'); UPDATE events
              SET data = replace(data, '"absent": 1', '"absent": 0') WHERE kind = 'erasure.closed'"""),
    ("E3", """UPDATE erasures SET receipt = replace(receipt, '"probed": 1', '"probed": 0'); UPDATE events
              SET data = replace(data, '"probed": 1', '"probed": 0') WHERE kind = 'erasure.closed'"""),
    ("E3", """UPDATE erasures SET receipt = json_merge_patch(receipt, '{"stores": [], "stores_count": 0}');
              UPDATE events SET
              data = json_merge_patch(data, '{"receipt": {"stores": [], "stores_count": 0}}') WHERE kind =
              'erasure.closed'"""),
    ("F3", "UPDATE events SET actor = 'unix:other' WHERE kind = 'run.ended'"),
    ("F3", "INSERT INTO events SELECT * REPLACE (1000 AS idx, 'failed' AS outcome) FROM events "
           "WHERE kind = 'run.ended'"),
    ("L1", "UPDATE events SET actor_tenant = 'acme' WHERE idx = 3"),
    ("L1", "UPDATE events SET ts = ts - INTERVAL 1 DAY WHERE idx = 3"),
    ("L1", "INSERT INTO events SELECT 1000, * EXCLUDE (idx) FROM events WHERE idx = 3"),
    ("L1", "UPDATE retention_policies SET maximum_s = maximum_s * 10"),
    ("L1", "UPDATE residency_policies SET storage_countries = ['FR', 'DE', 'NL', 'US']"),
    ("L1", "INSERT INTO votes SELECT approval, 'local:eve', role, decision, ts, payload_sha256, fresh, '' FROM "
           "votes LIMIT 1"),
    ("L1", "DELETE FROM decisions WHERE action = 'move'"),
    ("L1", "UPDATE holds SET until_at = from_at"),
    ("L1", "DELETE FROM backups"),
    ("L1", "UPDATE api_keys SET label = 'another'"),
    ("L1", "UPDATE accounts SET roles = ['operator'] WHERE name = 'olga'"),
    ("L1", "UPDATE applied SET size = size - 1"),
    ("L2", "UPDATE sources SET sent = stored + 5; INSERT INTO gaps VALUES ('s1', 'b', 1, 2, TIMESTAMP "
           "'2026-01-01', 'x')"),
    ("L3", "DELETE FROM sources"),
    ("L4", "UPDATE events SET ts = ts - INTERVAL 3 MINUTE WHERE idx = 20"),
    ("R1", "UPDATE residency_policies SET controlled_by = 'same'; UPDATE site_versions SET controlled_by = 'US'"),
    ("R1", "DELETE FROM residency_policies; UPDATE site_versions SET country = 'US'"),
    ("R2", "UPDATE residency_policies SET valid_from = TIMESTAMP '2020-01-01' WHERE version = 1; UPDATE "
           "site_versions SET "
           "country = 'US', valid_from = TIMESTAMP '2020-01-01', valid_to = now()::TIMESTAMP - INTERVAL 1 DAY; "
           "UPDATE places SET valid_from = TIMESTAMP '2020-01-01'; "
           "UPDATE chunks SET placed_at = now()::TIMESTAMP - INTERVAL 7 DAY, "
           "removed_at = now()::TIMESTAMP - INTERVAL 7 DAY + INTERVAL 1 HOUR"),
    ("R2", "UPDATE residency_policies SET valid_from = TIMESTAMP '2020-01-01' WHERE version = 1; UPDATE places SET "
           "valid_from = TIMESTAMP '2020-01-01'; UPDATE site_versions SET valid_from = TIMESTAMP '2020-01-01'; "
           "UPDATE chunks SET placed_at = now()::TIMESTAMP - INTERVAL 20 DAY; UPDATE residency_policies SET "
           "valid_from = now()::TIMESTAMP - INTERVAL 9 DAY, storage_countries = ['IT'] WHERE version = 2; "
           "UPDATE residency_policies SET valid_to = now()::TIMESTAMP - INTERVAL 9 DAY WHERE version = 1"),
    ("R3", "UPDATE decisions SET store = 's2' WHERE action = 'move'"),
    ("R3", "UPDATE decisions SET ref = 'm-20260101-00000000' WHERE action = 'move'"),
    ("R3", "UPDATE decisions SET ts = ts + INTERVAL 1 HOUR WHERE action = 'move'"),
    ("R3", "INSERT INTO moves SELECT * REPLACE ('m-20260101-00000000' AS id) FROM moves"),
    ("R4", "UPDATE moves SET ended_at = ended_at - INTERVAL 2 HOUR, started_at = started_at - INTERVAL 3 HOUR, "
           "source_removed_at = ended_at - INTERVAL 2 HOUR; UPDATE chunks SET placed_at = placed_at - INTERVAL 2 HOUR "
           "WHERE tier = 'disk'; UPDATE chunks SET placed_at = placed_at - INTERVAL 4 HOUR, removed_at = NULL "
           "WHERE tier = 'flash'"),
    ("R5", "UPDATE decisions SET verdict = 'deny' WHERE action = 'backup' AND tenant = 'acme'"),
    ("R5", "INSERT INTO tenants SELECT * REPLACE ('gamma' AS tenant, 'active' AS state) FROM tenants WHERE "
           "tenant = 'acme'"),
    ("R6", "DELETE FROM comparisons WHERE store = 's1'; INSERT INTO comparisons VALUES ('s9', now()::TIMESTAMP, "
           "1, 1, 0, 0)"),
    ("R6", "UPDATE chunks SET store = 's9' WHERE removed_at IS NULL"),
    ("R6", "INSERT INTO comparisons SELECT store, ts + INTERVAL 2 MINUTE, 1, 1, 0, 0 FROM comparisons"),
    ("T1", "UPDATE chunks SET stored_at = stored_at - INTERVAL 20 DAY WHERE removed_at IS NULL AND subject IS NULL; "
           "UPDATE retention_policies SET valid_from = TIMESTAMP '2020-01-01'"),
    ("T3", """UPDATE chunks SET removed_at = (SELECT from_at FROM holds) + INTERVAL 1 SECOND WHERE tier = 'disk'
              AND subject = 'cacacacacacacacacacacacacacacaca'; INSERT INTO chunks SELECT * REPLACE ('flash' AS tier,
              (SELECT from_at FROM holds) + INTERVAL 1 HOUR AS placed_at, NULL AS removed_at) FROM chunks WHERE
              tier = 'disk'
              AND subject = 'cacacacacacacacacacacacacacacaca'"""),
    ("X2", "UPDATE api_keys SET sha256 = 'one'; INSERT INTO api_keys SELECT * REPLACE ('beta' AS tenant, 'k2' "
           "AS id) FROM api_keys"),
    ("X3", "UPDATE chunks SET epoch = 'ab' WHERE removed_at IS NULL"),
    ("X5", "UPDATE accounts SET roles = ['auditor', 'approver'], disabled = now()::TIMESTAMP"),
    ("X5", """INSERT INTO events SELECT 1000, ts, 'account.changed', 'unix:root', NULL, NULL, 'ok',
              '{"name": "olga", "roles": ["operator", "auditor"]}' FROM events LIMIT 1"""),
]  # fmt: skip


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
    write_chunks(ctl, daemon)
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
    for kind in ("plan.made", "run.started", "run.ended"):
        ctl.call("event.record", OPERATOR, EventRecord(kind, {"run": "r-1", "plan": "p-1", "hash": "ab"}))
    Accounts(ctl.books)
    ctl.call("account.create", ADMIN, AccountCreate("olga", ["auditor"]))
    ctl.call("audit.log", AUDITOR, AuditLog())
    sync_all(ctl)


def write_chunks(ctl, daemon):
    client = StoreClient(daemon.unix, daemon.connector, daemon.identity.public)
    (scope,) = ctl.keystore.scopes("acme")
    lease = KeyLease(ctl.keystore.root(scope), daemon.token(scope=scope), 2**40)
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


def test_a_source_that_says_no_time_is_not_judged(copy):
    before = judged(copy)["L4"].population
    plant(copy, "UPDATE sources SET clock_ms = 'NaN'")
    one = judged(copy)["L4"]
    assert (str(one.verdict), one.population < before) == ("PASS", True)


def test_a_gateway_that_is_never_heard_is_found_and_a_new_one_has_time(copy):
    plant(
        copy,
        "INSERT INTO sources SELECT * REPLACE ('gateway:g1' AS source, '' AS boot, 'unreachable' AS state)"
        " FROM sources LIMIT 1",
    )
    assert str(judged(copy)["L3"].verdict) == "PASS"
    plant(copy, "UPDATE sources SET seen_at = seen_at - INTERVAL 1 HOUR WHERE source = 'gateway:g1'")
    assert str(judged(copy)["L3"].verdict) == "FAIL"
    with controller(copy) as ctl:
        ctl.books.commit(ADMIN, [Event("deploy.forgotten", {"name": "g1", "from": "gateways"})])
    assert str(judged(copy)["L3"].verdict) == "PASS"


@pytest.mark.parametrize(("name", "sql"), SUBTLE)
def test_a_subtle_violation_is_found(copy, name, sql):
    plant(copy, sql)
    stores = {"s1": StoreSettings(admin=f"unix:{copy}/nowhere")}
    with controller(copy, stores=stores) as ctl:
        (one,) = run(ctl, [check for check in checks() if check.id == name])
    assert (str(one.verdict), bool(one.rows)) == ("FAIL", True)


def failing(base, *names):
    with controller(base) as ctl:
        return {one.check.id for one in run(ctl, [c for c in checks() if c.id in names]) if str(one.verdict) != "PASS"}


def put_back(ctl, seconds):
    """The clock was that much further when the last entry was written."""
    with ahead(seconds):
        ctl.call("audit.log", AUDITOR, AuditLog())


def test_a_place_that_is_younger_than_a_clock_that_was_put_back_counts(copy):
    plant(copy, "UPDATE places SET valid_from = now()::TIMESTAMP + INTERVAL 1 MINUTE WHERE valid_to IS NULL")
    assert failing(copy, "R1") == set()
    plant(copy, PLANTED["R1"])
    assert failing(copy, "R1") == {"R1"}


def test_votes_are_counted_on_a_clock_that_was_put_back(copy):
    with controller(copy) as ctl:
        with ahead(80):
            asked = apply(ctl, FIXED.replace("[FR, DE]}", "[FR, DE, NL, US]}"))
            vote(ctl, ANN, asked["approval"])
        assert vote(ctl, BOB, asked["approval"])["state"] == "executed"
    assert failing(copy, "A1", "A2") == set()
    plant(copy, "UPDATE votes SET ts = ts - INTERVAL 10 MINUTE WHERE voter = 'local:bob'")
    assert failing(copy, "A1") == {"A1"}


def test_a_role_that_was_given_before_the_clock_was_put_back_counts(copy):
    with controller(copy) as ctl:
        ctl.call("account.create", ADMIN, AccountCreate("bob", ["viewer"]))
        with ahead(80):
            ctl.call("account.change", ADMIN, AccountChange("bob", ["approver"]))
        asked = apply(ctl, FIXED.replace("[FR, DE]}", "[FR, DE, NL, US]}"))
        for person in (ANN, BOB):
            vote(ctl, person, asked["approval"])
    assert failing(copy, "A1") == set()
    plant(copy, """UPDATE events SET data = replace(data, 'approver', 'viewer') WHERE kind = 'account.changed'""")
    assert failing(copy, "A1") == {"A1"}


def test_what_went_before_a_hold_is_not_under_it_on_a_clock_that_was_put_back(copy):
    gone = """UPDATE chunks SET removed_at = now()::TIMESTAMP + INTERVAL {} SECOND, removed_why = 'expired'
              WHERE subject IS NULL AND class = 'conversation'"""
    plant(copy, gone.format(61))
    with controller(copy) as ctl:
        put_back(ctl, 60)
        ctl.call("hold.set", DPO, HoldSet("acme", "another lawsuit"))
    assert failing(copy, "T3") == set()
    plant(copy, gone.format(600))
    assert failing(copy, "T3") == {"T3"}


def test_what_goes_after_a_hold_was_lifted_was_not_under_it_on_a_clock_that_is_put_back(copy):
    with controller(copy) as ctl:
        held = ctl.call("hold.set", DPO, HoldSet("acme", "another lawsuit"))["hold"]
        with ahead(80):
            asked = ctl.call("hold.lift", DPO, HoldLift("acme", held, "it is over"))
            for person in (ANN, BOB):
                vote(ctl, person, asked["approval"])
    gone = """UPDATE chunks SET removed_at = now()::TIMESTAMP {}, removed_why = 'expired'
              WHERE subject IS NULL AND class = 'conversation'"""
    plant(copy, "UPDATE chunks SET removed_at = removed_at - INTERVAL 1 DAY")  # what went before is not asked about
    plant(copy, gone.format("+ INTERVAL 5 SECOND"))
    plant(copy, f"UPDATE holds SET from_at = from_at - INTERVAL 1 HOUR WHERE id = '{held}'")  # noqa: S608
    assert failing(copy, "T3") == set()
    plant(copy, gone.format("- INTERVAL 10 MINUTE"))
    assert failing(copy, "T3") == {"T3"}


def test_a_copy_that_moved_while_the_clock_was_put_back_is_not_gone(copy):
    """What the hold is of was carried to disk, and its source removed, an hour after the hold was set."""
    with controller(copy) as ctl:
        put_back(ctl, 60)
        ctl.call("audit.log", AUDITOR, AuditLog())
    plant(copy, "UPDATE holds SET from_at = from_at - INTERVAL 1 HOUR")
    where = "subject = 'cacacacacacacacacacacacacacacaca'"
    plant(
        copy,
        f"""UPDATE chunks SET placed_at = now()::TIMESTAMP + INTERVAL 59 SECOND WHERE tier = 'disk' AND {where};
                    UPDATE chunks SET removed_at = now()::TIMESTAMP WHERE tier = 'flash' AND {where}""",  # noqa: S608
    )
    assert failing(copy, "T3") == set()
    plant(copy, f"UPDATE chunks SET placed_at = placed_at + INTERVAL 1 HOUR WHERE tier = 'disk' AND {where}")  # noqa: S608
    assert failing(copy, "T3") == {"T3"}


def keys_of(base, tenant):
    return sorted((base / "paris" / "keys").glob(f"{tenant}.*.root"))


def test_a_destroyed_key_that_is_put_back_is_found(copy):
    with controller(copy) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("gamma", "Acme SAS", "FR"))
        (path,) = keys_of(copy, "gamma")
        kept = path.read_bytes()
        ctl.call("key.rotate", OPERATOR, EpochRotate("gamma", "user", destroy_old=True))
    assert (path.exists(), str(judged(copy)["E4"].verdict)) == (False, "PASS")
    path.write_bytes(kept)
    path.chmod(0o600)
    one = judged(copy)["E4"]
    assert (str(one.verdict), one.rows[0]["what"]) == ("FAIL", "it was destroyed, and is in the key store")


def test_a_key_that_two_tenants_share_or_that_was_exchanged_is_found(copy):
    with controller(copy) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("gamma", "Acme SAS", "FR"))
    (acme,), (gamma,) = keys_of(copy, "acme"), keys_of(copy, "gamma")
    assert str(judged(copy)["X2"].verdict) == "PASS"
    was = gamma.read_bytes()
    gamma.write_bytes(acme.read_bytes())  # as a file: what it is bound to does not fit
    assert judged(copy)["X2"].rows[0]["what"].startswith("KV-TEN-021")
    seal(gamma, opened=open_key(acme))  # by somebody who has the master key
    found = [row["what"] for row in judged(copy)["X2"].rows]
    assert found == ["it is the key of acme/user as well", "it is not the key that was made for this epoch"]
    seal(gamma, opened=b"k" * 32)
    assert [row["what"] for row in judged(copy)["X2"].rows] == ["it is not the key that was made for this epoch"]
    gamma.write_bytes(was)
    assert str(judged(copy)["X2"].verdict) == "PASS"


def open_key(path):
    data, master = path.read_bytes(), (path.parent / MASTER).read_bytes()
    at = len(MAGIC) + NONCE_BYTES
    return AESGCM(master).decrypt(data[len(MAGIC) : at], data[at:], MAGIC + path.name.encode())


def seal(path, opened):
    master, nonce = (path.parent / MASTER).read_bytes(), os.urandom(NONCE_BYTES)
    path.write_bytes(MAGIC + nonce + AESGCM(master).encrypt(nonce, opened, MAGIC + path.name.encode()))


def test_a_backup_of_a_site_without_tenants_needs_no_decision(tmp_path):
    with controller(tmp_path) as ctl:
        ctl.call("controller.backup", OPERATOR, BackupMake(str(tmp_path / "backup")))
    assert str(judged(tmp_path)["R5"].verdict) == "PASS"


def test_an_erasure_that_a_hold_restricts_was_answered_with_its_receipt(copy):
    plant(
        copy,
        """UPDATE erasures SET outcome = 'restricted', closed = NULL, received = received - INTERVAL 40 DAY,
                   due = due - INTERVAL 40 DAY; UPDATE events SET kind = 'erasure.restricted' WHERE kind =
              'erasure.closed'""",
    )
    assert str(judged(copy)["E1"].verdict) == "FAIL"
    plant(copy, "UPDATE events SET ts = ts - INTERVAL 20 DAY WHERE kind = 'erasure.restricted'")
    assert str(judged(copy)["E1"].verdict) == "PASS"


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


def test_a_tenants_pack_holds_no_row_of_anothers_requests_or_keys(copy):
    for tenant in ("acme", "beta"):
        row = f"'a-x{tenant}' AS id, '{tenant}' AS tenant, 'pending' AS state, TIMESTAMP '2020-01-01' AS expires"
        plant(copy, f"INSERT INTO approvals SELECT * REPLACE ({row}) FROM approvals LIMIT 1")  # noqa: S608
    key = keys_of(copy, "acme")[0]
    shutil.copy(key, key.with_name(key.name.replace("acme", "beta", 1)))
    with controller(copy) as ctl:
        made = ctl.call("audit.run", AUDITOR, AuditRun("soc2", "acme"))
        found = {one.check.id: one for one in run(ctl, [check for check in checks() if check.id in ("A4", "X2")])}
    assert {row["tenant"] for row in found["A4"].rows} == {"acme", "beta"}
    assert "beta" in str(found["X2"].rows)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(made["zip"]))) as archive:
        assert [name for name in archive.namelist() if b"beta" in archive.read(name)] == []
        assert any(b"a-xacme" in archive.read(name) for name in archive.namelist())


def test_every_check_is_judged_on_a_tenants_rows_or_says_why_not():
    assert [one.id for one in checks() if bool(one.of_tenant) == bool(one.whole_site)] == []


def test_a_tenants_pack_judges_that_tenant_alone(copy):
    row = "'a-xbeta' AS id, 'beta' AS tenant, 'pending' AS state, TIMESTAMP '2020-01-01' AS expires"
    plant(copy, f"INSERT INTO approvals SELECT * REPLACE ({row}) FROM approvals WHERE tenant = 'acme' LIMIT 1")  # noqa: S608
    plant(copy, "UPDATE chunks SET sealed = 'none'")
    with controller(copy) as ctl:
        site = {one.check.id: one for one in run(ctl, checks())}
        of = {t: {one.check.id: one for one in run(ctl, checks(), tenant=t)} for t in ("acme", "beta", "nobody")}
    assert {name: str(of["nobody"][name].verdict) for name in of["nobody"]} == dict.fromkeys(of["acme"], "NO EVIDENCE")
    assert (str(of["acme"]["A4"].verdict), of["acme"]["A4"].population) == ("PASS", site["A4"].population - 2)
    assert (str(of["beta"]["A4"].verdict), of["beta"]["A4"].population) == ("FAIL", 1)
    assert (str(of["acme"]["X3"].verdict), of["acme"]["X3"].rows) == ("FAIL", site["X3"].rows)
    assert str(of["beta"]["X3"].verdict) == "NO EVIDENCE"
    assert of["acme"]["X1"].population < site["X1"].population


def test_a_tenant_reads_its_own_events_and_not_how_many_there_are(copy):
    with controller(copy) as ctl:
        bound = ctl.call("audit.log", ACME_ADMIN, AuditLog(limit=1000))
        assert ctl.call("audit.log", AUDITOR, AuditLog())["size"] == ctl.books.log.size
    assert ({event["tenant"] for event in bound["events"]}, bound["size"]) == ({"acme"}, None)


def test_a_tenants_pack_names_what_is_left_out(copy):
    with controller(copy) as ctl:
        made = ctl.call("audit.run", AUDITOR, AuditRun("soc2", "acme"))
        whole = ctl.call("audit.run", AUDITOR, AuditRun("soc2"))
    assert {one["id"] for one in whole["verdicts"]} - {one["id"] for one in made["verdicts"]} == {
        "F1", "F2", "F3", "L1", "L2", "L3", "L4", "R6", "X2", "X5"
    }  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(made["zip"]))) as archive:
        files = {name.partition("/")[2]: archive.read(name).decode() for name in archive.namelist()}
    assert "the log is one for all tenants" in files["report.html"]
    assert "checks/L2.json" not in files
    assert "WITH holds AS (SELECT * FROM main.holds AS one WHERE one.tenant = $tenant)" in files["checks/T3.sql"]


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


def soon(**more):
    return (datetime.now(UTC) + timedelta(**more)).isoformat()


def test_a_failure_that_was_accepted_is_waived_until_its_day(copy):
    plant(copy, PLANTED["L2"])
    with controller(copy) as ctl:
        ctl.call("audit.waive", DPO, AuditWaive("L2", soon(days=1), "a store was exchanged"))
        (one,) = run(ctl, [check for check in checks() if check.id == "L2"])
    assert (str(one.verdict), one.waiver["reason"]) == ("WAIVED", "a store was exchanged")


@pytest.mark.parametrize(
    ("check", "until", "code"),
    [
        ("L2", "for ever", "KV-POL-005"),
        ("L2", soon(days=-1), "KV-AUD-010"),
        ("L2", "9999-12-31T00:00:00Z", "KV-AUD-010"),
        ("L9", soon(days=1), "KV-AUD-009"),
    ],
)
def test_a_waiver_is_of_a_check_and_ends(tmp_path, check, until, code):
    with controller(tmp_path) as ctl, pytest.raises(UsageError) as refused:
        ctl.call("audit.waive", DPO, AuditWaive(check, until, "why not"))
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_that_is_none_is_the_callers(tmp_path, name):
    with controller(tmp_path) as ctl:
        for operation, request in (
            ("audit.log", AuditLog(**{name: "1e309"})),
            ("audit.export", AuditExport(**{name: "x"})),
        ):
            with pytest.raises(UsageError) as refused:
                ctl.call(operation, OPERATOR, request)
            assert refused.value.code == "KV-POL-005"
