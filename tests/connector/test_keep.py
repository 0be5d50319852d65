"""Leases kept as the controller says: a scope that goes takes its file along, at once."""

import base64
import json
import time

import pytest

from kvctl.connector.controllerhttp import ControllerAddress
from kvctl.connector.keep import Keeper, LeasedScope, Scopes, file_name
from kvctl.connector.keys import Identity, KeyLease, RootKey, load_lease, write_lease
from kvctl.types.chunks import Scope
from kvctl.types.errors import ExitCode, RefusedError, UnreachableError

EPOCH, NEXT = "ab" * 16, "cd" * 16


class Controller:
    """Answers as it is told; counts what it is asked."""

    def __init__(self):
        self.scopes, self.number, self.error = [], 1, None
        self.asked, self.leased = [], []

    def ask(self, after, wait):
        self.asked.append((after, wait))
        if self.error:
            raise self.error
        return Scopes(self.number, tuple(self.scopes))

    def get(self, tenant, domain):
        self.leased.append((tenant, domain))
        epoch = next(one.epoch for one in self.scopes if (one.tenant, one.domain) == (tenant, domain))
        return KeyLease(RootKey(Scope(tenant, domain, bytes.fromhex(epoch)), b"r" * 32), b"c", int(time.time()) + 60)

    def say(self, *scopes):
        self.number += 1
        self.scopes = [LeasedScope(*scope) for scope in scopes]


@pytest.fixture
def controller():
    return Controller()


@pytest.fixture
def keeper(controller, tmp_path):
    now = [0.0]
    made = Keeper(controller.ask, controller.get, tmp_path, clock=lambda: now[0])
    made.advance = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return made


def names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


def test_every_scope_has_a_lease(controller, keeper, tmp_path):
    controller.say(("acme", "user", EPOCH), ("globex", "user", EPOCH))
    assert keeper.round()
    assert names(tmp_path) == [f"acme.user.{EPOCH[:16]}.json", f"globex.user.{EPOCH[:16]}.json"]
    assert load_lease(tmp_path / names(tmp_path)[0]).scope.tenant == "acme"


def test_a_suspended_tenants_lease_goes_with_the_answer_that_leaves_it_out(controller, keeper, tmp_path):
    controller.say(("acme", "user", EPOCH), ("globex", "user", EPOCH))
    keeper.round()
    file = tmp_path / f"acme.user.{EPOCH[:16]}.json"
    with file.open("rb") as still_open:
        controller.say(("globex", "user", EPOCH))
        keeper.round()
        assert set(still_open.read()) == {0}
    assert names(tmp_path) == [f"globex.user.{EPOCH[:16]}.json"]


def test_a_new_epoch_takes_the_old_ones_place(controller, keeper, tmp_path):
    controller.say(("acme", "user", EPOCH))
    keeper.round()
    controller.say(("acme", "user", NEXT))
    keeper.round()
    assert names(tmp_path) == [f"acme.user.{NEXT[:16]}.json"]


def test_it_waits_with_the_question_and_renews_when_it_is_time(controller, keeper):
    controller.say(("acme", "user", EPOCH))
    keeper.round()
    keeper.round()
    assert controller.asked == [(0, 0.0), (2, 20.0)]
    assert len(controller.leased) == 1
    keeper.advance(301)
    keeper.round()
    assert controller.asked[-1] == (2, 0.0)
    assert len(controller.leased) == 2


def test_a_controller_that_is_away_takes_nothing(controller, keeper, tmp_path):
    controller.say(("acme", "user", EPOCH))
    keeper.round()
    controller.error = UnreachableError("KV-CONN-050", "the controller does not answer")
    assert not keeper.round()
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("code", ["KV-TEN-030", "KV-API-001"])
def test_a_connector_that_is_not_registered_any_more_loses_all(controller, keeper, tmp_path, code):
    controller.say(("acme", "user", EPOCH))
    keeper.round()
    controller.error = RefusedError(code, "this connector is not registered for leases")
    assert not keeper.round()
    assert names(tmp_path) == []
    controller.error = None
    assert keeper.round()
    assert len(names(tmp_path)) == 1


def test_leases_of_an_earlier_run_go_unless_they_are_named(controller, tmp_path):
    for name in (f"acme.user.{EPOCH[:16]}.json", f"old.user.{EPOCH[:16]}.json", "kvctl-canary.lease"):
        (tmp_path / name).write_bytes(b"{}")
    made = Keeper(controller.ask, controller.get, tmp_path)
    controller.say(("acme", "user", EPOCH))
    made.round()
    assert names(tmp_path) == [f"acme.user.{EPOCH[:16]}.json", "kvctl-canary.lease"]


def test_no_two_scopes_share_a_file():
    assert file_name(LeasedScope("a-b", "c", EPOCH)) != file_name(LeasedScope("a", "b-c", EPOCH))


def test_an_answer_that_is_none_is_no_answer(tmp_path):
    from kvctl.connector import keep

    address = ControllerAddress(f"unix:{tmp_path}/nobody.sock")
    with pytest.raises(UnreachableError) as caught:
        keep.scopes(address, b"h" * 32, 0, 0.0)
    assert caught.value.code == "KV-CONN-050"
    assert json.dumps(base64.b64encode(b"h" * 32).decode()) not in str(caught.value)


def test_a_site_without_scopes_yet_is_not_asked_without_pause(controller, keeper):
    controller.number = 0
    keeper.round()
    keeper.round()
    assert controller.asked == [(0, 0.0), (0, 20.0)]


def test_a_controller_without_scopes_is_not_asked_again_at_once(controller, keeper):
    controller.number = 0
    keeper.round()
    keeper.round()
    assert controller.asked == [(0, 0.0), (0, 20.0)]


def test_a_lease_that_is_over_goes_while_the_controller_is_away(controller, tmp_path):
    over, good = tmp_path / "over.user.json", tmp_path / "good.user.json"
    for path, ends in ((over, time.time() - 1), (good, time.time() + 60)):
        scope = Scope("acme", "user", bytes.fromhex(EPOCH))
        write_lease(path, KeyLease(RootKey(scope, b"r" * 32), b"c", int(ends)))
    controller.error = UnreachableError("KV-CONN-050", "the controller does not answer")
    assert not Keeper(controller.ask, controller.get, tmp_path).round()
    assert names(tmp_path) == ["good.user.json"]


def checked(tmp_path, endpoint, capsys):
    from kvctl.connector import keep

    Identity.generate().save(tmp_path / "k")
    files = [text for name in ("certificate", "key", "ca", "leases") for text in (f"--{name}", str(tmp_path / name))]
    code = keep.main(["--check", "--controller", endpoint, "--identity", str(tmp_path / "k"), *files])
    return code, capsys.readouterr()


def test_a_controller_that_cannot_be_asked_is_told_before_an_engine_counts_as_deployed(tmp_path, capsys):
    code, said = checked(tmp_path, f"unix:{tmp_path}/nobody.sock", capsys)
    assert code == ExitCode.UNREACHABLE
    assert "KV-CONN-050" in said.err


def test_a_check_asks_once_and_writes_nothing(tmp_path, capsys, monkeypatch):
    from kvctl.connector import keep

    monkeypatch.setattr(keep, "scopes", lambda *_: Scopes(7, (LeasedScope("acme", "user", EPOCH),)))
    code, said = checked(tmp_path, "unix:/s", capsys)
    assert (code, said.out) == (0, "scopes: 1\n")
    assert names(tmp_path) == ["k"]
