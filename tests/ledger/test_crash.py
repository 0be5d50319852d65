"""A writer that is killed loses nothing that it acknowledged; a torn journal is cut off, a damaged one is not."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kvctl.ledger import Log
from kvctl.ledger.tail import FRAME, SEGMENT, read_segment, segment_paths
from kvctl.ledger.verify import verify
from kvctl.types.errors import KvctlError
from tests.ledger.site import ORIGIN, Key, events, write

ROUNDS = int(
    os.environ.get("KVCTL_KILL_ROUNDS", "25")
)  # long form: KVCTL_KILL_ROUNDS=1000 pytest tests/ledger/test_crash.py
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def key():
    return Key()


def killed(directory, keyfile, after):
    """What a writer acknowledged before it was killed, `after` lines from its start on: (index, source, number)."""
    argv = [sys.executable, "-m", "tests.ledger.writer", str(directory), str(keyfile), "4"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if len(lines) == after:
            process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert lines[0] == "open\n"
    found = (line.split() for line in lines[1:] if line.endswith("\n"))
    return [(int(index), source, int(number)) for index, source, number in found]


def test_nothing_acknowledged_is_lost_by_kill_9(key, tmp_path):
    rnd = random.Random(9)
    (tmp_path / "key").write_bytes(key.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))
    acknowledged = []
    for _ in range(ROUNDS):
        acknowledged += killed(tmp_path / "log", tmp_path / "key", rnd.randrange(2, 1500))
    with Log.open(tmp_path / "log", ORIGIN, key) as log:
        entries = [json.loads(entry) for entry in log.read(0, log.size)]
    assert len(acknowledged) > ROUNDS
    for index, source, number in acknowledged:
        assert (entries[index]["source"], entries[index]["seq"]) == (source, number)
    report = verify(tmp_path / "log", ORIGIN, key.public)
    assert report.problems == []
    assert report.size == len(entries)


@pytest.fixture
def crashed(key, tmp_path):
    """A log whose checkpoint covers 300 entries and whose journal has three frames more; the last one's offset."""
    write(tmp_path / "log", key, events(300))
    note = (tmp_path / "log" / "checkpoint").read_bytes()
    tiles = {path: path.read_bytes() for path in (tmp_path / "log" / "tile").rglob("*") if path.is_file()}
    with Log.open(tmp_path / "log", ORIGIN, key, publish_seconds=None) as log:
        for at in (300, 310, 320):
            log.append(events(10, at))
    for path in (tmp_path / "log" / "tile").rglob("*"):
        if path.is_file() and path not in tiles:
            path.unlink()
    for path, data in tiles.items():
        path.write_bytes(data)
    (tmp_path / "log" / "checkpoint").write_bytes(note)
    return tmp_path / "log"


def journal(directory):
    (path,) = segment_paths(directory)
    return path


def frames(data):
    at = SEGMENT.size
    while at < len(data):
        yield at
        at += FRAME.size + FRAME.unpack_from(data, at)[1]


def test_a_journal_ahead_of_the_checkpoint_is_taken_up(crashed, key):
    report = verify(crashed, ORIGIN, key.public)
    assert (report.problems, report.size, report.beyond) == ([], 300, 30)
    with Log.open(crashed, ORIGIN, key) as log:
        assert list(log.read(0, log.size)) == events(330)
    assert verify(crashed, ORIGIN, key.public).size == 330


def test_a_torn_frame_is_cut_off(crashed, key):
    path = journal(crashed)
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    assert verify(crashed, ORIGIN, key.public).problems[0].index == 320
    with Log.open(crashed, ORIGIN, key, publish_seconds=None) as log:
        assert log.size == 320
    assert verify(crashed, ORIGIN, key.public).problems == []


def test_a_torn_frame_is_recognised_at_every_byte(crashed):
    path = journal(crashed)
    data = path.read_bytes()
    last = list(frames(data))[-1]
    for end in range(last + 1, len(data)):
        path.write_bytes(data[:end])
        segment = read_segment(path)
        assert (segment.stop, segment.end, segment.fault.torn) == (320, last, True)


def test_zeros_after_a_power_cut_are_cut_off(crashed, key):
    with journal(crashed).open("ab") as file:
        file.write(bytes(5000))
    with Log.open(crashed, ORIGIN, key) as log:
        assert log.append(events(5, 330)) == 330
    assert verify(crashed, ORIGIN, key.public).problems == []


def test_a_broken_frame_before_a_whole_one_is_damage_not_a_crash(crashed, key):
    path = journal(crashed)
    data = bytearray(path.read_bytes())
    second = list(frames(data))[-2]
    data[second + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(KvctlError, match="damaged") as caught:
        Log.open(crashed, ORIGIN, key)
    assert caught.value.code == "KV-LEDGER-004"
    assert f"byte {second}, entry 310" in caught.value.why


def test_a_journal_shorter_than_the_checkpoint_is_not_opened(key, tmp_path):
    write(tmp_path, key, events(20), step=10)
    path = journal(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: list(frames(data))[-1]])
    with pytest.raises(KvctlError, match="damaged") as caught:
        Log.open(tmp_path, ORIGIN, key)
    assert "the checkpoint covers 20 entries" in caught.value.why
    assert path.read_bytes() == data[: list(frames(data))[-1]]  # nothing was touched


def test_what_a_killed_publisher_left_is_cleared(key, tmp_path):
    write(tmp_path, key, events(300))
    (tmp_path / "tmp" / "tile-0-001").write_bytes(b"half")
    (tmp_path / "tile/0/001.p/40").write_bytes((tmp_path / "tile/0/001.p/44").read_bytes()[: 40 * 32])
    assert verify(tmp_path, ORIGIN, key.public).problems == []
    Log.open(tmp_path, ORIGIN, key).close()
    assert [path.name for path in (tmp_path / "tile/0/001.p").iterdir()] == ["44"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("name", ["checkpoint", "tail", "tile/0/001.p/44", "tile/1/000.p/1"])
def test_a_log_without_a_file_is_not_opened(key, tmp_path, name):
    write(tmp_path, key, events(300))
    path = tmp_path / name
    if path.is_dir():
        journal(tmp_path).unlink()
        path.rmdir()
    else:
        path.unlink()
    with pytest.raises(KvctlError, match="damaged"):
        Log.open(tmp_path, ORIGIN, key)
