"""The same cases over every carrier: what a face sees does not depend on where the controller is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.api.app import create_app
from kvctl.client.choose import Embedded
from kvctl.client.controller import ControllerClient
from kvctl.client.http import Http
from kvctl.controller.accounts import Accounts
from kvctl.controller.core import opened
from kvctl.types import requests as r
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from tests.api.rig import Listening, settings

WORD = "correct horse battery staple"
ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)


@pytest.fixture(params=["direct", "unix", "https"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControllerClient]:
    """An operator's client of a new controller. Over https it is somebody who signed in."""
    if request.param == "direct":
        yield Embedded(settings(tmp_path))
        return
    with opened(settings(tmp_path)) as ctl:
        accounts = Accounts(ctl.books)
        with Listening(create_app(ctl, accounts=accounts), ctl, tmp_path) as server:
            if request.param == "unix":
                yield Http(server.unix)
                return
            made = ctl.call("account.create", ROOT, r.AccountCreate("olga", ["operator"]))
            accounts.redeem(made["link"].rpartition("/")[2], WORD)
            found = Http(server.https, ca=server.ca)
            found.login("olga", WORD)
            yield found


def test_what_was_made_is_there(client: ControllerClient):
    made = client.call(
        "tenant.create", r.TenantCreate("acme", "Acme SAS", quota_bytes=5 << 30, domains=["user", "docs"])
    )
    assert made["schema"] == "kvctl.tenant.create/1"
    shown = client.call("tenant.show", r.TenantNamed("acme"))
    assert shown["about"]["quota_bytes"] == 5 << 30
    assert shown["about"]["requests_per_minute"] is None
    assert {e["domain"] for e in shown["epochs"]} >= {"user", "docs"}
    assert [t["tenant"] for t in client.call("tenant.ls", r.TenantScope())["tenants"]] == ["acme"]
    assert client.call("tenant.ls", r.TenantScope("acme"))["tenants"] != []


def test_a_rehearsal_changes_nothing(client: ControllerClient):
    told = client.call("tenant.create", r.TenantCreate("acme", "Acme", dry_run=True))
    assert told["dry_run"] is True or "would" in told
    assert client.call("tenant.ls", r.TenantScope())["tenants"] == []


def test_texts_arrive_as_they_were_sent(client: ControllerClient):
    reason = 'zweites Wort: "ja" — 100 % & <b>ü</b> ☃'
    client.call("tenant.create", r.TenantCreate("acme", "Société Générale d'Été"))
    client.call("tenant.suspend", r.TenantChange("acme", reason))
    about = client.call("tenant.show", r.TenantNamed("acme"))["about"]
    assert (about["entity"], about["reason"], about["state"]) == ("Société Générale d'Été", reason, "suspended")


CASES: list[tuple[str, Any, type[KvctlError], str]] = [
    ("tenant.show", r.TenantNamed("nobody"), KvctlError, "KV-TEN-"),
    ("tenant.create", r.TenantCreate("not a name!", "x"), KvctlError, "KV-TEN-"),
    ("approve.vote", r.ApprovalVote("a", "yes", "00"), RefusedError, "KV-API-001"),
    ("lease.issue", r.LeaseRequest("acme", "user", "00" * 32), RefusedError, "KV-API-001"),
    ("fleet.check", r.NodesNamed(["a", "b"]), UsageError, "KV-CTL-040"),
    ("run.show", r.RunNamed("r-none"), UsageError, "KV-RUN-001"),
    ("fleet.plan", r.PlanNamed(), UsageError, "KV-PLAN-010"),
    ("no.such", r.Nothing(), UsageError, "KV-CTL-004"),
]


@pytest.mark.parametrize(("name", "asked", "kind", "code"), CASES, ids=[f"{c[0]}" for c in CASES])
def test_an_error_is_what_it_was(
    client: ControllerClient, name: str, asked: Any, kind: type[KvctlError], code: str, tmp_path: Path
):
    with pytest.raises(kind) as caught:
        client.call(name, asked)
    found = caught.value
    assert found.code.startswith(code)
    there = Embedded(settings(tmp_path / "another"))
    with pytest.raises(KvctlError) as direct:
        there.call(name, asked)
    told, expected = found.as_dict(), direct.value.as_dict()
    assert (type(found), told["code"], told["exit_code"]) == (
        type(direct.value),
        expected["code"],
        expected["exit_code"],
    )
    same = str(told["what"]).replace("local:olga", "unix:root")
    assert same == expected["what"]


def test_a_second_of_the_same_is_refused(client: ControllerClient):
    client.call("tenant.create", r.TenantCreate("acme", "Acme"))
    with pytest.raises(KvctlError) as caught:
        client.call("tenant.create", r.TenantCreate("acme", "Acme"))
    assert caught.value.code.startswith("KV-TEN-")
    assert caught.value.exit_code in (ExitCode.USAGE, ExitCode.REFUSED)


def test_lists_and_numbers_of_a_query_arrive(client: ControllerClient):
    assert client.call("run.ls", r.Listed(limit=3))["runs"] == []
    assert client.call("fleet.findings", r.Nothing()) == {"schema": "kvctl.fleet.findings/1", "findings": []}


def test_how_it_stands(client: ControllerClient):
    found = client.call("controller.status", r.Nothing())
    assert found["site"] == "par1"
    assert found["applied"] == found["log_size"]
    assert found["free_bytes"] > 0
