"""Disks that are full, break or go away under a running kvstored: PUT says so, GET of what is healthy goes on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Ack, Meta
from tests.store.faults.ledger import Chunk, Ledger
from tests.store.faults.medium import Image, OnImages, fill, needs_root, nothing_left
from tests.store.faults.rig import ACME, Kvstored, await_that

MIB = 1 << 20
BASE_MEMORY = 160 << 20  # anonymous memory of the daemon apart from its `ram`
REFUSED = (PutStatus.FULL, PutStatus.FAILED, PutStatus.BUSY)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[OnImages]:
    """Two mounts; the test says on what."""
    made = OnImages(tmp_path, capacity="1GiB", ram="160MiB", mounts=2)
    yield made
    made.end()
    await_that(lambda: nothing_left(tmp_path), "loop devices and mounts are gone")


def two(images: OnImages, folder: Path, size: int) -> tuple[Image, Image]:
    """A file system of `size` bytes on each mount."""
    made = Image(folder / "first.img", size), Image(folder / "second.img", size)
    for image in made:
        image.make()
    images.mount(*made)
    return made


def stored(
    ledger: Ledger, client: StoreClient, daemon: Kvstored, count: int, length: int = MIB, ack: Ack = Ack.DURABLE
) -> list[PutStatus]:
    return [ledger.put(client, daemon.lease(), ledger.new(ACME, length, Meta(position=at)), ack) for at in range(count)]


def statuses(ledger: Ledger, client: StoreClient, daemon: Kvstored, chunks: list[Chunk]) -> list[Got]:
    found = []
    for chunk in chunks:
        found += ledger.read(client, daemon.lease(), [chunk])
    return found


def put_again(ledger: Ledger, client: StoreClient, daemon: Kvstored) -> None:
    """Wait until a durable PUT is taken; the medium is tried again after a while."""

    def taken() -> bool:
        return stored(ledger, client, daemon, 1) == [PutStatus.STORED]

    await_that(taken, "a PUT is taken again", 45)


@needs_root
def test_a_full_disk_refuses_puts_and_serves_gets(images: OnImages, tmp_path: Path):
    small = Image(tmp_path / "small.img", 96 * MIB)
    images.mounts = images.mounts[:1]
    images.sections["tiers"]["flash"]["mounts"].pop()
    images.write()
    small.make()
    images.mount(small)
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert set(stored(ledger, client, images, 10)) == {PutStatus.STORED}
        healthy = list(ledger.chunks)
        filler = images.inside(images.mounts[0] / "filler")
        fill(filler, 4 * MIB)
        refused = stored(ledger, client, images, 12)
        assert set(refused) <= {PutStatus.STORED, *REFUSED}
        assert PutStatus.FULL in refused
        assert images.place(images.mounts[0])["state"] == "full"
        assert images.place(images.mounts[0])["why"]
        visible = stored(ledger, client, images, 4, ack=Ack.VISIBLE)
        assert set(visible) <= {PutStatus.STORED, *REFUSED}
        assert statuses(ledger, client, images, healthy) == [Got.HIT] * 10
        assert images.page("/healthz")[0] == 200, "a full disk can be read"
        filler.unlink()
        put_again(ledger, client, images)
        assert images.place(images.mounts[0])["state"] == "ok"
    images.restart()
    with images.client() as client:
        assert statuses(ledger, client, images, healthy) == [Got.HIT] * 10
        durable = [chunk for chunk in ledger.chunks if chunk.durable]
        assert set(statuses(ledger, client, images, durable)) == {Got.HIT}
    assert not ledger.wrong


@needs_root
def test_a_full_disk_can_be_erased(images: OnImages, tmp_path: Path):
    """Forgetting needs space in the index; it must be had when there is none."""
    small = Image(tmp_path / "small.img", 64 * MIB)
    images.mounts = images.mounts[:1]
    images.sections["tiers"]["flash"]["mounts"].pop()
    images.write()
    small.make()
    images.mount(small)
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        stored(ledger, client, images, 10)
        fill(images.inside(images.mounts[0] / "filler"), 0)
        stored(ledger, client, images, 6)
        images.erase(ACME)
        assert set(statuses(ledger, client, images, ledger.chunks)) == {Got.MISS}
    assert not ledger.wrong


@needs_root
def test_a_disk_that_cannot_be_read_leaves_the_other_alone(images: OnImages, tmp_path: Path):
    """The bad one's image is cut off behind its back: reads end with EIO."""
    bad = two(images, tmp_path, 200 * MIB)[1]
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert set(stored(ledger, client, images, 24)) == {PutStatus.STORED}
        images.restart()  # out of RAM
    with images.client() as client:
        on_bad = lies_on(images, ledger.chunks, 1)
        assert 0 < len(on_bad) < 24, "both mounts hold chunks"
        os.truncate(bad.path, MIB)
        found = statuses(ledger, client, images, ledger.chunks)
        for chunk, status in zip(ledger.chunks, found, strict=True):
            assert status is Got.HIT if chunk not in on_bad else status is not Got.CORRUPT
        assert any(status is Got.MISS for status in found), "nothing was read from the bad disk"
        place = images.place(images.mounts[1])
        assert (place["state"], bool(place["why"])) == ("failed", True)
        assert images.place(images.mounts[0])["state"] == "ok"
        put_again(ledger, client, images)
        assert images.page("/healthz")[0] == 200
        told = images.post_ok("POST", "/v1/scrub", {"tier": "flash"})
        assert told["bad"] == [], "what cannot be read is not what was found to be wrong"
    assert images.alive
    assert images.vitals().memory < (160 << 20) + BASE_MEMORY
    assert not ledger.wrong


def lies_on(daemon: OnImages, chunks: list[Chunk], number: int) -> list[Chunk]:
    """Chunks whose sealed head is found in the segments of a mount."""
    folder = daemon.inside(daemon.mounts[number] / "segments")
    data = b"".join(path.read_bytes()[: 64 * MIB] for path in sorted(folder.glob("*.seg")))
    return [chunk for chunk in chunks if chunk.key in data]


@needs_root
def test_a_disk_that_dies_leaves_the_other_alone(images: OnImages, tmp_path: Path):
    """Reads, writes and syncs of the bad one, of segments and index, end with EIO from one moment on."""
    two(images, tmp_path, 400 * MIB)
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert set(stored(ledger, client, images, 24)) == {PutStatus.STORED}
    images.restart()
    with images.client() as client:
        on_bad = lies_on(images, ledger.chunks, 1)
        images.break_down(images.mounts[1])
        said = stored(ledger, client, images, 40, 300_000)
        assert set(said) <= {PutStatus.STORED, *REFUSED}
        assert said[-5:] == [PutStatus.STORED] * 5, "the good disk takes what comes"
        place = images.place(images.mounts[1])
        assert (place["state"], bool(place["why"])) == ("failed", True)
        for chunk, status in zip(ledger.chunks, statuses(ledger, client, images, ledger.chunks), strict=True):
            assert status is Got.HIT if chunk.durable and chunk not in on_bad else status is not Got.CORRUPT
        status, told = images.admin("POST", "/v1/erase", {"tenant": "acme", "subject": "ab" * 16})
        assert (status, told["code"], told["where"]) == (500, "KV-STORE-046", str(images.mounts[1]))
        assert images.page("/healthz")[0] == 200
        assert images.vitals().memory < (160 << 20) + BASE_MEMORY
    assert images.alive
    assert not ledger.wrong


@needs_root
def test_a_disk_whose_index_was_never_read_to_its_end(images: OnImages, tmp_path: Path):
    """Pages of the index that the drive no longer gives must not end the process: a mapping answers with SIGBUS."""
    bad = two(images, tmp_path, 200 * MIB)[1]
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert set(stored(ledger, client, images, 1500, 5000, Ack.VISIBLE)) == {PutStatus.STORED}
    images.restart()
    os.truncate(bad.path, MIB)
    with images.client() as client:
        there = client.has(images.lease(), [chunk.key for chunk in ledger.chunks])
        assert any(there)
        assert Got.CORRUPT not in statuses(ledger, client, images, ledger.chunks[::10])
        put_again(ledger, client, images)
    assert images.alive
    assert not ledger.wrong


@needs_root
def test_a_mount_that_is_gone(images: OnImages, tmp_path: Path):
    """Unmounted lazily: open files live on, names do not. Nothing may be written where the mount was."""
    two(images, tmp_path, 200 * MIB)
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert set(stored(ledger, client, images, 16)) == {PutStatus.STORED}
        images.enter("umount", "--lazy", str(images.mounts[1]))
        found = statuses(ledger, client, images, ledger.chunks)
        assert found == [Got.HIT] * 16, "open files can be read, or they come from RAM"
        stored(ledger, client, images, 8)
        status, told = images.admin(
            "POST", "/v1/erase", {"tenant": "acme", "domain": "users", "epoch": ACME.epoch.hex()}
        )
        assert (status, told["code"], told["where"]) == (500, "KV-STORE-046", str(images.mounts[1]))
        assert images.place(images.mounts[1])["state"] == "failed"
        assert stored(ledger, client, images, 4) == [PutStatus.STORED] * 4
    left = sorted(path.name for path in images.mounts[1].rglob("*"))
    assert not [name for name in left if name.endswith((".mdb", ".seg"))], left
    images.kill()
    images.open()  # mounts both again
    images.erase(ACME)
    with images.client() as client:
        assert set(statuses(ledger, client, images, ledger.chunks)) == {Got.MISS}
    assert not ledger.wrong


def test_a_mount_that_is_not_there_at_the_start(tmp_path: Path):
    daemon = Kvstored(tmp_path, mounts=2)
    ledger = Ledger(evicts=True)
    try:
        daemon.open()
        with daemon.client() as client:
            assert set(stored(ledger, client, daemon, 20, 100_000)) == {PutStatus.STORED}
        assert daemon.stop() == 0
        daemon.mounts[1].rename(tmp_path / "away")
        daemon.open()
        place = daemon.place(daemon.mounts[1])
        assert (place["state"], bool(place["why"])) == ("failed", True)
        with daemon.client() as client:
            found = statuses(ledger, client, daemon, ledger.chunks)
            assert set(found) == {Got.HIT, Got.MISS}
            assert stored(ledger, client, daemon, 1) == [PutStatus.STORED]
    finally:
        daemon.end()
    assert not ledger.wrong


def pressed(ledger: Ledger, client: StoreClient, daemon: Kvstored, count: int) -> list[PutStatus]:
    """What became of so many chunks; under pressure, a chunk comes in at its second PUT."""
    said = []
    for _ in range(count):
        chunk = ledger.new(ACME, MIB, Meta())
        status = ledger.put(client, daemon.lease(), chunk, Ack.DURABLE)
        if status is PutStatus.NOT_ADMITTED:
            status = ledger.put(client, daemon.lease(), chunk, Ack.DURABLE)
        said.append(status)
    return said


def test_the_mounts_that_are_left_make_room(tmp_path: Path):
    """With one of two mounts gone the other fills, and then old chunks leave for new ones, as always."""
    daemon = Kvstored(tmp_path, mounts=2, capacity="64MiB")
    ledger = Ledger(evicts=True)
    try:
        daemon.mounts[1].rmdir()
        daemon.open()
        with daemon.client() as client:
            assert pressed(ledger, client, daemon, 120)[-10:] == [PutStatus.STORED] * 10
    finally:
        daemon.end()
    assert not ledger.wrong


@needs_root
def test_a_disk_that_dies_when_all_is_full(images: OnImages, tmp_path: Path):
    """Its chunks cannot leave it; the others' can, and new ones come in."""
    for place in images.sections["tiers"]["flash"]["mounts"]:
        place["capacity"] = "64MiB"
    images.write()
    two(images, tmp_path, 200 * MIB)
    images.open()
    ledger = Ledger(evicts=True)
    with images.client() as client:
        assert pressed(ledger, client, images, 150)[-10:] == [PutStatus.STORED] * 10
        images.break_down(images.mounts[1])
        said = pressed(ledger, client, images, 120)
        print([status.name for status in said], images.stat()["counters"])
        assert said[-10:] == [PutStatus.STORED] * 10
        assert Got.CORRUPT not in statuses(ledger, client, images, ledger.chunks)
    assert images.metric('kvstored_refusals_total{reason="internal"}') == 0
    assert not ledger.wrong
