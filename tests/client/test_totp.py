"""An account with an authenticator, as its owner meets it over https and in this process."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyotp
import pytest

from kvctl.api.app import create_app
from kvctl.client.choose import Embedded
from kvctl.client.http import Http
from kvctl.controller.accounts import Accounts
from kvctl.controller.core import opened
from kvctl.types import requests as r
from kvctl.types.errors import RefusedError
from kvctl.types.principals import Principal, Role
from tests.api.rig import Listening, settings

WORD = "correct horse battery staple"
ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)


@pytest.fixture(params=["direct", "https"])
def new_client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[type]:
    with opened(settings(tmp_path)) as ctl:
        accounts = Accounts(ctl.books)
        made = ctl.call("account.create", ROOT, r.AccountCreate("bo", ["tenant-admin"], "acme"))
        accounts.redeem(made["link"].rpartition("/")[2], WORD)
        if request.param == "https":
            with Listening(create_app(ctl, accounts=accounts), ctl, tmp_path) as server:
                yield lambda: Http(server.https, ca=server.ca)
            return
    yield lambda: Embedded(settings(tmp_path))


def test_from_enrolment_on_signing_in_takes_a_code(new_client) -> None:
    first = new_client()
    first.login("bo", WORD)
    begun = first.call("account.totp", r.AccountTotp())
    assert begun["active"] is False
    code = pyotp.TOTP(begun["secret"])
    done = first.call("account.totp", r.AccountTotp(code.now()))
    assert (done["active"], len(done["recovery_codes"])) == (True, 10)
    for given, refused in (((), "KV-API-075"), (("000000",), "KV-API-062")):
        with pytest.raises(RefusedError) as caught:
            new_client().login("bo", WORD, *given)
        assert caught.value.code == refused
    ahead = code.at(int(time.time()) + 30)  # the present one was taken by the enrolment
    session = new_client().login("bo", WORD, ahead)
    assert session["name"] == "local:bo"
    last = new_client()
    last.login("bo", WORD, done["recovery_codes"][0])
    assert last.call("account.totp", r.AccountTotp(remove=True))["active"] is False
    new_client().login("bo", WORD)
