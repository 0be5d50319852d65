"""Appending, reading, proving; one writer; a full or failing drive."""

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvctl.ledger import Log, Reader
from kvctl.ledger import tail as journal
from kvctl.ledger.note import open_note
from kvctl.ledger.proof import check_proof, parse_proof
from kvctl.ledger.tiles import number_path, tile_path
from kvctl.ledger.tree import consistent
from kvctl.ledger.verify import verify
from kvctl.types.errors import ExitCode, KvctlError, LockedError, RefusedError, UsageError
from tests.ledger import oracle
from tests.ledger.site import ORIGIN, Key, events, write

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def key():
    return Key()


@pytest.fixture
def log(key, tmp_path):
    with Log.open(tmp_path, ORIGIN, key, publish_seconds=None) as log:
        yield log


def test_paths_of_the_specification():
    assert number_path(1234067) == "x001/x234/067"
    assert tile_path(0, 273, 112) == "tile/0/273.p/112"
    assert tile_path("entries", 5) == "tile/entries/005"


def test_the_files_of_a_tree_of_70000_are_those_of_the_specification(key, tmp_path):
    write(tmp_path, key, [b"%d" % i for i in range(70_000)], step=9_000)
    names = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "tile").rglob("*") if path.is_file()}
    for kind in ("0", "entries"):
        assert {f"tile/{kind}/{i:03}" for i in range(273)} | {f"tile/{kind}/273.p/112"} <= names
    assert {"tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1"} <= names
    assert len(names) == 2 * 274 + 3
    assert (tmp_path / "tile/0/000").stat().st_size == 8192
    assert (tmp_path / "tile/entries/000").read_bytes()[:5] == b"\x00\x010\x00\x01"


def test_entries_come_back_in_order(log):
    entries = events(1000)
    assert log.append(entries[:1]) == 0
    assert log.append(entries[1:300]) == 1
    assert list(log.read(0, 300)) == entries[:300]
    log.checkpoint()
    assert log.append(entries[300:]) == 300
    assert log.size == 1000
    assert list(log.read(0, 1000)) == entries
    assert list(log.read(250, 310)) == entries[250:310]
    assert list(log.read(1000, 1000)) == []
    assert log.root() == oracle.mth(entries)
    for start, stop in ((-1, 3), (5, 4), (0, 1001)):
        with pytest.raises(UsageError, match="no entries"):
            log.read(start, stop)


def test_reopening_goes_on_where_it_was(key, tmp_path):
    entries = events(2000)
    at = 0
    for step in (1, 254, 1, 1, 255, 600, 888):
        with Log.open(tmp_path, ORIGIN, key) as log:
            assert log.append(entries[at : at + step]) == at
        at += step
        assert Reader(tmp_path, ORIGIN, key.public).root() == oracle.mth(entries[:at])
    assert verify(tmp_path, ORIGIN, key.public).problems == []


def test_many_threads_share_fsyncs_and_keep_their_order(log, monkeypatch):
    syncs = []
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (syncs.append(1), sync(descriptor))[1])

    def produce(number):
        return [(log.append([b"%d %d" % (number, i), b"more"]), number, i) for i in range(50)]

    with ThreadPoolExecutor(32) as pool:
        done = [one for many in pool.map(produce, range(32)) for one in many]
    entries = list(log.read(0, log.size))
    assert log.size == 32 * 50 * 2
    for index, number, i in done:
        assert entries[index : index + 2] == [b"%d %d" % (number, i), b"more"]
    assert len(syncs) < len(done)


def test_an_append_returns_after_the_fsync(log, monkeypatch):
    arrived, go = threading.Event(), threading.Event()
    sync = os.fdatasync

    def slow(descriptor):
        arrived.set()
        assert go.wait(30)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)
    with ThreadPoolExecutor(1) as pool:
        index = pool.submit(log.append, [b"one"])
        assert arrived.wait(30)
        assert not index.done()
        assert log.size == 0
        go.set()
        assert index.result() == 0


def test_proofs_hold_and_only_for_their_entry(log, key):
    entries = events(700)
    log.append(entries)
    for index in (0, 255, 256, 699):
        text = log.prove(index)
        assert text.startswith(f"c2sp.org/tlog-proof@v1\nindex {index}\n")
        assert list(parse_proof(text).path) == oracle.path(index, entries)
        assert check_proof(text, entries[index], ORIGIN, key.public).size == 700
        with pytest.raises(RefusedError, match="does not hold"):
            check_proof(text, entries[index] + b" ", ORIGIN, key.public)
        with pytest.raises(RefusedError, match="no checkpoint of"):
            check_proof(text, entries[index], ORIGIN, Key().public)
    early = log.prove(3, 300)
    assert check_proof(early, entries[3], ORIGIN, key.public).root == oracle.mth(entries[:300])
    for index, size in ((700, None), (-1, None), (300, 300), (3, 701)):
        with pytest.raises(UsageError):
            log.prove(index, size)


def test_consistency_of_every_kind_of_sizes(log):
    entries = events(600)
    log.append(entries)
    for old, new in ((0, 600), (1, 600), (256, 512), (300, 301), (600, 600)):
        path = log.consistency(old, new)
        assert consistent(old, new, oracle.mth(entries[:old]), oracle.mth(entries[:new]), path)
    assert log.consistency(10) == log.consistency(10, 600)
    for sizes in ((601, 600), (-1, 5), (5, 601)):
        with pytest.raises(UsageError, match="no trees"):
            log.consistency(*sizes)


def test_an_entry_of_any_bytes_up_to_the_limit(log):
    entries = [b"", b"\0", os.urandom(65_535), b"KVG1" * 100]
    log.append(entries)
    assert list(log.read(0, 4)) == entries
    with pytest.raises(UsageError, match="too long"):
        log.append([b"fine", bytes(65_536)])
    assert log.size == 4
    assert log.append([]) == 4


def test_a_reader_beside_the_writer_sees_what_was_published(log, key, tmp_path):
    log.append(events(300))
    log.checkpoint()
    reader = Reader(tmp_path, ORIGIN, key.public)
    log.append(events(5, 300))
    assert (reader.size, log.size) == (300, 305)
    log.checkpoint()
    assert list(reader.read(0, 300)) == events(300)  # though its unfinished tile has grown since
    check_proof(reader.prove(299), events(1, 299)[0], ORIGIN, key.public)
    reader.refresh()
    assert list(reader.read(300, 305)) == events(5, 300)
    assert consistent(300, 305, oracle.mth(events(300)), reader.root(), reader.consistency(300))


def test_the_checkpoint_follows_by_itself(key, tmp_path):
    seen = threading.Event()
    with Log.open(tmp_path, ORIGIN, key, publish_seconds=0.01) as log:
        log.append([b"one"])
        for _ in range(1000):
            if Reader(tmp_path, ORIGIN, key.public).size == 1:
                break
            seen.wait(0.01)
        assert open_note((tmp_path / "checkpoint").read_text(), ORIGIN, key.public).size == 1


def test_a_second_opener_is_told_who_has_it(log, key, tmp_path):
    with pytest.raises(LockedError, match=f"locked by PID {os.getpid()}") as caught:
        Log.open(tmp_path, ORIGIN, key)
    assert caught.value.exit_code == ExitCode.LOCKED
    log.close()
    Log.open(tmp_path, ORIGIN, key).close()


def test_another_key_or_origin_does_not_open_it(log, key, tmp_path):
    log.close()
    for origin, identity in ((ORIGIN, Key()), (ORIGIN + "2", key)):
        with pytest.raises(RefusedError, match="no checkpoint of"):
            Log.open(tmp_path, origin, identity)
    Log.open(tmp_path, ORIGIN, key).close()


def test_a_closed_log_takes_no_entry(log):
    log.close()
    log.close()
    with pytest.raises(UsageError, match="closed"):
        log.append([b"late"])


def test_a_name_or_place_that_does_not_do(key, tmp_path):
    with pytest.raises(UsageError, match="cannot name"):
        Log.open(tmp_path / "a", "two words", key)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be opened"):
        Log.open(tmp_path / "file", ORIGIN, key)
    with pytest.raises(UsageError, match="cannot be opened"):
        Reader(tmp_path / "nowhere", ORIGIN, key.public)


def test_a_failed_fsync_acknowledges_nothing_and_the_log_goes_on(log, key, tmp_path, monkeypatch):
    log.append(events(10))
    broken = {"now": True}
    sync = os.fdatasync

    def fail(descriptor):
        if broken["now"]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(journal.os, "fdatasync", fail)
    with ThreadPoolExecutor(8) as pool:
        for error in [pool.submit(log.append, [b"lost"]).exception() for _ in range(8)]:
            assert error.code == "KV-LEDGER-002"
    assert log.size == 10
    assert list(log.read(0, 10)) == events(10)
    broken["now"] = False
    assert log.append(events(10, 10)) == 10
    log.close()
    assert verify(tmp_path, ORIGIN, key.public).problems == []
    with Log.open(tmp_path, ORIGIN, key) as again:
        assert list(again.read(0, again.size)) == events(20)


FULL = """
import resource, signal, sys
from pathlib import Path
from kvctl.ledger import Log
from kvctl.ledger.verify import verify
from kvctl.types.errors import KvctlError
from tests.ledger.site import ORIGIN, Key, events

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
key, place = Key(), Path(sys.argv[1])
log = Log.open(place, ORIGIN, key, publish_seconds=None)
log.append(events(100))
log.checkpoint()
whole = resource.getrlimit(resource.RLIMIT_FSIZE)
size = next((place / "tail").iterdir()).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300, whole[1]))  # a write stops in the middle of a frame
codes = []
for _ in range(3):
    try:
        log.append(events(100, 100))
    except KvctlError as error:
        codes.append(error.code)
assert codes == ["KV-LEDGER-002"] * 3, codes
assert log.size == 100 and list(log.read(0, 100)) == events(100)
assert verify(place, ORIGIN, key.public).problems == []
resource.setrlimit(resource.RLIMIT_FSIZE, whole)
assert log.append(events(100, 100)) == 100
log.close()
report = verify(place, ORIGIN, key.public)
assert (report.size, report.problems) == (200, []), report
"""


def test_a_write_that_stops_midway_is_taken_back(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "log")], capture_output=True, text=True,
                          cwd=ROOT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


NO_ROOM = """
import errno, os, sys
from pathlib import Path
from kvctl.ledger import Log
from kvctl.ledger.verify import verify
from kvctl.types.errors import KvctlError
from tests.ledger.site import ORIGIN, Key, events

key, place = Key(), Path(sys.argv[1])
log = Log.open(place / "log", ORIGIN, key, publish_seconds=None)
count, codes = 0, []
while len(codes) < 3:
    try:
        assert log.append(events(50, count)) == count
        count += 50
        log.checkpoint()
    except KvctlError as error:
        assert error.why == os.strerror(errno.ENOSPC), error
        codes.append(error.code)
assert log.size == count and list(log.read(0, count)) == events(count)
(place / "ballast").unlink()
assert log.append(events(50, count)) == count
log.close()
report = verify(place / "log", ORIGIN, key.public)
assert (report.size, report.problems) == (count + 50, []), report
"""
MOUNTED = 'mount -t tmpfs -o size=1500k none $1 && head -c 500000 /dev/zero > $1/ballast && exec $2 -c "$3" $1'


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs of its own: run as root: pytest tests/ledger")
def test_a_full_drive_loses_nothing_and_the_log_goes_on(tmp_path):
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNTED, "sh"]
    done = subprocess.run([*argv, str(tmp_path), sys.executable, NO_ROOM], capture_output=True, text=True,
                          cwd=ROOT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_tiles_that_cannot_be_written_do_not_stop_the_log(log, key, tmp_path):
    log.append(events(10))
    (tmp_path / "tmp").rmdir()
    (tmp_path / "tmp").write_text("in the way")
    with pytest.raises(KvctlError, match="safe in the journal") as caught:
        log.checkpoint()
    assert caught.value.code == "KV-LEDGER-006"
    assert log.append(events(10, 10)) == 10
    assert list(log.read(0, 20)) == events(20)
    (tmp_path / "tmp").unlink()
    (tmp_path / "tmp").mkdir()
    assert open_note(log.checkpoint(), ORIGIN, key.public).size == 20


def test_the_journal_is_given_up_when_its_entries_are_in_tiles(key, tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "ROLL_BYTES", 20_000)
    with Log.open(tmp_path, ORIGIN, key, publish_seconds=None) as log:
        for at in range(0, 3000, 50):
            log.append(events(50, at))
        before = len(list((tmp_path / "tail").iterdir()))
        log.checkpoint()
        assert len(list((tmp_path / "tail").iterdir())) < before
        assert list(log.read(0, 3000)) == events(3000)
    assert verify(tmp_path, ORIGIN, key.public).problems == []
    with Log.open(tmp_path, ORIGIN, key) as log:
        assert list(log.read(0, 3000)) == events(3000)
