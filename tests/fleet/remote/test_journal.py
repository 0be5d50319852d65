"""The journal as a run's truth: torn writes, full disks, and what a reader makes of it."""

import json
import os
import resource
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from kvctl.fleet.remote import journal
from kvctl.fleet.remote.journal import Journal, RunState, StepState
from kvctl.fleet.remote.locks import lock_file
from kvctl.types.errors import KvctlError

STEPS = [{"id": f"s0{i}", "node": "n1", "role": "host", "verb": "apply"} for i in (1, 2, 3)]


def written(tmp_path: Path) -> Path:
    run_dir = tmp_path / "runs" / "r-20260101-000000-abcd"
    with Journal(run_dir) as log:
        log.append("run.started", plan="p-1", steps=STEPS)
        log.append("step.started", step="s01", node="n1")
        log.append("step.finished", step="s01", node="n1", changed=[{"task": "Write"}])
        log.append("step.started", step="s02", node="n1")
    return run_dir


def test_run_ids_sort_by_time_and_are_utc() -> None:
    early = datetime(2026, 1, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    ids = [journal.new_run_id(early), journal.new_run_id(datetime(2026, 1, 2, 5, 0, tzinfo=UTC))]
    assert ids == sorted(ids)
    assert ids[0].startswith("r-20260102-043000-")
    assert all(journal.RUN_ID.match(one) for one in ids)


def test_view_says_what_is_done_running_and_to_do(tmp_path: Path) -> None:
    view = journal.load(written(tmp_path))
    assert {step.id: step.state for step in view.steps.values()} == {
        "s01": StepState.DONE,
        "s02": StepState.RUNNING,
        "s03": StepState.TODO,
    }
    assert view.state is RunState.INTERRUPTED  # nobody holds its lock and it never ended
    assert view.steps["s01"].changed == [{"task": "Write"}]


def test_live_supervisor_makes_it_running(tmp_path: Path) -> None:
    run_dir = written(tmp_path)
    with lock_file(run_dir / journal.LOCK, run_dir.name):
        view = journal.load(run_dir)
        assert view.state is RunState.RUNNING
        assert view.holder["pid"] == os.getpid()
    assert journal.load(run_dir).state is RunState.INTERRUPTED


@pytest.mark.parametrize("torn", [b"{", b'{"seq":5,"event":"run.fin', b'{"seq":5,"at":"x","event":"run.finished"}'])
def test_torn_last_line_is_passed_over_and_then_cut(tmp_path: Path, torn: bytes) -> None:
    run_dir = written(tmp_path)
    path = run_dir / journal.FILE
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert journal.load(run_dir).events == 4
    with Journal(run_dir) as log:
        assert log.append("run.finished", state="failed") == 5
    assert path.read_bytes().startswith(whole + b'{"seq":5,')
    assert journal.load(run_dir).state is RunState.FAILED


def test_every_cut_of_the_file_can_be_read(tmp_path: Path) -> None:
    run_dir = written(tmp_path)
    path = run_dir / journal.FILE
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert journal.load(run_dir).events == whole[:size].count(b"\n")


def test_spoilt_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    run_dir = written(tmp_path)
    path = run_dir / journal.FILE
    path.write_bytes(path.read_bytes().replace(b'{"seq":2', b"#seq:2"))
    with pytest.raises(KvctlError) as caught:
        journal.load(run_dir)
    assert caught.value.code == "KV-RUN-013"


def test_missing_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KvctlError) as caught:
        journal.load(tmp_path / "r-20260101-000000-none")
    assert caught.value.code == "KV-RUN-013"


def test_threads_number_their_events_without_a_gap(tmp_path: Path) -> None:
    run_dir = tmp_path / "r-20260101-000000-abcd"
    with Journal(run_dir) as log:
        threads = [
            threading.Thread(target=lambda i=i: [log.append("unit.seen", n=i) for _ in range(25)]) for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = [json.loads(line) for line in (run_dir / journal.FILE).read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 101))
    assert all(line["at"].endswith("Z") for line in lines)


def test_full_disk_is_said_and_leaves_whole_lines(tmp_path: Path) -> None:
    # a limit on the file's size is how a process meets a full disk without one
    code = f"""
import resource, signal
from pathlib import Path
from kvctl.fleet.remote.journal import Journal
from kvctl.types.errors import KvctlError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = Journal(Path({str(tmp_path / "r-20260101-000000-abcd")!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, {resource.RLIM_INFINITY}))
try:
    while True:
        log.append("step.note", text="x" * 300)
except KvctlError as error:
    print(error.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "KV-RUN-012"
    data = (tmp_path / "r-20260101-000000-abcd" / journal.FILE).read_bytes()
    assert data.endswith(b"}\n")
    assert all(json.loads(line) for line in data.splitlines())


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    for name in ("r-20260102-000000-aaaa", "r-20260101-000000-bbbb", "note"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / journal.FILE).touch()
    (tmp_path / "runs" / "r-20260103-000000-cccc").mkdir()  # cut before it did anything
    assert [path.name for path in journal.run_directories(tmp_path)] == [
        "r-20260101-000000-bbbb",
        "r-20260102-000000-aaaa",
    ]
    assert journal.run_directories(tmp_path / "none") == []
