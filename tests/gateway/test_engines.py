"""Engines: those that take no salt, those behind TLS, and who gets their slots."""

import asyncio
import datetime
import ipaddress
import json
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kvctl.bench.stub_engine import StubEngine
from kvctl.gateway.engines import unsalted
from tests.gateway.site import ACME, OTHER, Site, change, chat, run, until


def test_a_route_without_salt_is_not_served(tmp_path: Path):
    async def work(site: Site):
        status, _, data = await site.post("/v1/messages", chat(max_tokens=1))
        assert status == 501
        assert "KV-GATE-047" in json.loads(data)["error"]["message"]
        assert not [seen for seen in site.engine.seen if seen.path == "/v1/messages"]
        assert (await site.chat())[0] == 200
        assert (await site.post("/v1/messages/count_tokens", chat()))[0] == 200

    run(tmp_path, work, engines={"e1": StubEngine(unsalted=("messages",))})


def test_a_document_is_judged_by_what_it_says():
    assert unsalted({}) == frozenset()
    inline = {"requestBody": {"content": {"application/json": {"schema": {"properties": {"cache_salt": {}}}}}}}
    assert unsalted({"paths": {"/v1/messages": {"post": inline}}}) == frozenset()
    assert unsalted({"paths": {"/v1/messages": {"post": {}}}}) == {"/v1/messages"}


def test_gold_goes_first_and_finds_room_while_bronze_floods(tmp_path: Path):
    """Eight slots: bronze never has more than its half of them, so gold starts at once; nothing depends on a clock."""
    engine = StubEngine(words=5, release=asyncio.Event())

    async def work(site: Site):
        flood = [asyncio.create_task(site.chat(f"b{number}", key="other-1")) for number in range(20)]
        await until(lambda: len(site.gateway.admission) == 16)
        await until(lambda: engine.running == 4)
        gold = [asyncio.create_task(site.chat(f"g{number}")) for number in range(4)]
        await until(lambda: engine.running == 8)
        assert len(site.gateway.admission) == 16
        late = [asyncio.create_task(site.chat(f"l{number}")) for number in range(2)]
        await until(lambda: len(site.gateway.admission) == 18)
        engine.release.set()
        done = await asyncio.gather(*flood, *gold, *late)
        assert {status for status, _ in done} == {200}
        order = [seen.body["messages"][0]["content"] for seen in engine.seen if seen.method == "POST"]
        assert max(order.index("l0"), order.index("l1")) <= 12, "before the bronze requests that came earlier"
        stat = (await site.admin_get("/v1/stat"))[1]
        assert stat["engines"][0]["running"] == {"gold": 0, "silver": 0, "bronze": 0}

    tenants = (change(ACME, sla="gold"), change(OTHER, sla="bronze", max_concurrent=20))
    run(tmp_path, work, engines={"e1": engine}, tenants=tenants, e1={"slots": 8})


@pytest.mark.parametrize(("sla", "said"), [("gold", "0"), ("silver", "1"), ("bronze", "2")])
def test_an_engine_that_ranks_is_told_the_class(tmp_path: Path, sla: str, said: str):
    async def work(site: Site):
        status, _, _ = await site.post("/v1/messages", chat(max_tokens=1), headers={"X-Vllm-Priority": "-9"})
        assert status == 200
        sent = next(seen for seen in site.engine.seen if seen.path == "/v1/messages")
        assert sent.headers["x-vllm-priority"] == said

    run(tmp_path, work, tenants=(change(ACME, sla=sla),), e1={"priority": True})


def test_a_conversation_stays_with_its_engine(tmp_path: Path):
    engines = {f"e{number}": StubEngine() for number in range(3)}

    async def work(site: Site):
        for conversation in range(6):
            turns = [{"role": "user", "content": f"{conversation} " + "x " * 400}]
            for turn in range(3):
                body = {"model": "tiny", "messages": turns}
                assert (await site.post("/v1/chat/completions", body))[0] == 200
                turns = [*turns, {"role": "assistant", "content": f"a{turn}"}, {"role": "user", "content": "more"}]
        where: dict[str, set[str]] = {}
        for name, engine in engines.items():
            for seen in engine.seen:
                if seen.method == "POST":
                    where.setdefault(seen.body["messages"][0]["content"][:2], set()).add(name)
        assert all(len(names) == 1 for names in where.values())
        assert len(set().union(*where.values())) > 1

    run(tmp_path, work, engines=engines, routing={"prefix": 512})


class Authority:
    """A certificate authority of this test, and what it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        own = self._builder(self.name, self.key.public_key()).add_extension(x509.BasicConstraints(True, 0), True)
        (folder / "ca.pem").write_bytes(own.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public)
        made = made.serial_number(x509.random_serial_number())
        day = datetime.timedelta(days=1)
        return made.not_valid_before(now - day).not_valid_after(now + day)

    def issue(self, name: str) -> dict[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = self._builder(subject, key.public_key()).add_extension(address, False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = made.add_extension(authority, False).add_extension(x509.BasicConstraints(False, None), True)
        (self.folder / f"{name}.pem").write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))
        path = self.folder / f"{name}.key"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        path.chmod(0o600)
        ca = str(self.folder / "ca.pem")
        return {"certificate": str(self.folder / f"{name}.pem"), "key": str(path), "ca": ca}


@pytest.mark.parametrize("stranger", [False, True])
def test_an_engine_over_https_and_its_client_certificate(tmp_path: Path, stranger: bool):
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    engine, client = authority.issue("engine"), authority.issue("tls")
    if stranger:
        client = other.issue("tls") | {"ca": client["ca"]}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(engine["certificate"], engine["key"])
    context.load_verify_locations(engine["ca"])
    context.verify_mode = ssl.CERT_REQUIRED

    async def work(site: Site):
        secured = site.gateway.engines.by_name["e1"]
        runner = web.ServerRunner(web.Server(site.engine.handle, access_log=None))
        await runner.setup()
        port = int(secured.written.url.rpartition(":")[2])
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        secured.up = True
        status, told = await site.chat()
        if stranger:
            assert status in (502, 503)
            assert told["error"]["code"] in ("KV-GATE-042", "KV-GATE-044")
            assert not site.engine.seen
        else:
            assert status == 200, told
            assert [record["engine"] for record in await site.usage()] == ["e1"]
        await runner.cleanup()

    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    tls = {"url": f"https://127.0.0.1:{port}"} | client
    run(tmp_path, work, engines={"e1": StubEngine()}, absent=("e1",), e1=tls, routing={"health_seconds": 3600})


def test_the_gateway_itself_over_tls(tmp_path: Path):
    held = Authority(tmp_path).issue("tls")

    async def work(site: Site):
        port = site.daemon.addresses[1][1]
        context = ssl.create_default_context(cafile=held["ca"])
        url = f"https://127.0.0.1:{port}/v1/chat/completions"
        headers = {"Authorization": "Bearer acme-1"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.post(url, json=chat(stream=True), headers=headers) as response,
        ):
            assert response.status == 200
            assert (await response.read()).endswith(b"data: [DONE]\n\n")

    listen = [f"unix:{tmp_path}/gate.sock", "tcp:127.0.0.1:0"]
    run(tmp_path, work, listen=listen, tls={"certificate": held["certificate"], "key": held["key"]})


class Odd(StubEngine):
    """Describes itself in a way that no engine does."""

    text: str = "[]"

    async def _serve_openapi(self, request: web.BaseRequest, body: object) -> web.StreamResponse:
        return web.Response(text=self.text, content_type="application/json")


@pytest.mark.parametrize("text", ["[]", '{"paths": null}', '{"paths": {"/v1/messages": []}}', "[" * 100_000])
def test_an_engine_that_describes_itself_oddly_is_not_asked_and_ends_no_gateway(tmp_path: Path, text: str):
    odd = Odd()
    odd.text = text

    async def work(site: Site):
        found = {engine.name: engine for engine in site.gateway.engines.all}
        assert (found["e1"].up, found["e2"].up) == (False, True)
        assert found["e1"].why
        assert (await site.chat())[0] == 200

    run(tmp_path, work, engines={"e1": odd, "e2": StubEngine()})


class Piecemeal(StubEngine):
    """Sends what it says about itself in two pieces."""

    async def _serve_models(self, request: web.BaseRequest, body: object) -> web.StreamResponse:
        return await self._cut(request, (await super()._serve_models(request, {})).body)

    async def _serve_reset(self, request: web.BaseRequest, body: object) -> web.StreamResponse:
        return await self._cut(request, (await super()._serve_reset(request, {})).body)

    async def _cut(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(data[:9])
        await asyncio.sleep(0.05)
        await response.write(data[9:])
        return response


def test_what_an_engine_says_is_heard_to_its_end(tmp_path: Path):
    async def work(site: Site):
        assert (await site.chat())[0] == 200
        _, told = await site.admin_post("/v1/flush", {})
        assert told["engines"][0]["success"]

    run(tmp_path, work, engines={"e1": Piecemeal()})


class Endless(StubEngine):
    async def _serve_models(self, request: web.BaseRequest, body: object) -> web.StreamResponse:
        return web.Response(body=b'{"data": []' + b" " * (5 << 20) + b"}")


def test_what_an_engine_says_has_a_bound(tmp_path: Path):
    async def work(site: Site):
        (engine,) = site.gateway.engines.all
        assert not engine.up
        assert "4194304 bytes" in engine.why

    run(tmp_path, work, engines={"e1": Endless()})
