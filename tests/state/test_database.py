"""The state file: kept between processes, private, and honest about what is wrong with it."""

import json
import os
import subprocess
import sys

import pytest

from kvctl.state import fleet
from kvctl.state.database import Database
from kvctl.types.errors import KvctlError, LockedError


def observation(node, second, document="{}"):
    return {
        "node": node,
        "collected_at": f"2026-03-01T12:00:{second:02d}Z",
        "seconds": 0.1,
        "document": document,
        "error_code": None if document else "KV-SSH-001",
        "error": None if document else "refused",
    }


def test_nothing_stored_reads_as_nothing(tmp_path):
    with Database(tmp_path / "new").reading() as db:
        assert db is None
    assert not (tmp_path / "new").exists()


def test_observations_are_kept_newest_first_and_bounded(tmp_path):
    database = Database(tmp_path)
    with database.transaction() as db:
        fleet.add_observations(db, [observation("a", i, json.dumps({"n": i})) for i in range(30)])
        fleet.add_observations(db, [observation("a", 40, None), observation("b", 1)])
    with database.reading() as db:
        assert json.loads(fleet.latest_documents(db)["a"]) == {"n": 29}
        assert json.loads(fleet.latest_documents(db, 2)["a"]) == {"n": 28}
        contacts = fleet.contacts(db)
        assert db.execute("SELECT count(*) FROM observations WHERE node = 'a'").fetchone()[0] <= 11
    assert contacts["a"]["code"] == "KV-SSH-001"
    assert contacts["a"]["tried"] > contacts["a"]["read"]
    assert contacts["b"]["code"] is None


def test_a_failed_transaction_leaves_nothing(tmp_path):
    database = Database(tmp_path)

    def fail():
        with database.transaction() as db:
            fleet.add_plan(db, "p-1", "2026-03-01T12:00:00Z", "{}")
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - the test's own
        fail()
    with database.reading() as db:
        assert fleet.plan_document(db, "p-1") is None


def test_since_changes_only_with_the_state(tmp_path):
    row = {"node": "a", "role": "store", "state": "drained", "reason": "x", "since": "2026-03-01T12:00:00Z"}
    with Database(tmp_path).transaction() as db:
        fleet.set_node_states(db, [row])
        first = fleet.node_states(db)["a"]
        fleet.set_node_states(db, [row | {"reason": "y", "since": "2026-03-02T12:00:00Z"}])
        second = fleet.node_states(db)["a"]
        fleet.set_node_states(db, [row | {"state": "in-service", "since": "2026-03-03T12:00:00Z"}])
        third = fleet.node_states(db)["a"]
    assert second["since"] == first["since"]
    assert second["reason"] == "y"
    assert third["since"] > first["since"]


def test_the_newest_findings_of_each_node_are_found_across_partial_checks(tmp_path):
    def found(node, check):
        return {"check": check, "node": node, "subject": "", "verdict": "fail", "severity": "critical", "bad": True}

    with Database(tmp_path).transaction() as db:
        fleet.add_check_run(db, "2026-03-01T12:00:00Z", "x", ["a", "b"], [found("a", "one"), found("b", "two")])
        fleet.add_check_run(db, "2026-03-01T13:00:00Z", "x", ["a"], [])
        assert [f["check"] for f in fleet.latest_findings(db)] == ["two"]


def test_two_processes_wait_for_each_other(tmp_path):
    """One holds the file while the other writes: both succeed, nothing is lost."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from kvctl.state import fleet\nfrom kvctl.state.database import Database\n"
        "for i in range(5):\n"
        "    with Database(Path(sys.argv[1])).transaction() as db:\n"
        "        fleet.add_plan(db, f'{sys.argv[2]}-{i}', '2026-03-01T12:00:00Z', '{}')\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("x", "y", "z")]
    assert [w.wait(60) for w in workers] == [0, 0, 0]
    with Database(tmp_path).reading() as db:
        assert db.execute("SELECT count(*) FROM plans").fetchone()[0] == 15


def test_a_stuck_holder_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("kvctl.state.database.LOCK_WAIT", 0.2)
    database = Database(tmp_path)
    with database.transaction(), pytest.raises(LockedError) as caught, Database(tmp_path).transaction():
        pass
    assert caught.value.code == "KV-STATE-002"
    assert str(os.getpid()) in caught.value.why


def test_a_file_that_is_not_ours_is_an_error_with_a_way_out(tmp_path):
    (tmp_path / "state.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(KvctlError) as caught, Database(tmp_path).reading():
        pass
    assert caught.value.code == "KV-STATE-005"
    assert caught.value.fix


def test_a_newer_schema_is_refused(tmp_path):
    with Database(tmp_path).transaction() as db:
        db.execute("INSERT INTO schema_version VALUES (99, now())")
    with pytest.raises(KvctlError, match="KV-STATE-003"), Database(tmp_path).transaction():
        pass


def test_an_unwritable_place_is_said_so(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(KvctlError, match="KV-STATE-001"), Database(blocker / "state").transaction():
        pass


def test_the_directory_is_private(tmp_path):
    with Database(tmp_path / "s").transaction():
        pass
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


FULL = """
import resource, signal, sys
from pathlib import Path
from kvctl.state.database import Database
from kvctl.types.errors import KvctlError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with Database(Path(sys.argv[1])).transaction():
        pass
except KvctlError as error:
    print(error.code)
"""


def test_a_disk_that_takes_no_byte_is_an_error_of_the_state(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "s")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("KV-STATE-"), done.stderr


def test_a_table_that_is_missing_is_an_error_of_the_state_with_a_remedy(tmp_path):
    database = Database(tmp_path)
    with database.transaction() as db:
        db.execute("DROP TABLE plans")
    with pytest.raises(KvctlError) as caught, database.reading() as db:
        fleet.plan_document(db, "latest")
    assert caught.value.code == "KV-STATE-005"
    assert caught.value.fix
