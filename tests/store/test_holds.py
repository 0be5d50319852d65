"""Holds and frozen chunks on their own: what they match, what survives, what waits."""

import threading
from pathlib import Path

import pytest

from kvctl.store.frozen import Frozen
from kvctl.store.holds import Hold, Holds, HoldSet
from kvctl.types.chunks import Meta, Scope
from kvctl.types.errors import KvctlError, RefusedError

SCOPE = Scope("acme", "users", b"e" * 16)
OTHER = Scope("acme", "agents", b"f" * 16)
ALICE, MODEL, KEY = b"a" * 16, b"m" * 16, b"k" * 32


def given(version: int, **hold: str) -> HoldSet:
    return HoldSet(version=version, holds=(Hold(id="h", **{"tenant": "acme", **hold}),))


@pytest.mark.parametrize(
    ("hold", "scope", "meta", "stays"),
    [
        ({}, SCOPE, Meta(), True),
        ({"tenant": "globex"}, SCOPE, Meta(), False),
        ({"domain": "users"}, SCOPE, Meta(), True),
        ({"domain": "users"}, OTHER, Meta(), False),
        ({"subject": ALICE.hex()}, SCOPE, Meta(subject=ALICE), True),
        ({"subject": ALICE.hex()}, SCOPE, Meta(), False),
        ({"model": MODEL.hex()}, SCOPE, Meta(model=MODEL), True),
        ({"model": MODEL.hex(), "subject": ALICE.hex()}, SCOPE, Meta(model=MODEL), False),
    ],
)
def test_a_hold_is_of_what_matches_all_that_it_names(hold, scope, meta, stays):
    holds = Holds()
    holds.replace(given(1, **hold))
    assert holds.now(scope, KEY, meta) is stays


def test_a_set_is_in_force_only_when_removals_by_the_older_one_are_over():
    holds, inside, leave, done = Holds(), threading.Event(), threading.Event(), threading.Event()

    def remove() -> None:
        with holds.deciding() as held:
            assert not held(SCOPE, KEY, Meta())
            inside.set()
            leave.wait(10)

    def push() -> None:
        holds.replace(given(1))
        done.set()

    remover, pusher = threading.Thread(target=remove), threading.Thread(target=push)
    remover.start()
    assert inside.wait(10)
    pusher.start()
    assert not done.wait(0.2)
    with holds.deciding():
        pass  # a removal that begins now does not wait
    leave.set()
    assert done.wait(10)
    remover.join()
    pusher.join()


def test_what_cannot_be_read_back_is_not_taken_for_nothing(tmp_path: Path):
    file = tmp_path / "holds.json"
    Holds(file).replace(given(5))
    assert Holds(file).now(SCOPE, KEY, Meta())
    with pytest.raises(RefusedError):
        Holds(file).replace(given(5, domain="other"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(KvctlError) as wrong:
        Holds(file)
    assert wrong.value.code == "KV-STORE-025"


def test_frozen_names_survive_and_a_torn_line_is_dropped(tmp_path: Path):
    file = tmp_path / "state" / "frozen.jsonl"
    frozen = Frozen(file)
    keys = [bytes([n]) * 32 for n in range(4)]
    frozen.add(SCOPE, keys[:3])
    frozen.add(OTHER, keys[3:])
    frozen.discard(SCOPE, keys[:1])
    assert (Frozen(file).of(SCOPE), Frozen(file).of(OTHER)) == ({keys[1], keys[2]}, {keys[3]})
    with file.open("ab") as torn:
        torn.write(b'{"tenant": "ac')
    assert len(Frozen(file)) == 3
    file.write_bytes(b"nonsense\n" + file.read_bytes())
    with pytest.raises(KvctlError) as wrong:
        Frozen(file)
    assert wrong.value.code == "KV-STORE-026"
