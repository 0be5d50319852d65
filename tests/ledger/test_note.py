"""Signed notes against C2SP's examples, and what a reader refuses."""

import pytest

from kvctl.ledger.note import (
    COSIGNATURE,
    Checkpoint,
    NoteError,
    cosign,
    cosigned_at,
    ed25519_holds,
    key_id,
    open_note,
    parse_checkpoint,
    parse_verifier_key,
    sign,
    signatures,
    split_note,
    verifier_key,
)
from kvctl.types.errors import UsageError
from tests.ledger.site import ORIGIN, Key

# C2SP signed-note, section "Verifier keys", example
VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)


def test_the_example_of_the_specification():
    name, kind, public = parse_verifier_key(VKEY)
    text, lines = split_note(NOTE)
    (signature,) = signatures(lines, name, key_id(name, public))
    assert (name, kind) == ("example.com/foo", 1)
    assert ed25519_holds(public, signature, text.encode())
    assert verifier_key(name, public) == VKEY


@pytest.fixture(scope="module")
def key():
    return Key()


@pytest.fixture(scope="module")
def note(key):
    return sign(Checkpoint(ORIGIN, 20852163, bytes(range(32))), key)


def test_a_checkpoint_is_three_lines_and_a_signature(key, note):
    lines = note.split("\n")
    assert lines[:4] == [ORIGIN, "20852163", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ""]
    assert lines[4].startswith(f"— {ORIGIN} ")
    assert open_note(note, ORIGIN, key.public) == Checkpoint(ORIGIN, 20852163, bytes(range(32)))


def test_signatures_of_others_are_skipped(key, note):
    text = note + "— witness.example/w1 " + "AAAA" * 900 + "\n" + cosign(note, "witness.example/w2", Key(), 5)
    assert open_note(text, ORIGIN, key.public).size == 20852163


def test_every_changed_byte_is_refused(key, note):
    data = note.encode()
    for at in range(len(data)):
        for bit in (1, 4, 128):
            changed = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            try:
                text = changed.decode()
            except UnicodeDecodeError:
                continue
            with pytest.raises(NoteError):
                open_note(text, ORIGIN, key.public)


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "a\n1\n\n", f"{ORIGIN}\n1\n\nsigned\n", "a" * (2 << 20)],
)
def test_what_is_no_note(key, text):
    with pytest.raises(NoteError):
        open_note(text, ORIGIN, key.public)


@pytest.mark.parametrize("size", ["-1", "01", "1e3", "", "x", "٣", "9" * 30])
def test_a_size_that_is_no_number(size):
    with pytest.raises(NoteError):
        parse_checkpoint(f"{ORIGIN}\n{size}\n{'A' * 43}=\n")


def test_the_note_of_another_log_or_key(key, note):
    for origin, public in ((ORIGIN + "2", key.public), (ORIGIN, Key().public)):
        with pytest.raises(NoteError, match="no signature of"):
            open_note(note, origin, public)


def test_a_cosignature_has_its_time(note):
    witness = Key()
    line = cosign(note, "w.example/1", witness, 1_679_315_147)
    assert cosigned_at(note + line, "w.example/1", witness.public) == 1_679_315_147
    assert cosigned_at(note, "w.example/1", witness.public) is None
    assert cosigned_at(note + line, "w.example/1", Key().public) is None
    vkey = verifier_key("w.example/1", witness.public, COSIGNATURE)
    assert parse_verifier_key(vkey) == ("w.example/1", COSIGNATURE, witness.public)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u00a0b", "a\0b"])
def test_a_name_that_a_note_cannot_hold(name, key):
    with pytest.raises(UsageError, match="cannot name a log"):
        verifier_key(name, key.public)
