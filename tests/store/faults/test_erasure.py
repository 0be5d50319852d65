"""Erasure, searched for byte by byte: what was recorded before is in no file of the mounts afterwards, nor on a drive.

What is searched for: windows of each chunk's sealed bytes, its key, its checksum and its subject's pseudonym.
"""

import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from xxhash import xxh3_128_digest

from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import NEVER, NO_SUBJECT, Ack, Meta, Scope
from tests.store.faults.ledger import Chunk, Ledger
from tests.store.faults.medium import Image, OnImages, needs_root, nothing_left
from tests.store.faults.record import locate, search
from tests.store.faults.rig import ACME, ZEN, Kvstored, await_that

OTHER_DOMAIN = Scope("acme", "agents", bytes(range(40, 56)))
NEXT_EPOCH = Scope("acme", "users", bytes(range(60, 76)))
ALICE, BOB = bytes(range(100, 116)), bytes(range(200, 216))
WINDOW = 64
WINDOWS = 6
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Traces:
    """What a disk holds of some chunks, recorded while they were there."""

    fragments: tuple[bytes, ...]

    @classmethod
    def of(cls, root: Path, chunks: Sequence[Chunk]) -> "Traces":
        rng = random.Random(9)
        fragments: set[bytes] = set()
        for seed, record in locate(root, chunks).items():
            sealed = record.read()
            ends = (0, len(sealed) - WINDOW)
            for at in (*ends, *(rng.randrange(ends[1]) for _ in range(WINDOWS - 2))):
                fragments.add(sealed[at : at + WINDOW])
            chunk = next(one for one in chunks if one.seed == seed)
            fragments |= {chunk.key, xxh3_128_digest(sealed)}
        return cls(tuple(fragments))

    def found(self, *roots: Path) -> dict[bytes, str]:
        return {fragment: where for root in roots for fragment, where in search(root, self.fragments).items()}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Kvstored]:
    made = Kvstored(tmp_path, mounts=2)
    made.open()
    yield made
    made.end()


def fill(daemon: Kvstored) -> Ledger:
    """Chunks of two tenants, two domains, two epochs and two subjects, some of which end."""
    ledger = Ledger()
    with daemon.client() as client:
        for number in range(4):
            for scope in (ACME, ZEN, OTHER_DOMAIN, NEXT_EPOCH):
                for subject in (NO_SUBJECT, ALICE, BOB):
                    ends = 4_000_000_000 if number == 3 else NEVER
                    meta = Meta(expires_at=ends, subject=subject, position=number)
                    chunk = ledger.new(scope, (5000, 70_001, 300_000)[number % 3], meta)
                    assert ledger.put(client, daemon.lease(scope), chunk, Ack.DURABLE) is PutStatus.STORED
                    ledger.read(client, daemon.lease(scope), [chunk])
    daemon.post_ok("POST", "/v1/flush", {})
    return ledger


def of(ledger: Ledger, *scopes: Scope, subjects: tuple[bytes, ...] = (NO_SUBJECT, ALICE, BOB)) -> list[Chunk]:
    return [chunk for chunk in ledger.chunks if chunk.scope in scopes and chunk.meta.subject in subjects]


def judge(daemon: Kvstored, ledger: Ledger, gone: list[Chunk], before: Traces, kept: Traces, roots: list[Path]) -> None:
    """The erased are missed at once and nowhere to be found; the others answer and are all still there."""
    for chunk in gone:
        chunk.erased = True
    with daemon.client() as client:
        for chunk in ledger.chunks:
            (status,) = ledger.read(client, daemon.lease(chunk.scope), [chunk])
            assert status is (Got.MISS if chunk in gone else Got.HIT)
    assert before.found(*roots) == {}
    assert len(kept.found(*roots)) == len(kept.fragments)
    daemon.restart()
    ledger.audit(daemon, ledger.chunks)
    assert not ledger.wrong
    assert before.found(*roots) == {}


def recorded(roots: list[Path], ledger: Ledger, gone: list[Chunk]) -> tuple[Traces, Traces]:
    rest = [chunk for chunk in ledger.chunks if chunk not in gone]
    both = []
    for chunks in (gone, rest):
        held = [split(root, chunks) for root in roots]
        assert sum(map(len, held)) == len(chunks)
        parts = [Traces.of(root, mine) for root, mine in zip(roots, held, strict=True) if mine]
        both.append(Traces(tuple(fragment for part in parts for fragment in part.fragments)))
    assert len(both[0].found(*roots)) == len(both[0].fragments), "the search finds what is there"
    return both[0], both[1]


def split(root: Path, chunks: list[Chunk]) -> list[Chunk]:
    """Those of the chunks whose record is below `root`."""
    there = search(root / "segments", [chunk.key for chunk in chunks])
    return [chunk for chunk in chunks if chunk.key in there]


def test_by_scope(daemon: Kvstored):
    ledger = fill(daemon)
    gone = of(ledger, ACME)
    erased, kept = recorded(daemon.mounts, ledger, gone)
    removed = daemon.erase(ACME)
    assert removed["flash"] == len(gone)
    judge(daemon, ledger, gone, erased, kept, daemon.mounts)


def test_by_subject_in_all_domains_and_epochs(daemon: Kvstored):
    ledger = fill(daemon)
    gone = of(ledger, ACME, OTHER_DOMAIN, NEXT_EPOCH, subjects=(ALICE,))
    erased, kept = recorded(daemon.mounts, ledger, gone)
    removed = daemon.erase(tenant="acme", subject=ALICE)
    assert removed["flash"] == len(gone)
    judge(daemon, ledger, gone, erased, kept, daemon.mounts)


def test_a_subjects_pseudonym_is_nowhere_when_all_its_chunks_are_gone(daemon: Kvstored):
    ledger = fill(daemon)
    assert search_all(daemon.mounts, ALICE)
    for tenant in ("acme", "zen"):
        daemon.erase(tenant=tenant, subject=ALICE)
    assert not search_all(daemon.mounts, ALICE)
    assert search_all(daemon.mounts, BOB)
    assert len(of(ledger, ACME, subjects=(BOB,))) == 4


def search_all(roots: list[Path], fragment: bytes) -> dict[bytes, str]:
    return {name: where for root in roots for name, where in search(root, [fragment]).items()}


def test_an_old_epochs_chunks_do_not_exist_and_the_new_ones_do(daemon: Kvstored):
    """What becomes of a rotated key's chunks; the same text under the new epoch has other names and other bytes."""
    ledger = fill(daemon)
    gone = of(ledger, ACME)
    erased, kept = recorded(daemon.mounts, ledger, gone)
    names = search_all(daemon.mounts, ACME.epoch)
    assert names
    daemon.erase(ACME)
    assert not search_all(daemon.mounts, ACME.epoch), "the epoch's own name is gone as well"
    judge(daemon, ledger, gone, erased, kept, daemon.mounts)


def test_twice_and_of_nothing(daemon: Kvstored):
    ledger = fill(daemon)
    daemon.erase(ACME)
    assert not any(daemon.erase(ACME).values())
    assert not any(daemon.erase(tenant="nobody", subject=ALICE).values())
    for chunk in of(ledger, ACME):
        chunk.erased = True
    ledger.audit(daemon, ledger.chunks)
    assert not ledger.wrong


def test_an_erasure_that_was_cut_by_a_kill_is_whole_after_the_next_one(daemon: Kvstored):
    """What a crash left unpunched is punched by the retry, so that an acknowledgement means the same as ever."""
    ledger = fill(daemon)
    gone = of(ledger, ACME)
    erased, kept = recorded(daemon.mounts, ledger, gone)
    connection = daemon.raw(f"unix:{daemon.folder}/admin.sock")
    body = f'{{"tenant": "acme", "domain": "users", "epoch": "{ACME.epoch.hex()}"}}'
    head = f"POST /v1/erase HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall((head + body).encode())
    with daemon.client() as client:
        await_that(lambda: Got.MISS in ledger.read(client, daemon.lease(), gone), "the erasure has begun")
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    ledger.wrong.clear()  # a miss was what this waited for
    daemon.open()
    daemon.erase(ACME)
    judge(daemon, ledger, gone, erased, kept, daemon.mounts)


@needs_root
def test_the_drive_itself(tmp_path: Path):
    """The image is searched, free blocks included: with `discard`, what was punched leaves the drive too."""
    image = Image(tmp_path / "drive.img", 128 * MIB)
    image.make()
    daemon = OnImages(tmp_path, capacity="1GiB")
    daemon.mount(image)
    daemon.open()
    try:
        ledger = fill(daemon)
        gone = of(ledger, ACME)
        inside = daemon.inside(daemon.mounts[0])
        erased, kept = recorded([inside], ledger, gone)
        daemon.enter("sync", "--file-system", str(daemon.mounts[0]))
        assert len(erased.found(image.path)) == len(erased.fragments), "the search finds what is there"
        daemon.erase(ACME)
        daemon.enter("sync", "--file-system", str(daemon.mounts[0]))
        await_that(lambda: not erased.found(image.path), "the drive holds nothing of it any more", 20)
        assert len(kept.found(image.path)) == len(kept.fragments)
    finally:
        daemon.end()
    await_that(lambda: nothing_left(tmp_path), "loop devices and mounts are gone")
