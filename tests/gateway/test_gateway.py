"""Requests end to end: who may send them, what reaches the engine, what comes back, what is recorded."""

import asyncio
import json
import re
import time
from pathlib import Path

import aiohttp
import pytest

from kvctl.bench.stub_engine import StubEngine
from kvctl.connector import handle
from kvctl.connector.pseudonym import pseudonym
from tests.gateway.site import ACME, OTHER, Site, change, chat, events, run, sha, tenant

LONG = " ".join(f"word{number}" for number in range(100))
ROUTES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}]},
    "/v1/completions": {"prompt": LONG},
    "/v1/responses": {"input": LONG},
    "/v1/messages": {"messages": [{"role": "user", "content": LONG}], "max_tokens": 8},
}


def used(record) -> tuple[int, int, int]:
    return record["prompt"], record["cached"], record["output"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ROUTES)
def test_a_request_is_answered_salted_tied_and_metered(tmp_path: Path, path: str, stream: bool):
    async def work(site: Site):
        body = {"model": "tiny", "stream": stream} | ROUTES[path]
        for key in ("acme-1", "acme-2", "other-1"):
            status, headers, data = await site.post(path, body, key)
            assert status == 200, data
            assert b"w7" in data
            assert headers["x-request-id"].startswith("req_")
        sent = [seen.body for seen in site.engine.seen if seen.path == path]
        salts = [body["cache_salt"] for body in sent]
        assert salts[0] == salts[1] != salts[2]
        assert len(salts[0]) == 43
        for body, name in zip(sent, ("acme", "acme", "other"), strict=True):
            held = handle.verify(body["kv_transfer_params"]["kvctl"], [site.identity.public], now=time.time())
            assert (held.tenant, held.domain) == (name, "user")
            assert held.salt_digest == handle.salt_digest(body["cache_salt"])
        records = await site.usage()
        assert [record["counter"] for record in records] == [1, 2, 3]
        assert [(record["tenant"], record["key"]) for record in records] == [
            ("acme", "id-acme-1"), ("acme", "id-acme-2"), ("other", "id-other-1"),
        ]  # fmt: skip
        assert [used(record) for record in records] == [(100, 0, 8), (100, 96, 8), (100, 0, 8)]
        said = [(one.prompt, one.cached, one.output) for one in site.engine.said]
        assert [used(record) for record in records] == said
        assert not any(record["partial"] for record in records)

    run(tmp_path, work)


@pytest.mark.parametrize("path", ROUTES)
def test_what_a_client_says_of_salts_and_routing_changes_nothing(tmp_path: Path, path: str):
    forged = {
        "cache_salt": "mine",
        "Cache_Salt": "mine",
        "kv_transfer_params": {"kvctl": "forged", "do_remote_prefill": True},
        "kv_hints": {"x": 1},
        "kv_load_tiers": [],
        "ec_transfer_params": {},
        "vllm_xargs": {"kv_transfer_params": "x", "session_id": "s"},
        "request_id": "r",
        "session_id": "s",
        "priority": -100,
        "prompt_cache_key": "p",
        "x-tenant-id": "other",
        "tenant_id": "other",
    }
    headers = {
        "x-tenant-id": "other",
        "X-data-parallel-rank": "3",
        "X-Session-ID": "s",
        "X-Vllm-Priority": "-9",
        "X-Request-Id": "r",
        "Cookie": "a=b",
        "Forwarded": "for=1",
    }

    async def work(site: Site):
        body = {"model": "tiny"} | ROUTES[path]
        assert (await site.post(path, body, "acme-1"))[0] == 200
        assert (await site.post(path, body | forged, "acme-1", headers))[0] == 200
        plain, tried = [seen for seen in site.engine.seen if seen.path == path]
        for seen in (plain, tried):
            assert seen.body.pop("kv_transfer_params")["kvctl"] != "forged"
        assert tried.body == plain.body
        unlike = {"x-request-id", "content-length"}
        assert {k: v for k, v in tried.headers.items() if k not in unlike} == {
            k: v for k, v in plain.headers.items() if k not in unlike
        }
        assert set(tried.headers) == {"host", "accept", "content-type", "content-length", "x-request-id", "connection"}
        second = (await site.usage())[1]
        assert second["tenant"] == "acme"
        assert second["cached"] == 96, "the tenant's own cache, in spite of its salt"

    run(tmp_path, work)


@pytest.mark.parametrize(
    "target",
    [
        "/invocations", "/metrics", "/health", "/tokenize", "/v1/load_lora_adapter", "/reset_prefix_cache",
        "/v1/chat/completions/", "//v1/chat/completions", "/v1//chat/completions", "/v1/./chat/completions",
        "/v1/models/../../invocations", "/v1/models/%2e%2e/%2e%2e/invocations", "/%76%31/chat/completions",
        "/v1%2fchat%2fcompletions", "/V1/chat/completions", "http://engine/v1/chat/completions",
        "http://engine/invocations", "/v1/chat/completions;x", "/v1/chat/completions#x", "/v1/responses/abc",
        "*", "/v1/embeddings", "/v1/messages/batches", "/inference/v1/generate", "/v1/chat/completions/render",
    ],
)  # fmt: skip
def test_no_other_route_reaches_an_engine(tmp_path: Path, target: str):
    async def work(site: Site):
        body = json.dumps(chat()).encode()
        for method in ("POST", "GET", "OPTIONS", "PUT", "DELETE", "HEAD", "CONNECT"):
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock")
            head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\nConnection: close\r\n"
            writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status = await reader.readline()
            assert status.split()[1] in (b"404", b"400"), (method, status)
            writer.close()
        assert [seen.path for seen in site.engine.seen] == ["/v1/models", "/openapi.json"], (
            "asked by the gateway itself"
        )

    run(tmp_path, work, routing={"health_seconds": 3600})


def test_the_engine_gets_the_path_from_the_list_and_no_query(tmp_path: Path):
    async def work(site: Site):
        status, _, _ = await site.post("/v1/chat/completions?beta=true&cache_salt=x", chat())
        assert status == 200
        assert site.last(site.engine).path == "/v1/chat/completions"

    run(tmp_path, work)


def test_keys(tmp_path: Path):
    expired = change(
        tenant("late", "late-1"), keys=(change(ACME.keys[0], id="l", sha256=sha("late-1"), expires_at=1000),)
    )
    narrow = change(tenant("narrow"), keys=(change(ACME.keys[0], id="n", sha256=sha("n-1"), scopes=("models",)),))

    async def work(site: Site):
        async def ask(key: str | None, path: str = "/v1/chat/completions", **headers: str):
            status, _, data = await site.post(path, chat(max_tokens=1), key, headers)
            return status, json.loads(data)

        assert (await ask("acme-1"))[0] == 200
        assert (await ask(None, **{"x-api-key": "acme-1"}))[0] == 200
        status, told = await ask("wrong")
        assert (status, told["error"]["type"], told["error"]["code"]) == (401, "authentication_error", "KV-GATE-021")
        status, told = await ask("wrong", "/v1/messages")
        assert status == 401
        assert told["type"] == "error"
        assert told["error"]["type"] == "authentication_error"
        assert told["error"]["message"].startswith("KV-GATE-021")
        assert (await ask(None))[1]["error"]["code"] == "KV-GATE-024"
        assert (await ask("acme-1", **{"x-api-key": "other-1"}))[1]["error"]["code"] == "KV-GATE-024"
        assert (await ask("late-1"))[1]["error"]["code"] == "KV-GATE-023"
        status, told = await ask("gone-1", "/v1/messages")
        assert (status, told["error"]["type"]) == (403, "permission_error")
        assert (await ask("n-1"))[1]["error"]["code"] == "KV-GATE-025"
        assert len([seen for seen in site.engine.seen if seen.method == "POST"]) == 2

    gone = tenant("gone", "gone-1", state="suspended")
    run(tmp_path, work, tenants=(ACME, OTHER, expired, narrow, gone))


def test_a_users_id_becomes_a_pseudonym_and_goes_nowhere_else(tmp_path: Path):
    async def work(site: Site):
        cases = [
            ("/v1/chat/completions", {"user": "u1"}, {}),
            ("/v1/chat/completions", {"safety_identifier": "u1", "user": "u2"}, {}),
            ("/v1/responses", {"user": "u1"}, {}),
            ("/v1/messages", {"metadata": {"user_id": "u1"}}, {}),
            ("/v1/completions", {"user": "u2"}, {"x-kvctl-subject": "u1"}),
        ]
        for path, more, headers in cases:
            assert (await site.post(path, {"model": "tiny"} | ROUTES[path] | more, "acme-1", headers))[0] == 200
            sent = site.last(site.engine)
            held = handle.verify(sent.body["kv_transfer_params"]["kvctl"], [site.identity.public], now=time.time())
            assert held.subject == pseudonym(ACME.subject_key, "u1")
            assert not {"user", "safety_identifier", "metadata"} & set(sent.body)
            assert "x-kvctl-subject" not in sent.headers
        assert all(record["subject"] is True for record in await site.usage())
        _, text = await site.admin_get("/metrics")
        assert 'kvgated_without_subject_total{tenant="acme"}' not in text
        await site.chat()
        _, text = await site.admin_get("/metrics")
        assert 'kvgated_without_subject_total{tenant="acme"} 1' in text

    run(tmp_path, work)


def test_a_tenant_that_wants_subjects_refuses_without_one(tmp_path: Path):
    async def work(site: Site):
        status, told = await site.chat()
        assert (status, told["error"]["code"]) == (400, "KV-GATE-027")
        assert (await site.chat(user="u1"))[0] == 200

    run(tmp_path, work, tenants=(change(ACME, require_subject="refuse"),))


def test_users_of_an_isolated_domain_share_nothing(tmp_path: Path):
    async def work(site: Site):
        for user in ("u1", "u1", "u2"):
            await site.chat(LONG, user=user)
        await site.chat(LONG)
        await site.chat(LONG)
        assert [record["cached"] for record in await site.usage()] == [0, 96, 0, 0, 0]
        assert "kv_transfer_params" not in site.last(site.engine).body, "nobody could be told whose it is"

    run(tmp_path, work, tenants=(tenant("acme", "acme-1", domain={"isolation": "subject"}),))


def test_retention_and_registered_prompts_are_in_the_handle(tmp_path: Path):
    async def work(site: Site):
        system = [{"role": "system", "content": "be kind"}]
        await site.post("/v1/chat/completions", {"model": "tiny", "messages": system, "user": "u1"})
        await site.post("/v1/chat/completions", {"model": "tiny", "messages": system + chat()["messages"]})
        more = {"documents": [{"text": "my file"}]}
        await site.post("/v1/chat/completions", {"model": "tiny", "messages": system} | more)
        await site.post("/v1/chat/completions", {"model": "tiny", "messages": [system[0] | {"name": "me"}]})
        held = [
            handle.verify(seen.body["kv_transfer_params"]["kvctl"], [site.identity.public], now=time.time())
            for seen in site.engine.seen
            if seen.method == "POST"
        ]
        assert [one.kind.name for one in held] == ["COMMON", "PRIVATE", "PRIVATE", "PRIVATE"]
        assert held[0].subject == bytes(16)
        assert held[0].chunk_expires_at == 0
        assert abs(held[1].chunk_expires_at - time.time() - 600) < 30

    kept = {"conversation": 600, "common": None}
    run(tmp_path, work, tenants=(change(ACME, common=(sha("be kind"),), retention=kept),))


@pytest.mark.parametrize(
    ("asked", "at_end", "always"),
    [
        (None, False, False),
        ({"include_usage": True}, True, False),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
        ({"include_usage": False, "continuous_usage_stats": True}, False, False),
    ],
)
def test_a_stream_has_the_usage_that_its_client_asked_for(tmp_path: Path, asked, at_end: bool, always: bool):
    async def work(site: Site):
        more = {} if asked is None else {"stream_options": asked}
        for path, body in (("/v1/chat/completions", chat()), ("/v1/completions", {"model": "tiny", "prompt": "a b"})):
            _, headers, data = await site.post(path, body | {"stream": True} | more)
            assert headers["content-type"].startswith("text/event-stream")
            chunks = events(data)
            assert data.endswith(b"data: [DONE]\n\n")
            assert [bool(chunk["choices"]) for chunk in chunks].count(False) == (1 if at_end else 0)
            assert all(("usage" in chunk) == always for chunk in chunks if chunk["choices"])
            (record,) = (await site.usage())[-1:]
            if at_end:
                assert chunks[-1]["usage"]["completion_tokens"] == record["output"] == 8

    run(tmp_path, work)


def test_a_stream_passes_as_the_engine_sent_it(tmp_path: Path):
    """Byte for byte the same as straight from the engine, for a client that asks for all usage."""

    async def work(site: Site):
        options = {"include_usage": True, "continuous_usage_stats": True}
        body = chat("ü \u2028 \\n", stream=True, stream_options=options)
        _, _, through = await site.post("/v1/chat/completions", body)
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(f"{tmp_path}/e1.sock")) as direct,
            direct.post("http://e/v1/chat/completions", json=body) as response,
        ):
            straight = await response.read()

        def same(data: bytes) -> list[str]:
            return [line for line in data.decode().replace('"c-1"', '"c-0"').splitlines() if "data" in line]

        def timeless(lines: list[str]) -> list[str]:
            return [re.sub(r'"created":\d+', "", line) for line in lines]

        assert timeless(same(through)) == timeless(same(straight))

    run(tmp_path, work)


def test_values_pass_as_the_client_wrote_them(tmp_path: Path):
    async def work(site: Site):
        raw = b'{"model": "tiny", "seed": 123456789012345678901234567890, "temperature": 1e-3, "messages": [{"role":'
        raw += b' "user", "content": "\\u00fc", "x": 1.10}], "stream": false, "stream": false}'
        status, _, _ = await site.post("/v1/chat/completions", raw)
        assert status == 200
        body = site.last(site.engine).body
        assert body["seed"] == 123456789012345678901234567890
        assert body["messages"][0] == {"role": "user", "content": "ü", "x": 1.10}

    run(tmp_path, work)


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{", b"null", b'{"model": 1}', b'{"model": ""}', b'{"messages": []}', b"\xff{}",
     b'{"model": "tiny", "stream": "yes"}', b'{"model": "tiny", "user": 7}', b"[" * 100_000,
     b'{"model": "tiny", "stream": true, "stream_options": 3}'],
)  # fmt: skip
def test_what_is_no_request_is_refused(tmp_path: Path, raw: bytes):
    async def work(site: Site):
        status, _, data = await site.post("/v1/chat/completions", raw)
        assert (status, json.loads(data)["error"]["code"]) == (400, "KV-GATE-026")
        assert not [seen for seen in site.engine.seen if seen.method == "POST"]

    run(tmp_path, work)


@pytest.mark.parametrize("more", [{"previous_response_id": "resp_1"}, {"background": True}])
def test_kept_responses_are_not_served(tmp_path: Path, more):
    async def work(site: Site):
        status, _, data = await site.post("/v1/responses", {"model": "tiny", "input": "x"} | more)
        assert (status, json.loads(data)["error"]["code"]) == (400, "KV-GATE-026")
        await site.post("/v1/responses", {"model": "tiny", "input": "x", "store": True})
        assert site.last(site.engine).body["store"] is False

    run(tmp_path, work)


def test_models(tmp_path: Path):
    engines = {"e1": StubEngine(models=("tiny",)), "e2": StubEngine(models=("big",))}

    async def work(site: Site):
        async def ask(key: str, **headers: str):
            url = site.url + "/v1/models"
            async with site.session.get(url, headers={"x-api-key": key} | headers) as response:
                return await response.json()

        openai = await ask("acme-1")
        assert {one["id"]: one.get("max_model_len") for one in openai["data"]}["tiny"] == 4096
        assert [one["id"] for one in openai["data"]] == ["tiny", "big"]
        assert "root" not in openai["data"][0]
        assert [one["id"] for one in (await ask("other-1"))["data"]] == ["tiny"]
        anthropic = await ask("acme-1", **{"anthropic-version": "2023-06-01"})
        assert anthropic["data"][0]["type"] == "model"
        assert anthropic["has_more"] is False
        refused = await ask("wrong", **{"anthropic-version": "2023-06-01"})
        assert (refused["type"], refused["error"]["type"]) == ("error", "authentication_error")
        assert (await ask("wrong"))["error"]["code"] == "KV-GATE-021"
        site.gateway.watch.directory = None
        refused = await ask("acme-1", **{"anthropic-version": "2023-06-01"})
        assert (refused["type"], refused["error"]["type"]) == ("error", "overloaded_error")

    tenants = (ACME, change(OTHER, processing_countries=("DE",)))
    run(tmp_path, work, tenants=tenants, engines=engines, e2={"country": "FR"})


def test_no_engine_in_an_allowed_country(tmp_path: Path):
    async def work(site: Site):
        status, told = await site.chat()
        assert status == 403
        assert told["error"]["code"] == "KV-GATE-041"
        assert "processing_countries [FR, IT]" in told["error"]["message"]
        status, told = await site.chat(key="other-1")
        assert status == 200
        status, told = await site.chat(key="other-1", model="no such")
        assert (status, told["error"]["code"]) == (404, "KV-GATE-040")

    run(tmp_path, work, tenants=(change(ACME, processing_countries=("FR", "IT")), OTHER))


def test_nothing_secret_is_logged_or_recorded(tmp_path: Path):
    marker = "M4RK3R-prompt"

    async def work(site: Site):
        await site.chat(marker, user="M4RK3R-user")
        await site.post("/v1/chat/completions", chat(marker, user="M4RK3R-user", stream=True))
        await site.chat(marker, key="M4RK3R-key")
        await site.post("/v1/chat/completions", b'{"model": "M4RK3R-model", "M4RK3R": M4RK3R}', "acme-1")
        site.engine.fault = "error"
        await site.chat(marker, user="M4RK3R-user")
        site.engine.fault = "break"
        await site.post("/v1/chat/completions", chat(marker, stream=True))
        await site.admin_get("/v1/usage?after=M4RK3R")
        _, metrics = await site.admin_get("/metrics")
        files = "".join(path.read_text() for path in (tmp_path / "usage").iterdir())
        for text in (site.log.getvalue(), metrics, files):
            assert "M4RK3R" not in text
            assert "acme-1" not in text.replace("id-acme-1", "")

    run(tmp_path, work)
