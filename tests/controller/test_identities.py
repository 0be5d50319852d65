"""Accounts that are bound to an identity of the OpenID provider."""

import dataclasses
from types import SimpleNamespace

import duckdb
import msgspec
import pytest
from argon2 import PasswordHasher

from kvctl.controller.accountfile import Secrets
from kvctl.controller.accounts import Accounts
from kvctl.controller.settings import OidcSettings, read
from kvctl.state.appliers import APPLIERS
from kvctl.state.governance import SCHEMA, VERSION, GovernanceState
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.principals import Principal
from kvctl.types.requests import AccountChange, AccountCreate, AccountTotp, Nothing
from tests.controller.people import ADMIN, controller, kinds, tables

ISSUER = "https://login.example.org/realms/main"
OIDC = {
    "issuer": ISSUER, "client_id": "kvctl", "client_secret_file": "/etc/kvctl/oidc.secret",
    "console": "https://kv.example.org",
}  # fmt: skip
GOOD = "correct horse battery"
WHO = (ISSUER, "4f1c2a7e")


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path, oidc=msgspec.convert(OIDC, OidcSettings)) as made:
        yield made


@pytest.fixture
def accounts(ctl):
    return Accounts(ctl.books, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def create(ctl, name="ann", roles=("operator",), **more):
    return ctl.call("account.create", ADMIN, AccountCreate(name, list(roles), **more))


def change(ctl, name="ann", **more):
    return ctl.call("account.change", ADMIN, AccountChange(name, **more))


def test_an_account_that_is_bound_has_no_link_and_no_password(ctl, accounts):
    answer = create(ctl, oidc_subject="4f1c2a7e")
    assert answer["oidc"] == {"issuer": ISSUER, "subject": "4f1c2a7e"}
    assert "link" not in answer
    assert accounts.of_identity(WHO) == "ann"
    assert accounts.signed_in("ann", WHO).name == "local:ann"
    assert accounts.signed_in("ann", None) is None
    (row,) = ctl.call("account.ls", ADMIN, Nothing())["accounts"]
    assert (row["oidc_issuer"], row["oidc_subject"], row["joined"], row["link_pending"]) == (*WHO, True, False)
    for asked in ({"new_link": True}, {"reset_totp": True}):
        with pytest.raises(RefusedError, match="KV-API-088"):
            change(ctl, **asked)
    with pytest.raises(RefusedError, match="KV-API-088"):
        ctl.call("account.totp", dataclasses.replace(accounts.principal("ann"), fresh=True), AccountTotp())


@pytest.mark.parametrize(
    "other",
    [
        (ISSUER + "/", "4f1c2a7e"),
        (ISSUER.upper(), "4f1c2a7e"),
        (ISSUER, "4F1C2A7E"),
        (ISSUER, "4f1c2a7e "),
        (ISSUER, ""),
        (ISSUER, "ann"),
        ("", ""),
    ],
)
def test_an_identity_is_issuer_and_subject_exactly(ctl, accounts, other):
    create(ctl, oidc_subject="4f1c2a7e")
    create(ctl, "bo")
    assert accounts.of_identity(other) is None
    assert accounts.signed_in("ann", other) is None
    assert accounts.signed_in("bo", other) is None


def test_binding_takes_the_password_the_link_and_the_authenticator_away(ctl, accounts):
    accounts.redeem(create(ctl)["link"].removeprefix("/join/"), GOOD)
    late = change(ctl, new_link=True)["link"].removeprefix("/join/")
    assert change(ctl, oidc_subject="4f1c2a7e", dry_run=True)["would"] == ["change oidc of ann"]
    assert accounts.authenticate("ann", GOOD)
    change(ctl, oidc_subject="4f1c2a7e")
    with pytest.raises(RefusedError, match="KV-API-062"):
        accounts.authenticate("ann", GOOD)
    with pytest.raises(RefusedError, match="KV-API-060"):
        accounts.redeem(late, "another long password")
    assert "ann" not in Secrets(ctl.directory).read()
    assert kinds(ctl)[-1] == "account.changed"


def test_a_password_that_is_left_over_opens_nothing(ctl, accounts):
    """As when the controller died between the record and the file of passwords."""
    accounts.redeem(create(ctl)["link"].removeprefix("/join/"), GOOD)
    path = ctl.directory / "accounts.json"
    before = path.read_bytes()
    change(ctl, oidc_subject="4f1c2a7e")
    path.write_bytes(before)
    with pytest.raises(RefusedError, match="KV-API-062"):
        accounts.authenticate("ann", GOOD)


def test_unbinding_gives_the_password_back_with_a_new_link(ctl, accounts):
    create(ctl, oidc_subject="4f1c2a7e")
    link = change(ctl, unbind_oidc=True, new_link=True)["link"]
    assert accounts.of_identity(WHO) is None
    accounts.redeem(link.removeprefix("/join/"), GOOD)
    assert accounts.authenticate("ann", GOOD)
    create(ctl, "bo", oidc_subject="4f1c2a7e")
    assert accounts.of_identity(WHO) == "bo"


def test_an_identity_is_of_one_account(ctl):
    create(ctl, oidc_subject="4f1c2a7e")
    with pytest.raises(RefusedError, match="KV-API-087"):
        create(ctl, "bo", oidc_subject="4f1c2a7e")
    create(ctl, "bo")
    with pytest.raises(RefusedError, match="KV-API-087"):
        change(ctl, "bo", oidc_subject="4f1c2a7e")
    change(ctl, oidc_subject="4f1c2a7e")  # the same once more is no other account's


def test_nobody_binds_their_own_account(ctl):
    create(ctl, roles=["admin"])
    own = Principal("local:ann", ADMIN.roles, fresh=True)
    with pytest.raises(RefusedError, match="KV-API-066"):
        ctl.call("account.change", own, AccountChange("ann", oidc_subject="mine"))


@pytest.mark.parametrize("subject", ["", "x" * 256, "grün", "two\nlines", "\0"])
def test_a_subject_that_is_none(ctl, subject):
    with pytest.raises(UsageError, match="KV-API-086"):
        create(ctl, oidc_subject=subject)
    assert kinds(ctl) == []


def test_without_a_provider_nothing_is_bound(tmp_path):
    with controller(tmp_path) as bare, pytest.raises(UsageError, match="KV-API-086"):
        create(bare, oidc_subject="4f1c2a7e")


def test_the_rows_are_made_again_from_the_log(ctl):
    create(ctl, oidc_subject="4f1c2a7e")
    create(ctl, "bo", oidc_subject="b")
    change(ctl, "bo", unbind_oidc=True)
    create(ctl, "cy")
    change(ctl, "cy", oidc_subject="c")
    before = tables(ctl)["accounts"]
    ctl.books.reindex()
    assert tables(ctl)["accounts"] == before


def test_a_state_of_before_opens(tmp_path):
    """The accounts' table as schema 2 had it, with somebody in it."""
    path = tmp_path / "governance.duckdb"
    GovernanceState(path, APPLIERS).close()
    with duckdb.connect(str(path)) as db:
        db.execute("ALTER TABLE accounts DROP COLUMN oidc_issuer")
        db.execute("ALTER TABLE accounts DROP COLUMN oidc_subject")
        db.execute("INSERT INTO accounts VALUES ('ann', ['admin'], NULL, now()::TIMESTAMP, NULL, NULL)")
        db.execute("UPDATE schema_version SET version = 2")
    state = GovernanceState(path, APPLIERS)
    accounts = Accounts(SimpleNamespace(state=state, directory=tmp_path))
    assert accounts.signed_in("ann", None).name == "local:ann"
    with state.reading() as db:
        assert db.execute("SELECT max(version) FROM schema_version").fetchone() == (VERSION,)
    state.close()
    GovernanceState(path, APPLIERS).close()
    assert "oidc_subject" in SCHEMA.read_text()


# --- settings -------------------------------------------------------------------------------------------------------
def settings_of(folder, **oidc):
    (folder / "controller.yaml").write_text(msgspec.json.encode({"oidc": OIDC | oidc}).decode())
    return read(folder, site="par1")


def test_settings(tmp_path):
    found = settings_of(tmp_path).oidc
    assert (found.algorithms, found.client_auth, found.label) == (
        ("RS256", "ES256"),
        "client_secret_basic",
        "login.example.org",
    )
    assert settings_of(tmp_path, name="Example", algorithms=["PS512"]).oidc.label == "Example"


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ["none"]},
        {"algorithms": ["RS256", "HS256"]},
        {"algorithms": []},
        {"algorithms": ["EdDSA"]},
        {"issuer": "http://login.example.org"},
        {"issuer": "https://login.example.org?x=1"},
        {"issuer": "https://me@login.example.org"},
        {"issuer": "login.example.org"},
        {"console": "http://kv.example.org"},
        {"console": "https://kv.example.org/kvctl"},
        {"console": ""},
        {"client_id": ""},
        {"client_secret_file": ""},
        {"client_auth": "none"},
        {"client_secret": "in the file"},
    ],
)
def test_settings_that_are_not_right(tmp_path, wrong):
    with pytest.raises(KvctlError, match="KV-CTL-006"):
        settings_of(tmp_path, **wrong)
