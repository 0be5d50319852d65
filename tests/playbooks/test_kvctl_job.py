"""The archive of a job, its files and its names."""

import os
import shutil
import subprocess
import sys
import threading
import zipfile
from io import BytesIO

import pytest
from ansible.module_utils import kvctl_files, kvctl_job, kvctl_nic_firmware_job, kvctl_nvme_job, kvctl_roce_job
from ansible.module_utils.kvctl_refused import Refused

OLDEST = shutil.which("python3.9")
if OLDEST and subprocess.run([OLDEST, "-c", "pass"], capture_output=True).returncode != 0:
    OLDEST = None  # a version manager's shim without its version
ENTRIES = [kvctl_roce_job.ENTRY, kvctl_nic_firmware_job.ENTRY, kvctl_nvme_job.ENTRY]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_archive_runs_alone_on_every_python_there_is(entry, tmp_path):
    path = tmp_path / "worker.pyz"
    path.write_bytes(kvctl_job.pack(entry))
    pythons = [sys.executable] + ([OLDEST] if OLDEST else [])
    for python in pythons:
        done = subprocess.run([python, "-I", path, "no-such-verb"], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_the_archive_depends_on_its_entry_alone():
    assert kvctl_job.pack(kvctl_nvme_job.ENTRY) == kvctl_job.pack(kvctl_nvme_job.ENTRY)
    names = zipfile.ZipFile(BytesIO(kvctl_job.pack(kvctl_nvme_job.ENTRY))).namelist()
    assert "ansible/module_utils/kvctl_nvme.py" in names
    assert "ansible/module_utils/kvctl_roce.py" not in names, "other roles' code is not carried along"


@pytest.mark.parametrize("name", ["a/b", "../x", "a b", "-x", "a;reboot", "x" * 70])
def test_a_name_that_would_not_do_is_refused(name):
    with pytest.raises(Refused, match="KV-JOB-001"):
        kvctl_job.key_of(name, "s01")


def test_a_job_that_ended_is_reported_and_other_work_under_its_name_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kvctl_job, "JOBS", str(tmp_path))
    monkeypatch.setattr(kvctl_job, "active", lambda unit: False)
    payload = {"devices": []}
    digest = "3e5eab7b6a3b2a3ba2e8ab1c6f2f6d3e"
    kvctl_files.write_json(str(tmp_path / "r-1-s01/payload.json"), {"digest": digest, "payload": payload})
    kvctl_files.write_json(str(tmp_path / "r-1-s01.json"), {"state": "done", "changed": True, "detail": "burnt"})
    with pytest.raises(Refused, match="KV-JOB-002"):
        kvctl_job.run_job("r-1-s01", kvctl_nvme_job.ENTRY, {"drives": []}, 5)
    assert kvctl_job.wait("r-1-s01", 5)["detail"] == "burnt"


def test_a_unit_that_died_is_a_failure_not_a_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(kvctl_job, "JOBS", str(tmp_path))
    monkeypatch.setattr(kvctl_job, "active", lambda unit: False)
    kvctl_files.write_json(str(tmp_path / "r-1-s01.json"), {"state": "running", "boot_id": kvctl_job.boot_id()})
    assert "the unit ended without a result" in kvctl_job.wait("r-1-s01", 5)["detail"]
    kvctl_files.write_json(str(tmp_path / "r-1-s01.json"), {"state": "running", "boot_id": "earlier"})
    assert "restarted" in kvctl_job.wait("r-1-s01", 5)["detail"]


def test_a_worker_always_leaves_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(kvctl_job, "JOBS", str(tmp_path))
    monkeypatch.setattr(kvctl_job, "CHANGE_LOCK", str(tmp_path / "change.lock"))
    kvctl_files.write_json(str(tmp_path / "k/payload.json"), {"digest": "", "payload": {}})

    def broken(payload, report):
        report(changed=True)
        raise OSError("no space left")

    assert kvctl_job.worker("k", broken) == 1
    result = kvctl_job.read_result("k")
    assert (result["state"], result["changed"]) == ("failed", True)
    assert "no space left" in result["detail"]


def test_a_lock_that_is_held_is_an_error_and_is_free_afterwards(tmp_path):
    path = str(tmp_path / "lock")
    with kvctl_files.locked(path):
        refused = []

        def other():
            try:
                with kvctl_files.locked(path, wait=0.1):
                    pass
            except Refused as error:
                refused.append(error.code)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert refused == ["KV-LOCK-001"]
    with kvctl_files.locked(path):
        pass


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "class.json"
    kvctl_files.write_json(str(path), {"version": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kvctl_files.write_json(str(path), {"version": 2})
    assert kvctl_files.read_json(str(path)) == {"version": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["class.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff"])
def test_a_file_that_is_not_an_object_is_refused_not_read_as_empty(tmp_path, text):
    path = tmp_path / "class.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(Refused, match="KV-FILE-001"):
        kvctl_files.read_json(str(path))
