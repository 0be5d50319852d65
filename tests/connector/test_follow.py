"""A gateway's snapshot kept as the controller says: signed by it, newest, and renewed before it ends."""

import pytest

from kvctl.connector.follow import PERIOD, Answer, Follower
from kvctl.connector.keys import Identity
from kvctl.connector.signed import sign_text
from kvctl.connector.snapshotfile import LABEL
from kvctl.types.errors import UnreachableError


@pytest.fixture
def site():
    return Identity.generate()


@pytest.fixture
def said():
    return {"answers": [], "asked": []}


@pytest.fixture
def follower(site, said, tmp_path):
    now = [0.0]

    def ask(after, wait):
        said["asked"].append((after, wait))
        found = said["answers"].pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    made = Follower(ask, tmp_path / "snapshot", (site.public,), clock=lambda: now[0])
    made.advance = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return made


def answer(number, by):
    return Answer(number, sign_text(f"snapshot {number}", LABEL, by).decode())


def test_a_newer_one_replaces_the_file_and_is_secret(follower, site, said, tmp_path):
    said["answers"] = [answer(3, site), answer(4, site)]
    assert follower.round()
    assert follower.round()
    file = tmp_path / "snapshot"
    assert b"snapshot 4" in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert said["asked"] == [(0, 0.0), (3, 20.0)]


def test_one_that_the_controller_did_not_sign_changes_nothing(follower, site, said, tmp_path):
    said["answers"] = [answer(3, site), answer(4, Identity.generate())]
    follower.round()
    assert not follower.round()
    assert b"snapshot 3" in (tmp_path / "snapshot").read_bytes()
    assert follower.number == 3


def test_it_is_fetched_again_before_it_ends(follower, site, said):
    said["answers"] = [answer(3, site), Answer(3, None), answer(3, site)]
    follower.round()
    assert follower.round()
    follower.advance(PERIOD)
    assert follower.round()
    assert said["asked"][-1] == (0, 0.0)


def test_it_stays_while_the_controller_is_away(follower, site, said, tmp_path):
    said["answers"] = [answer(3, site), UnreachableError("KV-CONN-050", "the controller does not answer")]
    follower.round()
    assert not follower.round()
    assert (tmp_path / "snapshot").exists()


def test_a_site_without_tenants_is_asked_again(follower, said, tmp_path):
    said["answers"] = [Answer(0, None)]
    assert not follower.round()
    assert not (tmp_path / "snapshot").exists()


def test_a_controller_that_has_none_any_more_is_not_asked_without_pause(follower, site, said):
    said["answers"] = [answer(3, site), Answer(0, None)]
    follower.round()
    follower.advance(PERIOD)
    assert not follower.round()
