"""Pairs of chunk and subject: against a model, over reopening and rewriting."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.store.lineage import Lineage
from kvctl.types.chunks import Scope

SCOPES = [Scope("acme", "users", b"e" * 16), Scope("acme", "users", b"f" * 16)]
MAP = 16 << 20
one = st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 3))
steps = st.lists(st.tuples(st.sampled_from(["see", "gone", "wipe", "reopen", "sweep"]), one), max_size=20)


def key(number: int) -> bytes:
    return bytes([number + 1]) * 32


def subject(number: int) -> bytes:
    return bytes([number + 65]) * 16


@settings(deadline=None, max_examples=40)  # every step waits for the disk
@given(steps)
def test_pairs_are_those_of_chunks_that_are_there(tmp_path_factory: pytest.TempPathFactory, todo):
    directory = tmp_path_factory.mktemp("lineage")
    pairs, model, lost = Lineage(directory, MAP), set(), set()

    def there(scope: Scope, name: bytes) -> bool:
        return (scope, name) not in lost

    for what, (at, number, who) in todo:
        scope = SCOPES[at]
        if what == "see":
            lost.discard((scope, key(number)))
            fresh = pairs.see(scope, subject(who), [key(number), key(9)], lambda name: name != key(9))
            assert bool(fresh) is ((scope, key(number), subject(who)) not in model)
            model.add((scope, key(number), subject(who)))
        elif what == "gone":
            lost.add((scope, key(number)))
            pairs.gone(scope, [key(number)])
            pairs.tidy(there)
            model = {row for row in model if row[:2] != (scope, key(number))}
        elif what == "wipe":
            pairs.wipe()
        elif what == "sweep":
            pairs.sweep(SCOPES, there)
        else:
            pairs.close()
            pairs = Lineage(directory, MAP)
    for scope in SCOPES:
        for number in range(6):
            users = {who for owner, name, who in model if (owner, name) == (scope, key(number))}
            assert pairs.subjects_of(scope, key(number)) == users
        for who in map(subject, range(4)):
            used = {name for owner, name, user in model if (owner, user) == (scope, who)}
            assert set(pairs.keys_of(scope, who)) == used
    pairs.close()


def test_a_rewriting_leaves_nothing_of_what_went_and_survives_being_cut_short(tmp_path: Path):
    pairs = Lineage(tmp_path, MAP)
    pairs.see(SCOPES[0], subject(0), [key(1)], lambda name: True)
    pairs.see(SCOPES[0], subject(1), [key(2)], lambda name: True)
    pairs.gone(SCOPES[0], [key(1)])
    pairs.tidy(lambda scope, name: False)
    pairs.wipe()
    assert not any(subject(0) in file.read_bytes() for file in tmp_path.iterdir())
    pairs.close()
    (tmp_path / "pairs.old").hardlink_to(tmp_path / "pairs.mdb")  # cut short before the new file was in its place
    (tmp_path / "pairs.new").write_bytes(subject(0))
    again = Lineage(tmp_path, MAP)
    assert again.keys_of(SCOPES[0], subject(1)) == [key(2)]
    assert {file.name for file in tmp_path.iterdir()} <= {"pairs.mdb", "pairs.mdb-lock"}
    again.close()


def test_a_scope_that_is_nowhere_has_no_pairs(tmp_path: Path):
    pairs = Lineage(tmp_path, MAP)
    for scope in SCOPES:
        pairs.see(scope, subject(0), [key(1)], lambda name: True)
    pairs.sweep(SCOPES[:1], lambda scope, name: True)
    assert [len(pairs.keys_of(scope, subject(0))) for scope in SCOPES] == [1, 0]
    pairs.close()
