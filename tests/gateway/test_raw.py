"""Requests as bytes: none of the ways of writing one reaches what it should not, or says who it is to the engine."""

import asyncio
import gzip
import json
import re
from pathlib import Path

import pytest

from kvctl.connector import handle
from tests.gateway.site import Site, chat, run

BODY = json.dumps(chat()).encode()
LINE = b"POST /v1/chat/completions HTTP/1.1"
HOST = b"Host: x\r\n"
KEY = b"Authorization: Bearer acme-1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HIDDEN = b"POST /invocations HTTP/1.1\r\n" + HOST + KEY + b"Content-Length: 2\r\n\r\n{}"


def length(body: bytes = BODY) -> bytes:
    return b"Content-Length: %d\r\n" % len(body)


def request(head: bytes = b"", body: bytes = BODY, line: bytes = LINE, key: bytes = KEY) -> bytes:
    """With the body's length."""
    return line + b"\r\n" + HOST + key + head + length(body) + b"\r\n" + body


def framed(head: bytes, body: bytes, line: bytes = LINE) -> bytes:
    """With nothing of its length but what `head` says."""
    return line + b"\r\n" + HOST + KEY + head + b"\r\n" + body


def chunks(*parts: bytes, trailer: bytes = b"", size: bytes = b"%x") -> bytes:
    return b"".join(size % len(part) + b"\r\n" + part + b"\r\n" for part in parts) + b"0\r\n" + trailer + b"\r\n"


async def send(site: Site, data: bytes, seconds: float = 0.5) -> tuple[list[int], bool]:
    """Statuses of all answers, and whether the connection was closed after them."""
    reader, writer = await asyncio.open_unix_connection(f"{site.folder}/gate.sock")
    found, closed = b"", True
    writer.write(data)
    try:
        async with asyncio.timeout(seconds):
            while part := await reader.read(65536):
                found += part
    except TimeoutError:
        closed = False
    finally:
        writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", found)], closed


AMBIGUOUS = {
    "two lengths": request(b"Content-Length: 5\r\n"),
    "two equal lengths": request(length()),
    "a list of lengths": framed(b"Content-Length: %d, %d\r\n" % (len(BODY), len(BODY)), BODY),
    "a signed length": framed(b"Content-Length: +%d\r\n" % len(BODY), BODY),
    "a negative length": framed(b"Content-Length: -1\r\n", BODY),
    "a length with a separator": framed(b"Content-Length: 1_0\r\n", BODY),
    "a length before a space": framed(b"Content-Length : %d\r\n" % len(BODY), BODY),
    "length and chunks": request(CHUNKED, chunks(BODY)),
    "chunks twice": framed(CHUNKED * 2, chunks(BODY)),
    "chunks of gzip": framed(b"Transfer-Encoding: gzip, chunked\r\n", chunks(BODY)),
    "chunks not last": framed(b"Transfer-Encoding: chunked, identity\r\n", chunks(BODY)),
    "chunks of another coding": request(b"Transfer-Encoding: xchunked\r\n"),
    "no coding": request(b"Transfer-Encoding: identity\r\n"),
    "a coding behind a control character": request(b"Transfer-Encoding: \x0bchunked\r\n"),
    "a coding before a space": request(b"Transfer-Encoding : chunked\r\n"),
    "a folded header": request(b"X: a\r\n Transfer-Encoding: chunked\r\n"),
    "a bare carriage return": request(b"X: a\rTransfer-Encoding: chunked\r\n"),
    "chunks in HTTP/1.0": framed(CHUNKED, chunks(BODY), b"POST /v1/chat/completions HTTP/1.0"),
    "a size of a chunk in C": framed(CHUNKED, chunks(BODY, size=b"0x%x")),
    "a size before a space": framed(CHUNKED, chunks(BODY, size=b"%x ")),
    "an extension with a line feed": framed(CHUNKED, chunks(BODY, size=b"%x;a\nb")),
    "chunks by line feeds": framed(CHUNKED, b"%x\n%s\n0\n\n" % (len(BODY), BODY)),
    "lines by line feeds": request().replace(b"\r\n", b"\n"),
    "two hosts": request(HOST),
    "no host": request().replace(HOST, b""),
    "a header before the host": request().replace(b"Host: x", b" Host: x"),
    "a zero byte": request(b"X: a\0b\r\n"),
    "a header without a name": request(b": a\r\n"),
    "two users": request(b"x-kvctl-subject: one\r\nX-Kvctl-Subject: two\r\n"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(tmp_path: Path, name: str):
    async def work(site: Site):
        statuses, closed = await send(site, AMBIGUOUS[name] + HIDDEN, 5)
        assert statuses == [400]
        assert closed
        assert not [seen for seen in site.engine.seen if seen.method == "POST"]

    run(tmp_path, work, routing={"health_seconds": 3600})


HARMLESS = {
    "a trailer": framed(CHUNKED, chunks(BODY, trailer=b"x-api-key: other-1\r\nx-tenant-id: other\r\n")),
    "an extension of a chunk": framed(CHUNKED, chunks(BODY, size=b"%x;cache_salt=x")),
    "chunks of single bytes": framed(CHUNKED, chunks(*(BODY[at : at + 1] for at in range(len(BODY))))),
    "headers of many kinds": request(
        b"x-tenant-id: other\r\nX_Tenant_Id: other\r\ncache_salt: x\r\nkv_transfer_params: {}\r\n"
        b"X-Vllm-Priority: -1\r\n"
    ),
    "another target by header": request(
        b"X-HTTP-Method-Override: GET\r\nX-Original-URL: /invocations\r\nX-Rewrite-URL: /invocations\r\n"
        b"X-Forwarded-Prefix: /invocations\r\nX-Forwarded-Host: other\r\n"
    ),
    "a query": request(line=b"POST /v1/chat/completions?cache_salt=x&x-tenant-id=other&../invocations HTTP/1.1"),
    "a multipart type": request(b"Content-Type: multipart/form-data; boundary=b\r\n"),
    "a charset": request(b"Content-Type: application/json; charset=utf-16\r\n"),
    "an upgrade": request(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
    "a websocket": request(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    "a hop-by-hop length": request(b"Connection: Content-Length, Authorization\r\n"),
    "a method behind": request() + HIDDEN,
    "fields in capitals and escapes": request(
        body=BODY[:-1] + rb', "CACHE_SALT": "x", "\u0063ache_salt": "y", "Kv_Transfer_Params": {"kvctl": "x"},'
        rb' "kv\u005fhints": [], "X-Tenant-ID": "other", "x-t\u0065nant-id": "other", "cache_salt\u0000": "z"}'
    ),
    "fields twice": request(
        body=b'{"cache_salt": "x", "kv_transfer_params": {"a": 1}, "kv_transfer_params": {"b": 2}, '
        + BODY[1:-1]
        + b', "cache_salt": "y", "cache_salt": "z"}'
    ),
}
NESTED = {
    "extra_body": {"cache_salt": "x", "kv_transfer_params": {}},
    "metadata": {"x-tenant-id": "other", "kv_hints": 1},
    "nested": [{"cache_salt": "x", "deep": {"kv_transfer_params": {"kvctl": "x"}}}],
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_said_beside_the_request_changes_nothing(tmp_path: Path, name: str):
    async def work(site: Site):
        await send(site, request())
        await send(site, HARMLESS[name])
        plain, tried = [seen for seen in site.engine.seen if seen.method == "POST"]
        sames(site, plain, tried)

    run(tmp_path, work, routing={"health_seconds": 3600})


def sames(site: Site, plain, tried) -> None:
    for seen in (plain, tried):
        params = seen.body.pop("kv_transfer_params")
        assert handle.verify(params["kvctl"], [site.identity.public], now=0).tenant == "acme"
        assert set(params) == {"kvctl"}
    assert tried.body == plain.body
    assert tried.path == plain.path == "/v1/chat/completions"
    unlike = {"x-request-id"}
    assert {k: v for k, v in tried.headers.items() if k not in unlike} == {
        k: v for k, v in plain.headers.items() if k not in unlike
    }


def test_names_below_the_outermost_fields_reach_nothing(tmp_path: Path):
    """An engine takes its salt and its parameters from the outermost fields alone."""

    async def work(site: Site):
        await send(site, request())
        await send(site, request(body=json.dumps(chat() | NESTED).encode()))
        plain, tried = [seen for seen in site.engine.seen if seen.method == "POST"]
        assert tried.body["cache_salt"] == plain.body["cache_salt"]
        assert set(tried.body) - set(plain.body) == set(NESTED)

    run(tmp_path, work)


REFUSED = {
    "gzip": (request(b"Content-Encoding: gzip\r\n", gzip.compress(BODY)), 415),
    "gzip behind identity": (
        request(b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", gzip.compress(BODY)),
        415,
    ),
    "a form": (request(b"Content-Type: application/x-www-form-urlencoded\r\n", b"model=tiny&cache_salt=x"), 400),
    "a multipart body": (
        request(
            b"Content-Type: multipart/form-data; boundary=b\r\n",
            b'--b\r\nContent-Disposition: form-data; name="cache_salt"\r\n\r\nx\r\n--b--\r\n',
        ),
        400,
    ),
    "UTF-16": (request(body=json.dumps(chat(cache_salt="x")).encode("utf-16")), 400),
    "a byte order mark": (request(body=b"\xef\xbb\xbf" + BODY), 400),
    "two types": (request(b"Content-Type: application/json\r\nContent-Type: text/plain\r\n"), 400),
    "two documents": (request(body=BODY + BODY), 400),
    "two keys in one header": (request(KEY.replace(b"acme-1", b"other-1")), 401),
    "two keys in two headers": (request(b"x-api-key: other-1\r\n"), 401),
    "a key twice over": (request(key=b"x-api-key: acme-1\r\nX-Api-Key: other-1\r\n"), 401),
    "an absolute target": (request(line=b"POST http://engine/v1/chat/completions HTTP/1.1"), 404),
    "another host's target": (request(line=b"POST http://engine/invocations HTTP/1.1"), 404),
    "an authority": (request(line=b"POST engine:80 HTTP/1.1"), 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a version to come": (request(line=b"POST /v1/chat/completions HTTP/1.9"), 400),
    "two targets": (request(line=b"POST /v1/chat/completions /invocations HTTP/1.1"), 400),
    "a target with a zero byte": (request(line=b"POST /v1/chat/completions\0 HTTP/1.1"), 400),
    "a method in small letters": (request(line=b"post /v1/chat/completions HTTP/1.1"), 400),
    "a header of 20,000 bytes": (request(b"X: " + b"a" * 20_000 + b"\r\n"), 400),
    "200 headers": (request(b"".join(b"X%d: a\r\n" % number for number in range(200))), 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_request_of_ours_reaches_no_engine(tmp_path: Path, name: str):
    async def work(site: Site):
        data, status = REFUSED[name]
        statuses, _ = await send(site, data)
        assert statuses[:1] == [status]
        assert not [seen for seen in site.engine.seen if seen.method == "POST"]

    run(tmp_path, work, routing={"health_seconds": 3600})


def test_a_body_that_is_a_request_is_a_body(tmp_path: Path):
    async def work(site: Site):
        line = b"GET /v1/models HTTP/1.1"
        statuses, _ = await send(site, request(body=HIDDEN, line=line))
        assert statuses == [200]
        statuses, _ = await send(site, framed(b"", HIDDEN, line))
        assert statuses == [200, 404], "without a length there is none, and what follows is the next request"
        assert not [seen for seen in site.engine.seen if seen.method == "POST"]

    run(tmp_path, work, routing={"health_seconds": 3600})
