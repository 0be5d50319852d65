"""Local accounts: links, passwords, roles that exclude each other, waits after wrong passwords."""

import json
import stat
import threading
import time

import pyotp
import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from kvctl.controller import totp
from kvctl.controller.accountfile import FILE, LINK_SECONDS
from kvctl.controller.accounts import Accounts
from kvctl.govern import accounts as rules
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.principals import APART, Principal, Role
from kvctl.types.requests import AccountChange, AccountCreate, AccountTotp, Nothing
from tests.controller.people import ADMIN, controller, kinds, tables

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
GOOD = "correct horse battery"


class Clock:
    def __init__(self):
        self.now = time.time()

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        yield made


@pytest.fixture
def accounts(ctl, clock):
    return Accounts(ctl.books, hasher=CHEAP, clock=clock)


def make(ctl, name="ann", roles=("operator",), **more):
    answer = ctl.call("account.create", ADMIN, AccountCreate(name, list(roles), **more))
    return answer["link"].removeprefix("/join/")


def joined(ctl, accounts, name="ann", **more):
    accounts.redeem(make(ctl, name, **more), GOOD)
    return name


def refused(accounts, name, password):
    with pytest.raises(RefusedError) as caught:
        accounts.authenticate(name, password)
    assert caught.value.code == "KV-API-062"
    return str(caught.value)


def test_a_link_sets_a_password_that_signs_in(ctl, accounts):
    assert accounts.redeem(make(ctl), GOOD) == "ann"
    who = accounts.authenticate("ann", GOOD)
    assert who == Principal("local:ann", frozenset({Role.OPERATOR}), None, fresh=True)
    assert accounts.principal("ann") == Principal("local:ann", frozenset({Role.OPERATOR}))
    assert kinds(ctl)[-2:] == ["account.created", "account.joined"]


def test_a_link_works_once(ctl, accounts):
    token = make(ctl)
    accounts.redeem(token, GOOD)
    with pytest.raises(RefusedError, match="KV-API-060"):
        accounts.redeem(token, "another long password")
    assert accounts.authenticate("ann", GOOD)


def test_a_link_ends_after_a_day(ctl, accounts, clock):
    token = make(ctl)
    clock.now += LINK_SECONDS + 60
    with pytest.raises(RefusedError, match="KV-API-060"):
        accounts.redeem(token, GOOD)


def test_a_new_link_voids_the_old_one(ctl, accounts):
    old = make(ctl)
    new = ctl.call("account.change", ADMIN, AccountChange("ann", new_link=True))["link"].removeprefix("/join/")
    with pytest.raises(RefusedError, match="KV-API-060"):
        accounts.redeem(old, GOOD)
    assert accounts.redeem(new, GOOD) == "ann"


@pytest.mark.parametrize("token", ["", "x", "x" * 5000, "ann"])
def test_a_made_up_link_opens_nothing(ctl, accounts, token):
    joined(ctl, accounts)
    with pytest.raises(RefusedError, match="KV-API-060"):
        accounts.redeem(token, GOOD)


@pytest.mark.parametrize("password", ["short", "x" * 300, "aaaaaaaaaaaaaaaaaa", "my name is ann!"])
def test_a_bad_password_is_not_taken_and_the_link_stays(ctl, accounts, password):
    token = make(ctl)
    with pytest.raises(UsageError, match="KV-API-061"):
        accounts.redeem(token, password)
    assert accounts.redeem(token, GOOD) == "ann"


def test_letters_typed_in_another_form_are_the_same(ctl, accounts):
    accounts.redeem(make(ctl), "caf\u00e9 au lait noir")
    assert accounts.authenticate("ann", "cafe\u0301 au lait noir")


def test_every_refusal_says_the_same(ctl, accounts):
    joined(ctl, accounts)
    make(ctl, "bo")  # has no password yet
    texts = {refused(accounts, name, "wrong password") for name in ("ann", "bo", "nobody", "", "../etc")}
    ctl.call("account.change", ADMIN, AccountChange("ann", disabled=True))
    assert texts == {refused(accounts, "ann", GOOD)}


def test_unknown_names_cost_as_much_as_known_ones(ctl, accounts, monkeypatch):
    joined(ctl, accounts)
    verified = []
    monkeypatch.setattr(accounts, "_hasher", Counting(verified))
    for name in ("ann", "nobody"):
        refused(accounts, name, "wrong password")
    assert len(verified) == 2


class Counting:
    def __init__(self, verified):
        self.verified = verified

    def verify(self, hashed, password):
        self.verified.append(hashed)
        return CHEAP.verify(hashed, password)


def test_waits_grow_with_wrong_passwords_and_end(ctl, accounts, clock):
    joined(ctl, accounts)
    for _ in range(rules.FREE):
        refused(accounts, "ann", "wrong password")
    refused(accounts, "ann", GOOD)  # the right one, too soon
    clock.now += rules.wait(rules.FREE)
    assert accounts.authenticate("ann", GOOD)
    refused(accounts, "ann", "wrong password")
    assert accounts.authenticate("ann", GOOD)  # the right one has cleared the count


def test_waits_survive_a_restart(ctl, accounts, clock):
    joined(ctl, accounts)
    for _ in range(rules.FREE):
        refused(accounts, "ann", "wrong password")
    refused(Accounts(ctl.books, hasher=CHEAP, clock=clock), "ann", GOOD)


@given(st.integers(0, 10_000))
def test_waits_never_shrink_and_have_an_end(failures):
    assert 0 <= rules.wait(failures) <= rules.wait(failures + 1) <= rules.MOST_WAIT


def test_a_password_of_weaker_parameters_is_hashed_again(ctl, accounts, clock):
    joined(ctl, accounts)
    better = Accounts(ctl.books, hasher=PasswordHasher(2, 16, 1), clock=clock)
    assert better.authenticate("ann", GOOD)
    assert "m=16,t=2" in (ctl.directory / "accounts.json").read_text()
    assert better.authenticate("ann", GOOD)


def test_secrets_are_in_one_secret_file_and_not_in_the_log(ctl, accounts):
    token = make(ctl)
    file = ctl.directory / "accounts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    accounts.redeem(token, GOOD)
    ctl.books.log.checkpoint()
    for path in ctl.directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert token.encode() not in data
            assert GOOD.encode() not in data
            assert path == file or b"$argon2" not in data


def test_a_broken_file_lets_nobody_in(ctl, accounts):
    joined(ctl, accounts)
    (ctl.directory / "accounts.json").write_text("{")
    with pytest.raises(KvctlError, match="KV-API-070"):
        accounts.authenticate("ann", GOOD)


# --- roles ----------------------------------------------------------------------------------------------------------
@given(st.sets(st.sampled_from([role for role in Role if role is not Role.SERVICE]), min_size=1))
def test_nobody_has_two_roles_that_are_apart(roles):
    wide = roles - {Role.TENANT_ADMIN}
    if not wide:
        return
    if len(roles.intersection(APART)) > 1:
        with pytest.raises(RefusedError, match="KV-API-064"):
            rules.check_roles(list(wide), None)
    else:
        assert rules.check_roles(list(wide), None) == wide


@pytest.mark.parametrize(
    ("roles", "tenant", "code"),
    [
        (["service"], None, "KV-API-063"), (["root"], None, "KV-API-063"), (["tenant-admin"], None, "KV-API-064"),
        (["operator"], "acme", "KV-API-064"), (["viewer", "admin"], "acme", "KV-API-064"),
        (["operator", "auditor"], None, "KV-API-064"),
    ],
)  # fmt: skip
def test_roles_that_are_not_given(ctl, roles, tenant, code):
    with pytest.raises(KvctlError) as caught:
        ctl.call("account.create", ADMIN, AccountCreate("ann", roles, tenant))
    assert caught.value.code == code
    assert "account.created" not in kinds(ctl)


def test_the_first_account_can_begin_and_the_second_needs_roles(ctl, accounts):
    joined(ctl, accounts, "ann", roles=())
    assert accounts.principal("ann").roles == {Role.ADMIN, Role.OPERATOR}
    with pytest.raises(UsageError, match="KV-API-063"):
        ctl.call("account.create", ADMIN, AccountCreate("bo", []))


def test_nobody_changes_their_own_account(ctl, accounts):
    joined(ctl, accounts, "ann", roles=())
    ann = accounts.authenticate("ann", GOOD)
    with pytest.raises(RefusedError, match="KV-API-066"):
        ctl.call("account.change", ann, AccountChange("ann", roles=["admin", "approver"]))


def test_changes_hold_at_once(ctl, accounts):
    joined(ctl, accounts)
    ctl.call("account.change", ADMIN, AccountChange("ann", roles=["auditor"]))
    assert accounts.principal("ann").roles == {Role.AUDITOR}
    ctl.call("account.change", ADMIN, AccountChange("ann", disabled=True))
    assert accounts.principal("ann") is None
    ctl.call("account.change", ADMIN, AccountChange("ann", disabled=False))
    assert accounts.principal("ann").roles == {Role.AUDITOR}


def test_an_auditors_access_ends(ctl, accounts, clock):
    joined(ctl, accounts, roles=["auditor"])
    clock.now += 89 * 86400
    assert accounts.authenticate("ann", GOOD)
    clock.now += 2 * 86400
    refused(accounts, "ann", GOOD)
    for until in ("soon", "2027-01-31"):
        with pytest.raises(UsageError, match="KV-API-067"):
            ctl.call("account.create", ADMIN, AccountCreate("bo", ["auditor"], until=until))


def test_the_list_says_who_has_joined(ctl, accounts):
    joined(ctl, accounts)
    make(ctl, "bo", ["viewer"], tenant="acme")
    rows = {row["name"]: row for row in ctl.call("account.ls", ADMIN, Nothing())["accounts"]}
    assert (rows["ann"]["joined"], rows["ann"]["link_pending"]) == (True, False)
    assert (rows["bo"]["joined"], rows["bo"]["link_pending"], rows["bo"]["tenant"]) == (False, True, "acme")


def test_dry_runs_change_nothing(ctl):
    assert ctl.call("account.create", ADMIN, AccountCreate("ann", ["operator"], dry_run=True))["would"]
    assert kinds(ctl) == []
    assert not (ctl.directory / "accounts.json").exists()
    make(ctl)
    before = kinds(ctl), (ctl.directory / "accounts.json").read_bytes()
    ctl.call("account.change", ADMIN, AccountChange("ann", ["viewer"], True, True, True))
    assert (kinds(ctl), (ctl.directory / "accounts.json").read_bytes()) == before


@pytest.mark.parametrize("name", ["", "Ann", "a b", "../x", "a" * 64, "-a", "a\n"])
def test_names_that_are_none(ctl, name):
    with pytest.raises(UsageError, match="KV-API-065"):
        ctl.call("account.create", ADMIN, AccountCreate(name, ["operator"]))


def test_names_are_given_once_and_must_be_there(ctl):
    make(ctl)
    with pytest.raises(RefusedError, match="KV-API-069"):
        make(ctl)
    with pytest.raises(UsageError, match="KV-API-068"):
        ctl.call("account.change", ADMIN, AccountChange("bo", disabled=True))


def test_reindexing_gives_the_same_accounts(ctl, accounts):
    joined(ctl, accounts)
    make(ctl, "bo", ["viewer"], tenant="acme")
    for roles in (["auditor"], ["approver", "dpo"]):
        ctl.call("account.change", ADMIN, AccountChange("ann", roles=roles))
    ctl.call("account.change", ADMIN, AccountChange("bo", disabled=True))
    before = tables(ctl)
    ctl.books.reindex()
    assert tables(ctl) == before


# --- authenticator apps ---------------------------------------------------------------------------------------------
def owner(name="ann", **more):
    return Principal(f"local:{name}", frozenset({Role.OPERATOR}), fresh=True, **more)


def code_at(secret, moment):
    return pyotp.TOTP(secret).at(int(moment))


@pytest.fixture
def enrolled(ctl, accounts, clock):
    """ann's secret and recovery codes; the present code was taken by the enrolment."""
    joined(ctl, accounts)
    begun = ctl.call("account.totp", owner(), AccountTotp())
    clock.now = time.time()
    done = ctl.call("account.totp", owner(), AccountTotp(code_at(begun["secret"], clock.now)))
    clock.now += 60
    return begun["secret"], done["recovery_codes"]


def refusal(accounts, *given):
    with pytest.raises(RefusedError) as caught:
        accounts.authenticate("ann", *given)
    return caught.value.code


def test_with_an_authenticator_a_password_alone_is_not_enough(accounts, clock, enrolled):
    secret, _ = enrolled
    assert refusal(accounts, GOOD) == "KV-API-075"
    assert refusal(accounts, "another password 77") == "KV-API-062"
    assert refusal(accounts, "another password 77", code_at(secret, clock.now)) == "KV-API-062"
    assert accounts.authenticate("ann", GOOD, code_at(secret, clock.now)).name == "local:ann"


def test_a_code_is_taken_once_and_for_a_while(accounts, clock, enrolled):
    secret, _ = enrolled
    accounts.authenticate("ann", GOOD, code_at(secret, clock.now))
    assert refusal(accounts, GOOD, code_at(secret, clock.now)) == "KV-API-062"
    clock.now += 300
    assert refusal(accounts, GOOD, code_at(secret, clock.now - 90)) == "KV-API-062"
    assert accounts.authenticate("ann", GOOD, code_at(secret, clock.now - 30)).name == "local:ann"
    clock.now += 60
    ahead = code_at(secret, clock.now + 30)
    assert accounts.authenticate("ann", GOOD, f" {ahead[:3]} {ahead[3:]} ")


def test_a_recovery_code_works_once_and_is_on_record(ctl, accounts, enrolled):
    _, codes = enrolled
    assert len(set(codes)) == 10
    assert accounts.authenticate("ann", GOOD, codes[3].upper()).name == "local:ann"
    assert refusal(accounts, GOOD, codes[3]) == "KV-API-062"
    (used,) = [e for e in ctl.books.recorded(0) if e.kind == "account.recovery-used"]
    assert (used.actor, used.data) == ("local:ann", {"name": "ann", "left": 9})


def test_wrong_codes_close_the_account_as_wrong_passwords_do(accounts, clock, enrolled):
    secret, _ = enrolled
    for _ in range(6):
        assert refusal(accounts, GOOD, "000000") == "KV-API-062"
    assert refusal(accounts, GOOD, code_at(secret, clock.now)) == "KV-API-062"
    clock.now += 3600
    assert accounts.authenticate("ann", GOOD, code_at(secret, clock.now))


def test_a_secret_is_in_force_with_its_first_code_alone(ctl, accounts):
    joined(ctl, accounts)
    with pytest.raises(RefusedError) as caught:
        ctl.call("account.totp", owner(), AccountTotp("123456"))
    assert caught.value.code == "KV-API-073"
    begun = ctl.call("account.totp", owner(), AccountTotp())
    assert begun["uri"].startswith("otpauth://totp/kvctl%20")
    assert begun["secret"] in begun["uri"]
    with pytest.raises(RefusedError) as caught:
        ctl.call("account.totp", owner(), AccountTotp("no code"))
    assert caught.value.code == "KV-API-072"
    assert accounts.authenticate("ann", GOOD)


def test_who_takes_it_away_and_what_stays(ctl, accounts, clock, enrolled):
    with pytest.raises(RefusedError) as caught:
        ctl.call("account.totp", owner(), AccountTotp())
    assert caught.value.code == "KV-API-074"
    again = ctl.call("account.change", ADMIN, AccountChange("ann", new_link=True))
    accounts.redeem(again["link"].rpartition("/")[2], GOOD)
    assert refusal(accounts, GOOD) == "KV-API-075"  # a link is for the password alone
    assert ctl.call("account.ls", ADMIN, Nothing())["accounts"][0]["authenticator"] is True
    ctl.call("account.change", ADMIN, AccountChange("ann", reset_totp=True))
    assert accounts.authenticate("ann", GOOD)
    changed = [e for e in ctl.books.recorded(0) if e.kind == "account.changed"]
    assert changed[-1].data == {"name": "ann", "reset_totp": True}


def test_its_owner_removes_it_and_nothing_of_it_is_in_the_log(ctl, accounts, enrolled):
    secret, codes = enrolled
    ctl.call("account.totp", owner(), AccountTotp(remove=True))
    assert accounts.authenticate("ann", GOOD)
    written = str([dict(e.data) for e in ctl.books.recorded(0)])
    assert secret not in written
    assert not [code for code in codes if code in written or code in (ctl.directory / FILE).read_text()]
    assert [e.kind for e in ctl.books.recorded(0)][-2:] == ["account.totp-enrolled", "account.totp-removed"]


def test_a_user_of_the_machine_has_none(ctl):
    with pytest.raises(UsageError) as caught:
        ctl.call("account.totp", Principal("unix:root", frozenset({Role.OPERATOR}), fresh=True), AccountTotp())
    assert caught.value.code == "KV-API-071"


def test_a_dry_run_hands_out_nothing(ctl, accounts):
    joined(ctl, accounts)
    told = ctl.call("account.totp", owner(), AccountTotp(dry_run=True))
    assert told["would"] == ["hand out a new secret"]
    assert json.loads((ctl.directory / FILE).read_text())["ann"]["totp_new"] is None


def test_a_code_of_other_digits_is_a_wrong_one(accounts, clock, enrolled):
    assert refusal(accounts, GOOD, "\uff11\uff12\uff13\uff14\uff15\uff16") == "KV-API-062"


def test_confirming_an_authenticator_has_the_books_before_the_file_as_a_change_of_an_account_does(
    ctl, accounts, monkeypatch
):
    joined(ctl, accounts)
    secret = ctl.call("account.totp", owner(), AccountTotp())["secret"]
    real, entered, free = totp.step_of, threading.Event(), []

    def enter():
        with ctl.books.deciding():
            entered.set()

    def step_of(*asked):
        threading.Thread(target=enter).start()
        free.append(entered.wait(0.2))
        return real(*asked)

    monkeypatch.setattr(totp, "step_of", step_of)
    assert ctl.call("account.totp", owner(), AccountTotp(code_at(secret, time.time())))["active"]
    assert free == [False], "somebody who has the books and waits for the file would be waited for"
    assert entered.wait(10)
