"""A witness cosigns what continues the last checkpoint, and nothing else."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kvctl.ledger import Log
from kvctl.ledger.note import NoteError, cosigned_at, parse_checkpoint, split_note, verifier_key
from kvctl.ledger.proof import consistency_text
from kvctl.ledger.witness import main
from tests.ledger.site import ORIGIN, Key, events, write

NAME = "witness.example.org/w1"


class Site:
    """A log and the files of its witness."""

    def __init__(self, place):
        self.place, self.key, self.witness = place, Key(), Key()
        pem = self.witness.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (place / "witness.key").write_bytes(pem)
        (place / "witness.key").chmod(0o600)
        (place / "log.vkey").write_text(verifier_key(ORIGIN, self.key.public) + "\n")

    def ask(self, note, proof):
        (self.place / "checkpoint").write_text(note)
        (self.place / "proof").write_text(proof)
        names = {"--state": "state", "--key": "witness.key", "--log": "log.vkey"}
        flags = [word for flag, name in names.items() for word in (flag, str(self.place / name))]
        return main([*flags, "--name", NAME, str(self.place / "checkpoint"), str(self.place / "proof")])


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def log(site, tmp_path):
    with Log.open(tmp_path / "log", ORIGIN, site.key, publish_seconds=None) as log:
        yield log


def grow(log, count):
    log.append(events(count, log.size))
    return log.checkpoint()


def size_of(note):
    return parse_checkpoint(split_note(note)[0]).size


def test_a_growing_log_is_cosigned_each_time(site, log, capsys):
    old = 0
    for count in (5, 300, 1, 700):
        note = grow(log, count)
        assert site.ask(note, consistency_text(old, log.consistency(old))) == 0
        line = capsys.readouterr().out
        assert cosigned_at(note + line, NAME, site.witness.public) > 1_700_000_000
        with pytest.raises(NoteError):
            cosigned_at(note.replace(str(log.size), "9") + line, NAME, site.witness.public)
        old = size_of(note)


def test_a_proof_can_be_made_below_the_cosigned_checkpoint(site, log, capsys):
    note = grow(log, 300)
    assert site.ask(note, consistency_text(0, [])) == 0
    cosigned = note + capsys.readouterr().out
    grow(log, 300)
    assert log.prove(7, checkpoint=cosigned).endswith(cosigned)


def test_the_same_checkpoint_again_is_cosigned(site, log):
    note = grow(log, 10)
    assert site.ask(note, consistency_text(0, [])) == 0
    assert site.ask(note, consistency_text(10, [])) == 0


def test_a_smaller_tree_is_refused(site, log, tmp_path, capsys):
    assert site.ask(grow(log, 300), consistency_text(0, [])) == 0
    write(tmp_path / "cut", site.key, events(200))
    assert site.ask((tmp_path / "cut" / "checkpoint").read_text(), consistency_text(0, [])) == 7
    captured = capsys.readouterr()
    assert "KV-LEDGER-020" in captured.err
    assert captured.out.count("\n") == 1  # the first cosignature alone


def test_a_rewritten_tree_is_refused_whatever_the_proof(site, log, tmp_path, capsys):
    assert site.ask(grow(log, 300), consistency_text(0, [])) == 0
    entries = events(400)
    entries[5] = b"{}"
    with Log.open(tmp_path / "other", ORIGIN, site.key) as other:
        other.append(entries)
        note = other.checkpoint()
        for proof in (other.consistency(300), [], log.consistency(200)):
            assert site.ask(note, consistency_text(300, proof)) == 7
        assert "KV-LEDGER-022" in capsys.readouterr().err
        assert site.ask(note, consistency_text(0, [])) == 7
        assert "KV-LEDGER-021" in capsys.readouterr().err
    assert site.ask(grow(log, 1), consistency_text(300, log.consistency(300))) == 0  # the true log goes on


def test_another_tree_of_the_same_size_is_refused(site, log, tmp_path):
    assert site.ask(grow(log, 300), consistency_text(0, [])) == 0
    write(tmp_path / "other", site.key, [b"x"] * 300)
    assert site.ask((tmp_path / "other" / "checkpoint").read_text(), consistency_text(300, [])) == 7


def test_a_checkpoint_of_another_key_is_refused(site, log, tmp_path):
    write(tmp_path / "other", Key(), events(3))
    assert site.ask((tmp_path / "other" / "checkpoint").read_text(), consistency_text(0, [])) == 7


@pytest.mark.parametrize("proof", ["", "old x\n", "new 3\n", "old 0\nAAAA\n", "old 01\n", "old 0\n\n"])
def test_a_malformed_proof_is_a_wrong_use(site, log, proof):
    assert site.ask(grow(log, 3), proof) in (2, 0 if proof == "old 0\n\n" else 2)


def test_a_key_that_others_can_read_is_refused(site, log, capsys):
    (site.place / "witness.key").chmod(0o644)
    assert site.ask(grow(log, 3), consistency_text(0, [])) == 7
    assert "KV-LEDGER-023" in capsys.readouterr().err
