"""What checks compare beside the tables, and what is unusual and no violation."""

import shutil
from pathlib import Path

import pytest

from kvctl.controller.agreement import BACK_AGAIN, keys_unlike
from kvctl.controller.catalogue import compare, sync
from kvctl.controller.checks import checks, run
from kvctl.controller.restore import restore
from kvctl.controller.settings import ControllerSettings
from kvctl.types.requests import AuditVerify, BackupMake, EpochRotate, TenantCreate, TenantOffboard, TenantQuota
from tests.controller import stores as fake
from tests.controller.people import OPERATOR, controller
from tests.controller.policy_site import ANN, BOB, POLICY, apply, put_copies, vote

LOST = "it is not in the key store, and no destruction of it is on record"


def judged(ctl, name):
    (one,) = run(ctl, [check for check in checks() if check.id == name])
    return str(one.verdict), [row.get("what") for row in one.rows]


def plant(ctl, sql):
    with ctl.books.state.writing() as db:
        db.execute(sql)


# --- the key store --------------------------------------------------------------------------------------------------
@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        made.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", "FR", domains=["user", "common"]))
        made.call("tenant.create", OPERATOR, TenantCreate("beta", "Acme SAS", "FR"))
        yield made


def test_a_key_that_is_gone_without_a_record_is_found(ctl):
    assert judged(ctl, "X2") == ("PASS", [])
    next(ctl.keystore.directory.glob("acme.common.*.root")).unlink()
    assert judged(ctl, "X2") == ("FAIL", [LOST])


def test_the_key_behind_pseudonyms_that_is_gone_changed_or_exchanged_is_found(ctl):
    path = ctl.keystore.directory / "acme.subject"
    kept = path.read_bytes()
    path.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    assert judged(ctl, "X2") == ("FAIL", ["KV-TEN-021: a key cannot be unwrapped"])
    path.unlink()
    assert judged(ctl, "X2") == ("FAIL", [LOST])
    ctl.keystore.create_subject("acme")
    assert judged(ctl, "X2") == ("FAIL", ["it is not the key that was made for this tenant"])
    path.write_bytes(kept)
    assert judged(ctl, "X2") == ("PASS", [])


def test_keys_whose_destruction_is_on_record_are_not_missed(ctl):
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("beta", "beta"))
    assert (judged(ctl, "X2"), judged(ctl, "E4")) == (("PASS", []), ("PASS", []))


def test_a_destroyed_key_that_is_back_is_found(ctl):
    (root,) = ctl.keystore.directory.glob("beta.user.*.root")
    subject = ctl.keystore.directory / "beta.subject"
    kept = {path: path.read_bytes() for path in (root, subject)}
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard("beta", "beta"))
    assert judged(ctl, "E4") == ("PASS", [])
    for path in (root, subject):
        path.write_bytes(kept[path])
        assert judged(ctl, "E4") == ("FAIL", ["it was destroyed, and is in the key store"])
        assert [row["tenant"] for row in keys_unlike(ctl, destroyed=True)] == ["beta"]
        path.unlink()


def test_keys_that_a_restored_backup_left_out_are_not_missed(tmp_path):
    with controller(tmp_path) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        file = Path(ctl.call("controller.backup", OPERATOR, BackupMake(str(tmp_path / "backup")))["file"])
        ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
    master = shutil.copy(tmp_path / "paris" / "keys" / "master.key", tmp_path / "master")
    done = restore(
        ControllerSettings("paris", "FR", "Acme SAS", tmp_path / "paris"), file, OPERATOR, master=Path(master),
        force="paris",
    )  # fmt: skip
    (left_out,) = done.keys_left_out
    with controller(tmp_path) as ctl:
        assert (judged(ctl, "X2"), judged(ctl, "E4")) == (("PASS", []), ("PASS", []))
        shutil.copy(next(done.aside.glob("keys/acme.user.*.root")), ctl.keystore.directory / left_out)
        (row,) = keys_unlike(ctl, destroyed=True)
        assert (row["tenant"], row["what"]) == ("acme", BACK_AGAIN)
        (ctl.keystore.directory / left_out).unlink()
        (ctl.keystore.directory / "acme.subject").unlink()
        assert judged(ctl, "X2") == ("FAIL", [LOST])


def test_a_key_that_was_restored_and_is_gone_later_is_missed(tmp_path):
    with controller(tmp_path) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        file = Path(ctl.call("controller.backup", OPERATOR, BackupMake(str(tmp_path / "backup")))["file"])
    settings = ControllerSettings("paris", "FR", "Acme SAS", tmp_path / "paris")
    restore(settings, file, OPERATOR, force="paris")
    with controller(tmp_path) as ctl:
        assert judged(ctl, "X2") == ("PASS", [])
        next(ctl.keystore.directory.glob("acme.user.*.root")).unlink()
        assert judged(ctl, "X2") == ("FAIL", [LOST])


# --- catalogue and data log -----------------------------------------------------------------------------------------
@pytest.fixture
def store(tmp_path):
    with fake.serving(fake.Store(tmp_path / "store"), tmp_path / "store") as made:
        yield made


@pytest.fixture
def followed(tmp_path, store):
    with controller(tmp_path, stores={"s1": store.settings}) as made:
        sync(made, "s1")
        for name in ("one", "two"):
            store.put(name)
        store.put("kept", expires_at=2**31, kind="common", subject=None)
        sync(made, "s1")
        # what came just before a comparison is left out of it
        plant(made, "UPDATE chunks SET placed_at = placed_at - INTERVAL 1 MINUTE")
        yield made


@pytest.mark.parametrize(
    "change",
    [
        "subject = NULL",
        "subject = 'b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0'",
        "class = 'common'",
        "model = 'another'",
        "bytes = 1",
        "stored_at = stored_at + INTERVAL 5 DAY",
        "expires_at = TIMESTAMP '2040-01-01'",
    ],
)
def test_a_copy_that_the_catalogue_has_otherwise_is_found_and_put_right(followed, store, change):
    found = compare(followed, "s1")
    assert (found["untracked"], found["unlike"], found["finding"]) == (0, 0, False)
    assert judged(followed, "R6")[0] == "PASS"
    key = fake.key("one")
    plant(followed, f"UPDATE chunks SET {change} WHERE hex(key) = upper('{key}')")  # noqa: S608
    found = compare(followed, "s1")
    assert (found["untracked"], found["missing"], found["unlike"], found["finding"]) == (0, 0, 1, True)
    assert judged(followed, "R6")[0] == "FAIL"
    assert compare(followed, "s1")["unlike"] == 0
    assert judged(followed, "R6")[0] == "PASS"


def test_a_chunk_that_was_stored_anew_while_nobody_listened_is_its_new_users(followed, store):
    store.lose(next(row for row in store.chunks.values() if row["key"] == fake.key("one")), silently=True)
    store.put("one", subject=fake.BOB)
    store.restart()
    assert sync(followed, "s1")["gap"] == "another run"
    with followed.books.state.reading() as db:
        found = db.execute(
            "SELECT count(*) FROM chunks WHERE removed_at IS NULL AND subject = ?", [fake.BOB]
        ).fetchone()
    assert found == (1,)


def test_a_changed_byte_of_the_data_log_is_found(followed):
    assert judged(followed, "L2") == ("PASS", [])
    followed.books.data.open().checkpoint()
    entries = followed.books.data.directory / "tile" / "entries"
    place = next(path for path in sorted(entries.rglob("*")) if path.is_file())
    data = bytearray(place.read_bytes())
    data[100] ^= 1
    place.write_bytes(data)
    (one,) = run(followed, [check for check in checks() if check.id == "L2"])
    assert (str(one.verdict), "data log: tile/entries/000" in str(one.rows)) == ("FAIL", True)


def test_a_changed_byte_of_a_file_that_the_next_checkpoint_replaces_is_found(ctl):
    ctl.books.log.checkpoint()
    (place,) = (ctl.books.log.directory / "tile" / "entries" / "000.p").iterdir()
    data = bytearray(place.read_bytes())
    data[100] ^= 1
    ctl.call("tenant.quota", OPERATOR, TenantQuota("acme", quota_bytes=2**30))  # the log has grown since
    place.write_bytes(data)
    found = ctl.call("audit.verify", OPERATOR, AuditVerify())
    name = f"tile/entries/000.p/{place.name}"
    assert (found["sound"], [one["place"] for one in found["problems"]]) == (False, [name])
    assert ctl.call("audit.verify", OPERATOR, AuditVerify())["sound"]  # the journal had it, and another file has it now


# --- a clock that was set back --------------------------------------------------------------------------------------
LATE = {
    "A1": "UPDATE votes SET ts = ts + INTERVAL 50 SECOND WHERE voter = 'local:ann'",
    "A2": "UPDATE approvals SET decided = executed + INTERVAL 50 SECOND",
    "R5": "UPDATE decisions SET ts = ts + INTERVAL 50 SECOND WHERE action = 'backup'",
}
DONE = {"A1": "approval.executed", "A2": "approval.executed", "R5": "backup.created"}


@pytest.fixture
def voted(tmp_path, ctl):
    apply(ctl)
    wider = apply(ctl, POLICY.replace("[FR, DE]}", "[FR, DE, NL]}"))
    for person in (ANN, BOB):
        vote(ctl, person, wider["approval"])
    ctl.call("controller.backup", OPERATOR, BackupMake(str(tmp_path / "backup"), site="paris"))
    return ctl


@pytest.mark.parametrize("name", sorted(LATE))
def test_what_came_before_on_a_clock_that_was_set_back_since_was_in_time(voted, name):
    assert judged(voted, name)[0] == "PASS"
    plant(voted, LATE[name])
    assert judged(voted, name)[0] == "FAIL"
    plant(
        voted,
        f"""UPDATE events SET ts = ts + INTERVAL 55 SECOND
            WHERE idx = (SELECT max(idx) FROM events WHERE kind = '{DONE[name]}') - 1""",  # noqa: S608
    )
    assert judged(voted, name)[0] == "PASS"


@pytest.mark.parametrize(("seconds", "verdict"), [(60, "PASS"), (180, "FAIL")])
def test_a_clock_that_was_put_right_by_a_minute_is_no_violation(voted, seconds, verdict):
    plant(voted, f"UPDATE events SET ts = ts + INTERVAL {seconds} SECOND WHERE idx = 3")  # noqa: S608
    assert judged(voted, "L4")[0] == verdict


# --- a request that was under way when the policy changed -----------------------------------------------------------
STORED = "UPDATE chunks SET stored_at = (SELECT max(valid_from) FROM retention_policies) + INTERVAL '{}'"


@pytest.mark.parametrize(
    ("minutes", "expires", "verdict"),
    [
        (10, "stored_at + INTERVAL 30 DAY", "PASS"),
        (10, "stored_at + INTERVAL 31 DAY", "FAIL"),
        (10, "NULL", "FAIL"),
        (61, "stored_at + INTERVAL 30 DAY", "FAIL"),
        (61, "stored_at + INTERVAL 1 DAY", "PASS"),
    ],
)
def test_the_clock_of_a_request_from_before_a_tightening(ctl, minutes, expires, verdict):
    apply(ctl)
    shorter = apply(ctl, POLICY.replace("maximum: 30d, idle: 7d", "maximum: 1d, idle: 1d"))
    vote(ctl, ANN, shorter["approval"])
    put_copies(ctl)
    plant(ctl, STORED.format(f"{minutes} MINUTE"))
    plant(ctl, f"UPDATE chunks SET expires_at = {expires}")  # noqa: S608
    assert judged(ctl, "T2")[0] == verdict


@pytest.mark.parametrize(
    ("minutes", "expires", "verdict"),
    [(10, "NULL", "PASS"), (61, "NULL", "FAIL"), (10, "stored_at + INTERVAL 31 DAY", "FAIL")],
)
def test_a_request_from_before_the_first_policy_has_no_clock(ctl, minutes, expires, verdict):
    apply(ctl)
    put_copies(ctl)
    plant(ctl, STORED.format(f"{minutes} MINUTE"))
    plant(ctl, f"UPDATE chunks SET expires_at = {expires}")  # noqa: S608
    assert judged(ctl, "T2")[0] == verdict
