"""Keys in files: wrapped, bound to their scope, destroyed for good, and never two tenants'."""

import itertools
import secrets
import shutil
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.controller import epochs, tenants
from kvctl.controller.keystore import KeyStore
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.requests import TenantCreate, TenantOffboard
from tests.controller.people import OPERATOR, controller, kinds, tables


@pytest.fixture
def keys(tmp_path):
    return KeyStore(tmp_path / "keys")


def of(keys, tenant="acme", domain="user"):
    return Scope(tenant, domain, keys.create(tenant, domain))


def test_a_key_is_the_same_after_a_restart(keys):
    scope = of(keys)
    keys.create_subject("acme")
    again = KeyStore(keys.directory)
    assert again.root(scope).root == keys.root(scope).root
    assert again.subject_key("acme") == keys.subject_key("acme")
    assert again.scopes() == [scope]


def test_files_are_secret_and_hold_no_key_as_it_is(keys):
    scope = of(keys)
    keys.create_subject("acme")
    for path in keys.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if path.name != "master.key":
            assert keys.root(scope).root not in path.read_bytes()
            assert keys.subject_key("acme") not in path.read_bytes()
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700


def test_every_scope_has_a_key_of_its_own(keys):
    scopes = [of(keys, tenant, domain) for tenant, domain in itertools.product(("a", "b"), ("common", "user"))]
    scopes.append(of(keys, "a", "user"))
    assert len({keys.root(scope).root for scope in scopes}) == 5
    assert len({keys.fingerprint(scope) for scope in scopes}) == 5


def test_a_file_under_another_name_opens_nothing(keys):
    mine, theirs = of(keys, "acme"), of(keys, "globex")
    keys.create_subject("acme")
    for target in (f"globex.user.{theirs.epoch.hex()}.root", "globex.subject"):
        shutil.copy(keys.directory / f"acme.user.{mine.epoch.hex()}.root", keys.directory / target)
    for read in (lambda: keys.root(theirs), lambda: keys.subject_key("globex")):
        with pytest.raises(KvctlError) as caught:
            read()
        assert caught.value.code == "KV-TEN-021"


@pytest.mark.parametrize("at", range(0, 72, 7))
def test_a_changed_byte_is_found(keys, at):
    scope = of(keys)
    path = keys.directory / f"acme.user.{scope.epoch.hex()}.root"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(KvctlError, match="KV-TEN-021"):
        keys.root(scope)


def test_a_lost_master_key_is_never_made_anew(keys):
    scope = of(keys)
    (keys.directory / "master.key").unlink()
    for attempt in (lambda: keys.root(scope), lambda: keys.create("globex", "user")):
        with pytest.raises(KvctlError) as caught:
            attempt()
        assert caught.value.code == "KV-TEN-023"
    assert not (keys.directory / "master.key").exists()


def test_destroying_ends_a_key_and_says_what_it_proves(keys):
    scope, other = of(keys), of(keys, "globex")
    path = keys.directory / f"acme.user.{scope.epoch.hex()}.root"
    before = path.read_bytes()
    with path.open("rb") as still_open:  # the very blocks of the file, after its name is gone
        receipt = keys.destroy(scope)
        after = still_open.read()
    assert after != before
    assert len(after) == len(before)
    assert "72 bytes overwritten" in receipt
    assert "does not show" in receipt
    assert not path.exists()
    with pytest.raises(RefusedError, match="KV-TEN-020"):
        keys.root(scope)
    assert keys.root(other)


def test_destroying_again_says_that_nothing_was_there(keys):
    scope = of(keys)
    keys.destroy(scope)
    assert "no such file" in keys.destroy(scope)


def test_a_half_written_file_goes_with_its_key(keys):
    scope = of(keys)
    left = keys.directory / f".acme.user.{scope.epoch.hex()}.root.{'0' * 16}"
    left.write_bytes(b"x" * 72)
    keys.destroy(scope)
    assert [path.name for path in keys.directory.iterdir()] == ["master.key"]


def test_repeating_random_numbers_make_no_second_key(keys, monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda count: b"7" * count)
    first = of(keys)
    for again in (KeyStore(keys.directory), keys):
        with pytest.raises(KvctlError) as caught:
            again.create("globex", "user")
        assert caught.value.code == "KV-TEN-022"
    assert keys.scopes() == [first]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    made = KeyStore(tmp_path_factory.mktemp("two") / "keys")
    made.create_subject("acme")
    made.create_subject("globex")
    return made


@given(st.text(min_size=1, max_size=512), st.text(min_size=1, max_size=512))
@settings(max_examples=50, deadline=None)
def test_pseudonyms(two, user, other):
    mine = two.pseudonym("acme", user)
    assert len(bytes.fromhex(mine)) == 16
    assert mine == two.pseudonym("acme", user)
    assert mine != two.pseudonym("globex", user)
    assert (mine == two.pseudonym("acme", other)) == (user == other)


def test_whose_subject_keys_are_here(two):
    of(two, "zen")
    assert two.subjects() == ["acme", "globex"]


def test_no_pseudonym_after_the_subject_key(two, tmp_path):
    keys = KeyStore(tmp_path / "keys")
    keys.create_subject("acme")
    keys.destroy_subject("acme")
    with pytest.raises(RefusedError, match="KV-TEN-020"):
        keys.pseudonym("acme", "ann")


# --- crashes --------------------------------------------------------------------------------------------------------
class Crash(BaseException):
    """The process ends here."""


def crash(*args, **more):
    raise Crash


def test_a_key_is_there_before_the_event_that_says_so(tmp_path, monkeypatch):
    with controller(tmp_path) as ctl:
        monkeypatch.setattr(ctl.books, "commit", crash)
        with pytest.raises(Crash):
            ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS"))
    with controller(tmp_path) as ctl:
        assert len(ctl.keystore.scopes("acme")) == 1
        assert "tenant.created" not in kinds(ctl)
        made = ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS"))
        (row,) = made["epochs"]
        assert ctl.keystore.root(Scope("acme", "user", bytes.fromhex(row["epoch"])))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
def test_an_unfinished_destruction_is_completed(tmp_path, monkeypatch, when, nth):
    """The process ends before or after the nth key is destroyed; no receipt is on record for it."""
    with controller(tmp_path) as ctl:
        ctl.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", domains=["common", "user"]))
        ctl.call("tenant.create", OPERATOR, TenantCreate("globex", "Globex"))
        real, calls = KeyStore.destroy, itertools.count(1)

        def destroy(store, scope):
            if next(calls) < nth:
                return real(store, scope)
            if when == "after":
                real(store, scope)
            raise Crash

        monkeypatch.setattr(KeyStore, "destroy", destroy)
        with pytest.raises(Crash):
            ctl.call("tenant.offboard", OPERATOR, TenantOffboard("acme", confirm="acme"))
        monkeypatch.undo()
    with controller(tmp_path) as ctl:
        tenants.complete(ctl)  # nothing more to do when opening has done it
        assert {scope.tenant for scope in ctl.keystore.scopes()} == {"globex"}
        shown = tables(ctl)["tenants"]
        assert {row[0]: row[2] for row in shown} == {"acme": "offboarded", "globex": "active"}
        assert kinds(ctl).count("epoch.destroyed") == 2
        assert kinds(ctl).count("tenant.offboarded") == 1
        with ctl.books.deciding() as db:
            assert epochs.state.unfinished(db) == []
        before = tables(ctl)
        ctl.books.reindex()
        assert tables(ctl) == before
