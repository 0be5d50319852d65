"""Who waits for news on purpose keeps nobody else waiting."""

import asyncio
from dataclasses import fields, replace

import httpx
from cryptography.hazmat.primitives.serialization import Encoding

from kvctl.api import routes
from kvctl.api.app import create_app
from kvctl.api.identity import PEER, Peer
from kvctl.controller.pki import Authority, Services, new_request
from kvctl.types.operations import TABLE
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import TenantCreate
from tests.api.rig import ORIGIN, People, controller

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
HOLDER = "ab" * 32


def test_every_operation_that_can_wait_has_a_place_of_its_own():
    assert set(routes.WAITING) == {o.name for o in TABLE if "wait" in {field.name for field in fields(o.request)}}


def test_engines_that_wait_for_scopes_leave_the_controller_to_others(tmp_path, monkeypatch):
    monkeypatch.setattr(routes, "WORKERS", 2)
    with controller(tmp_path) as ctl:
        ctl.settings = replace(ctl.settings, connectors={"gpu1-engine": HOLDER})
        certificate = Authority(ctl.directory / "tls", ctl.site).service("gpu1-engine", new_request("gpu1-engine")[1])
        Services(ctl.directory / "tls").add("gpu1-engine", certificate)
        engine = Peer("192.0.2.1", certificate=certificate.public_bytes(Encoding.DER))
        asyncio.run(asked_meanwhile(ctl, create_app(ctl, accounts=People()), engine))


async def asked_meanwhile(ctl, app, engine):
    def caller(peer):
        async def with_peer(scope, receive, send):
            await app({**scope, PEER: peer}, receive, send)

        return httpx.AsyncClient(transport=httpx.ASGITransport(with_peer), base_url=ORIGIN)

    query = {"holder": HOLDER, "after": 10**6, "wait": 10}
    async with caller(engine) as waiting:
        questions = [asyncio.create_task(waiting.get("/v1/lease/scopes", params=query)) for _ in range(2)]
        while len(ctl.books.on_commit) < 2:
            await asyncio.sleep(0.01)
        refused = await waiting.get("/v1/tenant/ls")
        assert refused.status_code == 403
        assert not any(question.done() for question in questions)
        await asyncio.to_thread(ctl.call, "tenant.create", ROOT, TenantCreate("acme", "Acme"))
        answers = [await question for question in questions]
    assert [answer.json()["scopes"][0]["tenant"] for answer in answers] == ["acme", "acme"]
