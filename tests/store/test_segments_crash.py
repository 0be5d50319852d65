"""Crashes of the segments tier: cut off anywhere, durable chunks are there and removed ones are not."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvctl.connector.wire import PutStatus
from kvctl.store.buffers import PAGE
from kvctl.store.segments.layout import record_size
from kvctl.types.errors import KvctlError
from tests.store.segments_bench import ACME, ALICE, NOW, ZEN, Bench, body, opened

ROOT = Path(__file__).parents[2]


def crash(bench: Bench, target: Path, lose: Callable[[], None] = lambda: None) -> Bench:
    """What another machine would find on the medium now: a copy of the files, taken while nothing is written."""
    mount = bench.mount
    with mount.index.writing:
        shutil.copytree(bench.root, target, ignore=shutil.ignore_patterns("*-lock", "lock"))
        lose()
    return Bench(target, segment_size=bench.segment_size)


class Unsynced:
    """Which ranges of segments a power cut may still take: written, and no sync has returned since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._write, self._sync = os.pwritev, os.fdatasync
        monkeypatch.setattr(os, "pwritev", self.write)
        monkeypatch.setattr(os, "fdatasync", self.sync)

    def write(self, fd: int, views: list[memoryview], offset: int) -> int:
        with self._lock:
            written = self._write(fd, views, offset)
            self._ranges.setdefault(str(Path(f"/proc/self/fd/{fd}").readlink()), []).append((offset, written))
            return written

    def sync(self, fd: int) -> None:
        name = str(Path(f"/proc/self/fd/{fd}").readlink())
        with self._lock:
            covered = len(self._ranges.get(name, []))
        self._sync(fd)
        with self._lock:
            self._ranges[name] = self._ranges.get(name, [])[covered:]

    def lose(self, before: Path, after: Path, chance: random.Random) -> None:
        """Zero some pages, in the copy, of what was not synced."""
        for name, ranges in self._ranges.items():
            if not Path(name).is_relative_to(before) or not Path(name).exists():
                continue
            with (after / Path(name).relative_to(before)).open("r+b") as file:
                for offset, size in ranges:
                    for at in range(offset, offset + size, PAGE):
                        if chance.random() < 0.5:
                            file.seek(at)
                            file.write(bytes(PAGE))


class StoreMachine(RuleBasedStateMachine):
    """Random puts, removals, expiry, reopenings and power cuts against a dict."""

    count = 0
    unsynced: Unsynced

    def __init__(self) -> None:
        super().__init__()
        StoreMachine.count += 1
        self.root = ROOT_FOR_MACHINES / f"run{StoreMachine.count}"
        self.bench = Bench(self.root, mounts=1, segment_size=96 << 10)
        self.model: dict[tuple[int, bool], tuple[int, int]] = {}
        self.copies = 0
        self.soft: set[tuple[int, bool]] = set()  # stored as visible only: a power cut may take them

    @rule(
        number=st.integers(0, 15),
        length=st.integers(1, 20_000),
        zen=st.booleans(),
        ends=st.booleans(),
        durable=st.sampled_from([False, False, True]),
    )
    def put(self, number: int, length: int, zen: bool, ends: bool, durable: bool) -> None:
        name = (number, zen)
        expires_at = int(self.bench.now) + 10 if ends else 0
        answer = self.bench.put(
            number, length, scope=ZEN if zen else ACME, expires_at=expires_at, subject=ALICE, durable=durable
        )
        assert answer is (PutStatus.EXISTS if name in self.model else PutStatus.STORED)
        self.model.setdefault(name, (length, expires_at))
        if durable:
            self.soft.discard(name)
        elif answer is PutStatus.STORED:
            self.soft.add(name)

    @rule(numbers=st.sets(st.integers(0, 15), max_size=4), zen=st.booleans())
    def remove(self, numbers: set[int], zen: bool) -> None:
        there = {number for number in numbers if self.model.pop((number, zen), None)}
        expired = self.bench.remove(*numbers, scope=ZEN if zen else ACME) - len(there)
        assert 0 <= expired <= len(numbers - there)

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds: int) -> None:
        self.bench.now += seconds
        self.model = {name: row for name, row in self.model.items() if not 0 < row[1] <= self.bench.now}

    @rule()
    def sweep(self) -> None:
        self.bench.tier.expire(100)

    @rule()
    def compact(self) -> None:
        self.bench.tier.compact()

    @rule()
    def compact_index(self) -> None:
        self.bench.mount.index.compact()

    @rule()
    def erase(self) -> None:
        gone = {name for name in self.model if name[1]}
        assert self.bench.tier.erase_subject(ZEN, ALICE) >= len(gone)
        for name in gone:
            del self.model[name]

    @rule()
    def reopen(self) -> None:
        self.bench.reopen()

    @precondition(lambda self: self.copies < 6)
    @rule(seed=st.integers(0, 1000))
    def power_cut(self, seed: int) -> None:
        self.copies += 1
        target = self.root.with_name(f"{self.root.name}-{self.copies}")
        lose = self.unsynced.lose
        after = crash(self.bench, target, lambda: lose(self.bench.root, target, random.Random(seed)))
        after.now = self.bench.now
        self.bench.close()
        self.bench = after
        for number, zen in self.soft:
            if not after.has(number, scope=ZEN if zen else ACME)[0]:
                self.model.pop((number, zen), None)
        self.soft.clear()

    @invariant()
    def agrees(self) -> None:
        for zen, scope in ((False, ACME), (True, ZEN)):
            expected = [(number, zen) in self.model for number in range(16)]
            assert self.bench.has(*range(16), scope=scope) == expected
            for number in range(16):
                length = self.model.get((number, zen), (0, 0))[0]
                assert self.bench.get(number, scope) == (body(number, length) if length else None)

    def teardown(self) -> None:
        self.bench.close()
        shutil.rmtree(self.root.parent, ignore_errors=True)


ROOT_FOR_MACHINES = Path("unset")


def test_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT_FOR_MACHINES", tmp_path / "machines")
    monkeypatch.setattr(StoreMachine, "unsynced", Unsynced(monkeypatch), raising=False)
    case = StoreMachine.TestCase
    case.settings = settings(
        max_examples=12,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a run has threads: it is reported as found, not shrunk
    )
    case().runTest()


def test_a_crash_between_write_and_index_commit_loses_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        for number in range(20):
            bench.put(number, 30_000)
        after = crash(bench, tmp_path / "after")
        assert after.mount.counters["replayed"] == 20
        assert all(after.get(number) == body(number, 30_000) for number in range(20))
        after.close()


def test_the_index_never_refers_to_what_a_power_cut_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced = Unsynced(monkeypatch)
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        bench.put(1)
        bench.put(2, 50_000, durable=False)
        bench.put(3, 50_000, durable=False)
        bench.remove(1)  # commits all that is in segments
        bench.put(4, 50_000, durable=False)
        target = tmp_path / "after"
        after = crash(bench, target, lambda: unsynced.lose(bench.root, target, random.Random(3)))
        assert after.has(1, 2, 3, 4) == [False, True, True, False]
        assert [after.get(number) for number in (2, 3)] == [body(number, 50_000) for number in (2, 3)]
        after.close()


def test_a_removed_chunk_does_not_come_back_by_replay(tmp_path: Path) -> None:
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        bench.put(1, subject=ALICE)
        bench.put(2, subject=ALICE)
        bench.remove(1)
        after = crash(bench, tmp_path / "after")
        assert after.has(1, 2) == [False, True]
        after.close()


def test_a_record_with_an_old_sequence_number_is_not_taken(tmp_path: Path) -> None:
    with opened(tmp_path / "before") as bench:
        bench.put(1)
        bench.tier.flush()
        segment = Path("m0/segments/00000001.seg")
        old = (bench.root / segment).read_bytes()[: record_size(10_000)]
        bench.remove(1)
        with bench.mount.index.writing:
            shutil.copytree(bench.root, tmp_path / "after", ignore=shutil.ignore_patterns("*-lock", "lock"))
        tail = bench.mount.log.tail.offset
    with (tmp_path / "after" / segment).open("r+b") as file:
        file.seek(tail)
        file.write(old)
    with opened(tmp_path / "after") as after:
        assert after.has(1) == [False]


def test_a_crash_between_removal_and_punch_is_punched_at_the_next_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "before") as bench:
        bench.put(1, subject=ALICE)
        bench.tier.flush()
        with monkeypatch.context() as patched:
            patched.setattr(bench.mount.holes, "_punch", lambda place, size: None)
            bench.remove(1)
            assert bench.files_hold(body(1, 10_000)[100:132])
            after = crash(bench, tmp_path / "after")
        assert after.has(1) == [False]
        assert after.files_hold(body(1, 10_000)[100:132]) == []
        after.close()


def test_an_index_that_was_being_compacted_is_whole(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        for number in range(10):
            bench.put(number)
        bench.close()
        mount = bench.configs[0].path
        (mount / "index-00000002.tmp").write_bytes(b"half")  # cut off before its rename
        bench.open()
        assert all(bench.has(*range(10)))
        assert not (mount / "index-00000002.tmp").exists()
        bench.close()
        shutil.copy(mount / "index-00000001.mdb", mount / "index-00000002.mdb")  # cut off behind its rename
        bench.open()
        assert all(bench.has(*range(10)))
        assert not (mount / "index-00000001.mdb").exists()


@pytest.mark.parametrize("where", ["header", "header end", "body", "body end", "padding", "nothing"])
def test_a_torn_tail_is_dropped_and_what_is_whole_is_kept(tmp_path: Path, where: str) -> None:
    length = 30_000
    size = record_size(length)
    offsets = {"header": 8, "header end": PAGE - 1, "body": PAGE, "body end": PAGE + length - 1,
               "padding": PAGE + length, "nothing": size}  # fmt: skip
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        for number in range(4):
            bench.put(number, length)
        copied = tmp_path / "after"
        with bench.mount.index.writing:
            shutil.copytree(bench.root, copied, ignore=shutil.ignore_patterns("*-lock", "lock"))
        segment = copied / "m0" / "segments" / "00000001.seg"
        with segment.open("r+b") as file:  # of the third record, nothing behind the offset reached the medium
            file.seek(2 * size + offsets[where])
            file.write(bytes(size - offsets[where]))
        after = Bench(copied)
        whole = where in ("padding", "nothing")
        assert after.has(0, 1, 2, 3) == [True, True, whole, True]
        assert all(after.get(number) == body(number, length) for number in (0, 1, 3))
        assert after.put(9, length) is PutStatus.STORED
        after.reopen()
        assert after.has(0, 1, 2, 3, 9) == [True, True, whole, True, True]
        after.close()


def test_torn_at_any_byte(tmp_path: Path) -> None:
    """Cut the last record at random bytes, and flip random bytes of it: it is whole or absent, the rest is there."""
    chance = random.Random(7)
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        for number in range(3):
            bench.put(number, 9000)
        base = tmp_path / "base"
        with bench.mount.index.writing:
            shutil.copytree(bench.root, base, ignore=shutil.ignore_patterns("*-lock", "lock"))
    size = record_size(9000)
    for attempt in range(25):
        copied = tmp_path / f"torn{attempt}"
        shutil.copytree(base, copied)
        at = 2 * size + chance.randrange(PAGE + 9000)
        with (copied / "m0" / "segments" / "00000001.seg").open("r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 0x40]) if attempt % 2 else bytes(3 * size - at))
        after = Bench(copied)
        assert after.has(0, 1) == [True, True]
        assert after.get(2) in (None, body(2, 9000))
        assert attempt % 2 == 0 or after.get(2) is None
        after.close()
        shutil.rmtree(copied)


def test_a_header_inside_a_clients_bytes_is_not_taken_for_a_record(tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other:
        other.put(1, 5000)
        other.tier.flush()
        forged = (tmp_path / "other/m0/segments/00000001.seg").read_bytes()[: record_size(5000)]
    with opened(tmp_path / "before") as bench:
        hold_commits(bench)
        bench.put(2, 3 * len(forged))
        after_root = tmp_path / "after"
        with bench.mount.index.writing:
            shutil.copytree(bench.root, after_root, ignore=shutil.ignore_patterns("*-lock", "lock"))
    with (after_root / "m0/segments/00000001.seg").open("r+b") as file:
        file.write(bytes(PAGE))  # its own header is torn; the bytes behind it are the client's
        file.write(forged)
    with opened(after_root) as after:
        assert after.has(1, 2) == [False, False]


WRITER = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.store.segments_bench import Bench
from kvctl.connector.wire import PutStatus
bench = Bench(Path({mount!r}), segment_size=4 << 20)
def work(start):
    number = start
    while True:
        if bench.put(number, 20_000 + number % 50_000) is PutStatus.STORED:
            os.write(1, b"+%d\\n" % number)
        if number % 5 == 4:
            os.write(1, b"?%d\\n" % (number - 2))
            bench.remove(number - 2)
            os.write(1, b"-%d\\n" % (number - 2))
        number += 1
for start in (0, 1_000_000, 2_000_000):
    threading.Thread(target=work, args=(start,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("lines", [40, 400])
def test_killed_while_writing(tmp_path: Path, lines: int) -> None:
    """kill -9: what was acknowledged as durable is there, what was removed is not, and nothing reads back wrong."""
    (tmp_path / "m0").mkdir()
    code = WRITER.format(root=str(ROOT), mount=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        ledger = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        ledger += process.stdout.readlines()
    rows = [(line[:1], int(line[1:])) for line in ledger if line.endswith(b"\n")]
    stored = {number for sign, number in rows if sign == b"+"}
    going = {number for sign, number in rows if sign == b"?"}
    removed = {number for sign, number in rows if sign == b"-"}
    with opened(tmp_path, segment_size=4 << 20) as bench:
        assert len(stored) > lines // 3
        for number in stored - going:
            assert bench.get(number) == body(number, 20_000 + number % 50_000)
        assert not any(bench.has(*removed))
        result = bench.tier.scrub(lambda: False)
        assert result.bad == ()
        assert result.chunks == len(list(bench.tier.walk()))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount of its own: run the tests as root")
def test_a_full_filesystem(tmp_path: Path) -> None:
    """A real ext4 of 48 MiB in a mount namespace: PUT says full, GET goes on, removal works and makes room."""
    code = FULL.format(root=str(ROOT), base=str(tmp_path))
    script = (
        f"truncate -s 48M {tmp_path}/image && mkfs.ext4 -q -F -m 0 {tmp_path}/image && mkdir {tmp_path}/m0 "
        f'&& mount -o loop {tmp_path}/image {tmp_path}/m0 && exec {sys.executable} -c "$0"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, code],
        capture_output=True, text=True, timeout=60, cwd=ROOT,
    )  # fmt: skip
    if done.returncode == 32:  # mount(8): it could not mount
        pytest.skip("loop devices cannot be mounted here: run on a host that has them")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["full", "reads", "removes", "writes", "reopens"]


FULL = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from kvctl.connector.wire import PutStatus
from tests.store.segments_bench import Bench, body
bench = Bench(Path({base!r}), segment_size=8 << 20)
kept = []
for number in range(200):
    answer = bench.put(number, 500_000)
    if answer is not PutStatus.STORED:
        break
    kept.append(number)
assert answer is PutStatus.FULL and len(kept) > 20, (answer, kept)
assert bench.tier.stat().places[0].state == "full"
print("full")
assert all(bench.get(number) == body(number, 500_000) for number in kept)
print("reads")
assert bench.remove(*kept[::2]) == len(kept[::2])
bench.tier.flush()
print("removes")
bench.steady += 2
assert bench.put(900, 500_000) is PutStatus.STORED
assert bench.tier.stat().places[0].state == "ok"
print("writes")
bench.reopen()
assert all(bench.get(number) == body(number, 500_000) for number in [*kept[1::2], 900])
assert not any(bench.has(*kept[::2]))
bench.close()
print("reopens")
"""


def test_a_volume_without_its_number_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        bench.put(1)
        bench.close()
        (tmp_path / "m0/volume").rename(tmp_path / "kept")
        with pytest.raises(KvctlError) as refused:
            bench.open()
        assert refused.value.code == "KV-STORE-045"
        (tmp_path / "kept").rename(tmp_path / "m0/volume")
        bench.open()


def test_many_threads_write_read_and_remove_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, mounts=2, segment_size=2 << 20) as bench:
        wrong: list[object] = []

        def work(start: int) -> None:
            for number in range(start, start + 60):
                if bench.put(number, 40_000, durable=number % 3 == 0) is not PutStatus.STORED:
                    wrong.append(number)
                if bench.get(number) != body(number, 40_000):
                    wrong.append(number)
                if number % 4 == 3 and bench.remove(number - 1) != 1:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            bench.tier.compact()
            bench.tier.erase_subject(ACME, ALICE)
        assert wrong == []
        bench.reopen()
        assert sum(record.stored_at == NOW for _, record in bench.tier.walk()) == 6 * 45


def test_a_reading_never_sees_a_hole(tmp_path: Path) -> None:
    """Readers from the drive beside removal, compaction and a new index: the right bytes or none."""
    with opened(tmp_path, segment_size=512 << 10) as bench:
        wrong: list[int] = []
        hits = [0]
        stop = threading.Event()

        def look(seed: int) -> None:
            chance = random.Random(seed)
            while not stop.is_set():
                number = chance.randrange(40)
                data = bench.get(number)
                hits[0] += data is not None
                if data not in (None, body(number, 30_000)):
                    wrong.append(number)

        threads = [threading.Thread(target=look, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(12):
            for number in range(40):
                bench.put(number, 30_000, durable=False)
            bench.remove(*(number for number in range(40) if number % 8))
            bench.tier.compact()
            bench.mount.index.compact()
            bench.remove(*range(turn % 2, 40, 2))
        stop.set()
        for thread in threads:
            thread.join()
        assert hits[0] > 10
        assert wrong == []


def hold_commits(bench: Bench) -> None:
    """Keep the upkeep thread from committing: what is pending stays pending until something commits it."""
    bench.mount.settle = lambda: None  # type: ignore[method-assign]
