"""Moving chunks between flash and objects, with the mover killed in between."""

import multiprocessing
import os
import random
import signal
from pathlib import Path

from kvctl.store.buffers import BufferPool
from kvctl.store.journal import Journal
from kvctl.store.move import move
from kvctl.store.ram import RamTier
from kvctl.store.s3 import S3Tier, Settings
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.types.chunks import TierName
from tests.store.s3.made import MIB, NOW, SCOPE, Opener, chunk, get, is_soon, put

CHUNKS = 60
SIZE = 50_000


def flash_in(root: Path) -> SegmentsTier:
    (root / "flash").mkdir(exist_ok=True)
    mount = MountConfig(root / "flash", 256 * MIB)
    pool = BufferPool(64 * MIB)
    return SegmentsTier(TierName.FLASH, [mount], pool, RamTier(0, lambda: NOW), lambda: NOW, segment_size=16 * MIB)


def objects_in(root: Path, settings: Settings) -> S3Tier:
    return S3Tier(settings, TierName.OBJECT, 1 << 40, root / "tier", BufferPool(64 * MIB), lambda: NOW, 64 * MIB)


def move_all(root: Path, settings: Settings, *, up: bool, slow: bool) -> None:
    """In a process of its own: move every chunk from flash to objects, or back."""
    flash, objects = flash_in(root), objects_in(root, settings)
    source, target = (flash, objects) if up else (objects, flash)
    names = [(SCOPE, chunk(number, SIZE)[0].key) for number in range(CHUNKS)]
    pace = 40 * SIZE if slow else None
    move(
        source, target, names, journal=root / f"journal-{up}", stop=lambda: False, pool=BufferPool(64 * MIB),
        clock=lambda: NOW, pace_bytes_per_second=pace,
    )  # fmt: skip
    flash.close()
    objects.close()


def check_nothing_lost(root: Path, settings: Settings) -> tuple[int, int]:
    """Every chunk can be read from a tier that has it; how many each tier has."""
    flash, objects = flash_in(root), objects_in(root, settings)
    try:
        keys = [chunk(number, SIZE)[0].key for number in range(CHUNKS)]
        in_flash, in_objects = flash.has(SCOPE, keys), objects.has(SCOPE, keys)
        for number, key in enumerate(keys):
            tiers = [tier for tier, has in ((flash, in_flash), (objects, in_objects)) if has[number]]
            assert tiers, f"chunk {number} is in no tier"
            assert all(get(tier, key) == chunk(number, SIZE)[1] for tier in tiers)
        return sum(in_flash), sum(in_objects)
    finally:
        flash.close()
        objects.close()


def run_and_kill(root: Path, settings: Settings, lines: int, *, up: bool) -> int:
    """Run a move until its journal has grown by so many lines, then SIGKILL; the exit code."""
    journal = root / f"journal-{up}"
    before = journal.read_bytes().count(b"\n") if journal.exists() else 0
    process = multiprocessing.get_context("spawn").Process(
        target=move_all, args=(root, settings), kwargs={"up": up, "slow": True}
    )
    process.start()
    assert process.pid is not None
    grown = is_soon(
        lambda: (
            process.exitcode is not None or (journal.exists() and journal.read_bytes().count(b"\n") >= before + lines)
        )
    )
    assert grown
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def test_a_move_killed_at_any_point_loses_nothing_and_is_finished_later(opener: Opener) -> None:
    root, settings, source = opener.path, opener.settings(), random.Random(os.getpid())
    flash = flash_in(root)
    for number in range(CHUNKS):
        put(flash, *chunk(number, SIZE))
    flash.close()
    for up in (True, False):
        for _ in range(2):
            run_and_kill(root, settings, source.randrange(1, 30), up=up)
            check_nothing_lost(root, settings)
        move_all(root, settings, up=up, slow=False)
        assert check_nothing_lost(root, settings) == ((0, CHUNKS) if up else (CHUNKS, 0))
        names = (TierName.FLASH, TierName.OBJECT) if up else (TierName.OBJECT, TierName.FLASH)
        book = Journal(root / f"journal-{up}", *names)
        book.close()
        assert book.open == {}
    objects = objects_in(root, settings)
    assert is_soon(lambda: opener.objects() == set())
    objects.close()


def test_a_move_to_an_endpoint_that_is_away_leaves_all_in_flash(opener: Opener) -> None:
    root, flash = opener.path, flash_in(opener.path)
    tier = opener(request_seconds=2.0)
    names = []
    for number in range(8):
        record, data = chunk(number, SIZE)
        put(flash, record, data)
        names.append((SCOPE, record.key))
    opener.cluster.kill("s3")
    try:
        done = move(
            flash, tier, names, journal=root / "journal", stop=lambda: False, pool=BufferPool(64 * MIB),
            clock=lambda: NOW,
        )  # fmt: skip
    finally:
        opener.cluster.start("s3")
    opener.cluster.wait_s3()

    assert (done.moved, done.ended, dict(done.failed)) == (0, "failures", {"target failed": 5})
    assert flash.has(SCOPE, [key for _, key in names]) == [True] * 8
    assert is_soon(lambda: tier.stat().writable)
    done = move(
        flash, tier, names, journal=root / "journal", stop=lambda: False, pool=BufferPool(64 * MIB), clock=lambda: NOW
    )
    assert done.moved == 8
    flash.close()
