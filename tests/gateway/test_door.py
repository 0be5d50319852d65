"""Clients that take nothing, or leave while nothing is read from them: neither keeps anything for long."""

import asyncio
import json
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import Site, chat, run, until
from tests.gateway.test_engines import Authority

TEXT = 4_000_000
NOT_FOUND = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"


class Long(StubEngine):
    """Has a long answer that is no stream."""

    async def _serve_chat(self, request, body):
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return web.json_response({"choices": [{"index": 0, "message": {"content": "x" * TEXT}}], "usage": usage})


def request(**fields) -> bytes:
    body = json.dumps(chat(**fields)).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def connect(site: Site, *, reads: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(f"{site.folder}/gate.sock")
    if not reads:
        writer.transport.pause_reading()
    return reader, writer


def connections(site: Site) -> int:
    return len(site.daemon.servers[0].connections)


@pytest.mark.parametrize("asks", [request(), NOT_FOUND * 20_000], ids=["a long answer", "refusals without a key"])
def test_a_client_that_takes_nothing_is_left_whatever_it_was_sent(tmp_path: Path, asks: bytes):
    async def work(site: Site):
        _, writer = await connect(site, reads=False)
        writer.write(asks)
        await until(lambda: connections(site) == 1)
        await until(lambda: connections(site) == 0)
        writer.transport.abort()

    run(tmp_path, work, engines={"e1": Long()}, limits={"stall_seconds": 0.5})


def test_a_client_that_takes_it_slowly_gets_all(tmp_path: Path):
    async def work(site: Site):
        reader, writer = await connect(site, reads=False)
        writer.write(request())
        found = b""
        while len(found) < TEXT:  # four times as long in all as it may take nothing
            writer.transport.resume_reading()
            found += await reader.readexactly(200_000)
            if writer.transport.is_reading():
                writer.transport.pause_reading()
            await asyncio.sleep(0.1)
        assert found.count(b"x") >= TEXT - 1000
        writer.close()

    run(tmp_path, work, engines={"e1": Long()}, limits={"stall_seconds": 0.5})


def test_a_client_that_takes_nothing_does_not_keep_it_from_stopping(tmp_path: Path):
    async def work(site: Site):
        _, writer = await connect(site, reads=False)
        writer.write(request())
        await until(lambda: bool(site.gateway.records.counter))
        async with asyncio.timeout(10):
            await site.daemon.stop()
        writer.transport.abort()

    run(tmp_path, work, engines={"e1": Long()}, limits={"drain_seconds": 0.1})


def test_a_client_that_takes_its_answer_while_it_stops_gets_all(tmp_path: Path):
    async def work(site: Site):
        reader, writer = await connect(site, reads=False)
        writer.write(request())
        await until(lambda: bool(site.gateway.records.counter) and not site.gateway.flights)
        stop = asyncio.create_task(site.daemon.stop())
        await until(lambda: site.gateway.draining)
        writer.transport.resume_reading()
        assert len(await reader.read()) > TEXT
        await stop
        writer.close()

    run(tmp_path, work, engines={"e1": Long()})


BEHIND = {
    "a body": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"
    b"Content-Length: 4000000\r\n\r\n" + b"x" * 3_000_000,
    "requests": NOT_FOUND * 100,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behind", BEHIND)
def test_a_client_that_leaves_behind_what_was_not_read_is_noticed(tmp_path: Path, behind: str, stream: bool):
    """Its end stands behind all that it has sent."""

    async def work(site: Site):
        _, writer = await connect(site)
        writer.write(request(stream=stream))
        await until(lambda: site.engine.running == 1)
        writer.write(BEHIND[behind])
        await asyncio.sleep(0.01)
        writer.transport.abort()
        await until(lambda: site.engine.cancelled == 1 and not site.gateway.flights)
        assert site.gateway.admission.running == {}
        await until(lambda: connections(site) == 0)

    run(tmp_path, work, engines={"e1": StubEngine(first=60)})


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_sends_too_much_behind_a_request_is_told(tmp_path: Path, stream: bool):
    async def work(site: Site):
        reader, writer = await connect(site)
        writer.write(request(stream=stream))
        await until(lambda: site.engine.running == 1)
        if stream:
            await until(lambda: next(iter(site.gateway.flights)).meter is not None)
        writer.write(BEHIND["requests"])
        told = await reader.read()
        assert told.startswith(b"HTTP/1.1 200" if stream else b"HTTP/1.1 400")
        assert told.count(b"HTTP/1.1") == 1
        assert b"KV-GATE-036" in told

    run(tmp_path, work, engines={"e1": StubEngine(words=9, release=asyncio.Event())})


def test_requests_behind_a_request_are_answered_in_turn(tmp_path: Path):
    async def work(site: Site):
        reader, writer = await connect(site)
        writer.write(request() + NOT_FOUND * 20 + request())
        await until(lambda: site.engine.running == 1)
        await asyncio.sleep(0.3)
        site.engine.release.set()
        found = b""
        while found.count(b"HTTP/1.1 200") < 2:
            found += await reader.read(65536)
        assert found.count(b"HTTP/1.1 404") == 20
        writer.close()

    run(tmp_path, work, engines={"e1": StubEngine(words=9, release=asyncio.Event())})


@pytest.mark.parametrize("leaves", [False, True])
def test_over_tls_too(tmp_path: Path, leaves: bool):
    held = Authority(tmp_path).issue("tls")
    context = ssl.create_default_context(cafile=held["ca"])
    engine = StubEngine(first=60) if leaves else Long()

    async def work(site: Site):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # the kernel would take all of a long answer
        sock.connect(("127.0.0.1", site.daemon.addresses[1][1]))
        _, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname="127.0.0.1")
        server = site.daemon.servers[1]
        writer.transport.pause_reading()
        writer.write(request())
        await until(lambda: site.engine.running == 1 or bool(site.gateway.records.counter))
        if leaves:
            writer.write(BEHIND["a body"])
            await asyncio.sleep(0.01)
            writer.transport.abort()
            await until(lambda: site.engine.cancelled == 1)
        await until(lambda: not server.connections)
        writer.transport.abort()

    tls = {"certificate": held["certificate"], "key": held["key"]}
    listen = [f"unix:{tmp_path}/gate.sock", "tcp:127.0.0.1:0"]
    run(tmp_path, work, engines={"e1": engine}, listen=listen, tls=tls, limits={"stall_seconds": 0.5})
