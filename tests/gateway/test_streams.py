"""Streams that end early, engines that fail, tenants that are suspended: what the client sees and what is recorded."""

import asyncio
import json
import resource
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import ACME, OTHER, Site, change, chat, events, run, until

KEY = {"Authorization": "Bearer acme-1"}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def held() -> StubEngine:
    """Holds every answer after its second token until `release` is set."""
    return StubEngine(words=50, release=asyncio.Event())


async def begin(
    site: Site, path: str = "/v1/chat/completions", key: str = "acme-1", **fields
) -> aiohttp.ClientResponse:
    """A stream whose first event has arrived."""
    body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "a b c"}]} | fields
    response = await site.session.post(site.url + path, json=body, headers={"Authorization": f"Bearer {key}"})
    assert response.status == 200
    await response.content.readany()
    return response


@pytest.mark.parametrize(
    ("path", "used"),
    [
        ("/v1/chat/completions", (3, 2)),
        ("/v1/messages", (3, None)),
        ("/v1/responses", (None, None)),
    ],
)
def test_a_client_that_leaves_cancels_and_is_metered_as_far_as_it_came(tmp_path: Path, path: str, used):
    async def work(site: Site):
        more = {"input": "a b c"} if path == "/v1/responses" else {"max_tokens": 50}
        response = await begin(site, path, **more)
        await until(lambda: next(iter(site.gateway.flights)).meter.deltas >= 2)
        response.close()
        await until(lambda: site.engine.cancelled == 1 and not site.gateway.flights)
        assert site.engine.running == 0
        (record,) = await site.usage()
        assert record["partial"] is True
        assert (record["prompt"], record["output"]) == used
        assert record["deltas"] >= 2
        assert record["status"] == 499
        assert site.gateway.admission.running == {}
        assert site.gateway.held.bytes == 0

    run(tmp_path, work, engines={"e1": held()})


def test_a_client_that_leaves_before_the_answer_cancels_too(tmp_path: Path):
    async def work(site: Site):
        ask = asyncio.create_task(site.chat())
        await until(lambda: site.engine.running == 1)
        ask.cancel()
        await until(lambda: site.engine.cancelled == 1 and not site.gateway.flights)
        (record,) = await site.usage()
        assert (record["partial"], record["prompt"], record["output"]) == (True, None, None)

    run(tmp_path, work, engines={"e1": StubEngine(fault="silent")})


def test_a_client_that_leaves_the_queue_takes_no_slot(tmp_path: Path):
    async def work(site: Site):
        first = await begin(site)
        second = asyncio.create_task(site.chat())
        await until(lambda: len(site.gateway.admission) == 1)
        second.cancel()
        await until(lambda: len(site.gateway.admission) == 0)
        assert site.gateway.admission.waiting.total() == 0
        site.engine.release.set()
        await first.read()
        assert (await site.chat())[0] == 200
        assert len(site.engine.said) == 2

    run(tmp_path, work, engines={"e1": held()}, tenants=(change(ACME, max_concurrent=1),))


@pytest.mark.parametrize("revoked", [False, True])
def test_a_suspension_ends_running_streams_and_new_requests(tmp_path: Path, revoked: bool):
    async def work(site: Site):
        mine, others = await begin(site), await begin(site, key="other-1")
        waiting = asyncio.create_task(site.post("/v1/messages", chat(max_tokens=3), "acme-1"))
        await until(lambda: site.engine.running == 3)
        site.publish(change(ACME, keys=()) if revoked else change(ACME, state="suspended"), OTHER)
        async with asyncio.timeout(5):
            rest = await mine.read()
            status, _, told = await waiting
        code = "KV-GATE-021" if revoked else "KV-GATE-022"
        assert code in events(rest)[-1]["error"]["message"]
        assert b"[DONE]" not in rest
        assert status == (401 if revoked else 403)
        assert json.loads(told)["type"] == "error"
        assert (await site.chat())[0] == status
        assert site.engine.cancelled == 2
        site.engine.release.set()
        assert (await others.read()).endswith(b"[DONE]\n\n"), "another tenant's stream goes on"
        records = {record["tenant"]: record for record in await site.usage()}
        assert records["acme"]["partial"]
        assert not records["other"]["partial"]

    run(tmp_path, work, engines={"e1": held()})


def test_a_key_that_is_over_ends_what_it_began(tmp_path: Path):
    """Without any new snapshot: what was asked for must not go on behind a key that asks for nothing any more."""

    async def work(site: Site):
        ends = int(time.time()) + 2
        keys = tuple(change(key, expires_at=ends) for key in ACME.keys)
        site.publish(change(ACME, keys=keys), OTHER)
        number = site.number
        await until(lambda: site.gateway.watch.directory.snapshot.number == number)
        mine, others = await begin(site), await begin(site, key="other-1")
        rest = await mine.read()
        assert time.time() >= ends
        assert "KV-GATE-023" in events(rest)[-1]["error"]["message"]
        await until(lambda: site.engine.cancelled == 1)
        site.engine.release.set()
        assert (await others.read()).endswith(b"[DONE]\n\n")

    run(tmp_path, work, engines={"e1": held()})


def test_a_scope_that_is_taken_away_ends_what_it_began(tmp_path: Path):
    async def work(site: Site):
        running = await begin(site)
        site.publish(change(ACME, keys=tuple(change(key, scopes=("models",)) for key in ACME.keys)))
        assert "KV-GATE-025" in events(await running.read())[-1]["error"]["message"]
        await until(lambda: site.engine.cancelled == 1)

    run(tmp_path, work, engines={"e1": held()})


def test_no_snapshot_serves_nobody(tmp_path: Path):
    async def work(site: Site):
        site.publish(ACME, seconds=2)
        number = site.number
        await until(lambda: site.gateway.watch.directory.snapshot.number == number)
        await until(lambda: site.gateway.watch.directory.snapshot.expires_at <= site.gateway.clock())
        status, told = await site.chat()
        assert (status, told["error"]["code"]) == (503, "KV-GATE-013")
        assert (await site.admin_get("/healthz"))[0] == 503
        site.publish(ACME)
        await until(lambda: site.gateway.watch.directory.snapshot.number == number + 1)
        assert (await site.chat())[0] == 200

    run(tmp_path, work)


def test_an_older_snapshot_is_not_taken(tmp_path: Path):
    async def work(site: Site):
        site.publish(change(ACME, state="suspended"), number=7)
        await until(lambda: site.gateway.watch.directory.snapshot.number == 7)
        site.publish(ACME, number=6)
        await until(lambda: "KV-GATE-012" in site.log.getvalue())
        assert (await site.chat())[0] == 403

    run(tmp_path, work)


@pytest.mark.parametrize(("path", "kind"), [("/v1/chat/completions", "openai"), ("/v1/messages", "anthropic")])
def test_an_engine_that_breaks_off_ends_the_stream_with_an_error(tmp_path: Path, path: str, kind: str):
    async def work(site: Site):
        status, _, data = await site.post(path, chat(stream=True, max_tokens=50))
        assert status == 200
        last = events(data)[-1]
        assert "KV-GATE-044" in last["error"]["message"]
        if kind == "anthropic":
            assert last["type"] == "error"
            assert b"event: error\n" in data
        (record,) = await site.usage()
        assert (record["partial"], record["output"], record["status"]) == (
            True,
            None if kind == "anthropic" else 3,
            502,
        )

    run(tmp_path, work, engines={"e1": StubEngine(words=50, fault="break")})


def test_an_engines_error_passes_and_costs_nothing(tmp_path: Path):
    async def work(site: Site):
        status, told = await site.chat()
        assert (status, told["error"]["message"]) == (500, "no")
        assert await site.usage() == []
        assert site.engine.running == 0

    run(tmp_path, work, engines={"e1": StubEngine(fault="error")})


@pytest.mark.parametrize("engine", [StubEngine(fault="error"), StubEngine(fault="refuse")])
def test_an_engines_error_has_the_shape_of_the_clients_api(tmp_path: Path, engine: StubEngine):
    async def work(site: Site):
        status, _, data = await site.post("/v1/messages", chat(max_tokens=1))
        told = json.loads(data)
        assert (told["type"], told["error"]["message"]) == ("error", "no")
        assert told["error"]["type"] == {400: "invalid_request_error", 500: "api_error"}[status]
        assert told["request_id"].startswith("req_")

    run(tmp_path, work, engines={"e1": engine})


def test_no_more_connections_than_there_is_room_for(tmp_path: Path):
    async def work(site: Site):
        path = f"{tmp_path}/gate.sock"
        held = [await asyncio.open_unix_connection(path) for _ in range(3)]
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        for _, one in held[:2]:
            one.close()
        await until(lambda: len(site.daemon.servers[0].connections) == 1)
        assert (await site.chat())[0] == 200
        for one in (writer, held[2][1]):
            one.close()

    run(tmp_path, work, limits={"connections": 3})


def test_an_engine_that_says_no_usage_is_noticed(tmp_path: Path):
    async def work(site: Site):
        await site.post("/v1/chat/completions", chat(stream=True))
        (record,) = await site.usage()
        assert (record["prompt"], record["output"], record["deltas"]) == (None, None, 10)
        assert 'kvgated_unmetered_total{tenant="acme"} 1' in (await site.admin_get("/metrics"))[1]

    run(tmp_path, work, engines={"e1": StubEngine(fault="no_usage")})


def test_a_silent_engine_is_left_after_its_time(tmp_path: Path):
    async def work(site: Site):
        status, told = await site.chat()
        assert (status, told["error"]["code"]) == (504, "KV-GATE-046")
        await until(lambda: site.engine.cancelled == 1)

    run(tmp_path, work, engines={"e1": StubEngine(fault="silent")}, limits={"silence_seconds": 0.2})


def test_an_engine_that_cannot_be_reached_is_passed_over(tmp_path: Path):
    async def work(site: Site):
        await site.runners["e2"].cleanup()
        for number in range(8):
            assert (await site.chat(f"{number} different"))[0] == 200
        assert len(site.engines["e1"].said) == 8
        _, text = await site.admin_get("/metrics")
        assert "kvgated_retries_total 1" in text, "only the first one found it gone"
        _, stat = await site.admin_get("/v1/stat")
        assert {one["name"]: one["up"] for one in stat["engines"]} == {"e1": True, "e2": False}
        assert site.gateway.admission.running == {}
        assert not any(engine.running.total() for engine in site.gateway.engines.all)

    run(tmp_path, work, engines={"e1": StubEngine(), "e2": StubEngine()}, routing={"health_seconds": 3600})


def test_no_engine_at_all_is_said(tmp_path: Path):
    async def work(site: Site):
        status, headers, data = await site.post("/v1/messages", chat(max_tokens=1))
        assert status == 503
        assert json.loads(data)["error"]["type"] == "overloaded_error"
        assert headers["retry-after"] == "5"
        assert (await site.chat())[1]["error"]["code"] == "KV-GATE-042"

    run(tmp_path, work, absent=("e1",))


def test_a_request_that_reached_an_engine_is_never_sent_again(tmp_path: Path):
    async def work(site: Site):
        status, _ = await site.chat()
        assert status == 500
        asked = [seen for engine in site.engines.values() for seen in engine.seen if seen.method == "POST"]
        assert len(asked) == 1

    run(tmp_path, work, engines={"e1": StubEngine(fault="error"), "e2": StubEngine(fault="error")})


def test_limits_of_a_tenant(tmp_path: Path):
    async def work(site: Site):
        assert (await site.chat())[0] == 200
        assert (await site.chat())[0] == 200
        status, headers, data = await site.post("/v1/chat/completions", chat())
        assert (status, json.loads(data)["error"]["code"]) == (429, "KV-GATE-030")
        assert int(headers["retry-after"]) >= 1
        assert (await site.chat(key="other-1", max_tokens=10))[0] == 200  # 2 + 10 tokens: the day's are used up
        status, headers, data = await site.post("/v1/messages", chat(max_tokens=1), "other-1")
        assert (status, json.loads(data)["error"]["type"]) == (429, "rate_limit_error")
        assert "KV-GATE-031" in json.loads(data)["error"]["message"]

    tenants = (change(ACME, requests_per_minute=2), change(OTHER, tokens_per_day=12))
    run(tmp_path, work, tenants=tenants)


def test_a_restart_gives_no_second_day(tmp_path: Path):
    tenants = (change(ACME, tokens_per_day=10),)

    async def first(site: Site):
        assert (await site.chat())[0] == 200
        assert (await site.chat())[0] == 429

    async def second(site: Site):
        assert (await site.chat())[0] == 429

    run(tmp_path, first, tenants=tenants)
    run(tmp_path, second, tenants=tenants)


def test_a_full_queue_is_said_with_a_time_to_come_back(tmp_path: Path):
    async def work(site: Site):
        first = await begin(site)
        second = asyncio.create_task(site.chat())
        await until(lambda: len(site.gateway.admission) == 1)
        status, headers, data = await site.post("/v1/chat/completions", chat())
        assert (status, json.loads(data)["error"]["code"]) == (429, "KV-GATE-032")
        assert int(headers["retry-after"]) >= 1
        site.engine.release.set()
        await first.read()
        assert (await second)[0] == 200

    tenants = (change(ACME, max_concurrent=1),)
    run(tmp_path, work, engines={"e1": held()}, tenants=tenants, limits={"queue_per_tenant": 1})


def test_waiting_has_an_end(tmp_path: Path):
    async def work(site: Site):
        first = await begin(site)
        status, told = await site.chat()
        assert (status, told["error"]["code"]) == (429, "KV-GATE-033")
        first.close()

    tenants = (change(ACME, max_concurrent=1),)
    run(tmp_path, work, engines={"e1": held()}, tenants=tenants, limits={"queue_seconds": 0.1})


def test_bodies_have_bounds(tmp_path: Path):
    async def work(site: Site):
        async def code(body: bytes, **headers: str) -> str:
            _, _, data = await site.post("/v1/chat/completions", body, headers=headers)
            return json.loads(data)["error"]["code"]

        async def parts():
            for _ in range(40):
                yield b"x" * 1000

        big = json.dumps(chat("x" * 20000)).encode()
        assert await code(big) == "KV-GATE-035"
        async with site.session.post(site.url + "/v1/chat/completions", data=parts(), headers=KEY) as response:
            assert (await response.json())["error"]["code"] == "KV-GATE-035"
        assert await code(b"x", **{"Content-Encoding": "gzip"}) == "KV-GATE-028"
        assert site.gateway.held.bytes == 0

    run(tmp_path, work, limits={"body": "16KiB"})


def test_a_slow_body_is_not_waited_for(tmp_path: Path):
    async def work(site: Site):
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock")
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b" 408 " in await reader.readline()
        writer.close()

    run(tmp_path, work, limits={"header_seconds": 0.1, "body_rate": "1MiB"})


def test_expect_continue_is_answered(tmp_path: Path):
    async def work(site: Site):
        body = json.dumps(chat()).encode()
        headers = KEY | {"Expect": "100-continue"}
        async with site.session.post(site.url + "/v1/chat/completions", data=body, headers=headers) as response:
            assert response.status == 200
            assert (await response.json())["usage"]["completion_tokens"] == 8

    run(tmp_path, work)


def test_200_streams_at_once_are_right_and_bounded(tmp_path: Path):
    """Each gets its own answer whole; what the gateway holds of a stream is a few buffers, not the answer."""
    engine = StubEngine(words=60, release=asyncio.Event())

    async def work(site: Site):
        async def one(number: int) -> int:
            words = " ".join(f"n{number}" for _ in range(number + 1))
            key = "acme-1" if number % 2 else "other-1"
            status, _, data = await site.post("/v1/chat/completions", chat(words, stream=True), key)
            assert status == 200
            text = "".join(
                chunk["choices"][0]["delta"].get("content", "") for chunk in events(data) if chunk["choices"]
            )
            assert text == "".join(f"w{at} " for at in range(60))
            assert all("usage" not in chunk for chunk in events(data))
            return number

        before = resident()
        asked = [asyncio.create_task(one(number)) for number in range(200)]
        await until(lambda: engine.running == 200)
        engine.release.set()
        done = await asyncio.gather(*asked)
        assert done == list(range(200))
        records = await site.usage()
        assert sorted(record["prompt"] for record in records) == list(range(1, 201))
        assert [record["counter"] for record in records] == list(range(1, 201))
        said = sorted((one.prompt, one.cached, one.output) for one in engine.said)
        assert sorted((one["prompt"], one["cached"], one["output"]) for one in records) == said
        assert resident() - before < 200 << 20, "of gateway, engine and client together"
        assert site.gateway.held.bytes == 0
        assert not site.gateway.flights

    tenants = tuple(change(one, max_concurrent=200) for one in (ACME, OTHER))
    run(tmp_path, work, engines={"e1": engine}, tenants=tenants, e1={"slots": 256})


class Forgetful(StubEngine):
    """Keeps nothing of what it is sent."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            return await super().handle(request)
        async for _ in request.content.iter_any():
            pass
        self.running += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n')
        await self.release.wait()
        return response


def test_a_body_is_let_go_of_once_it_is_sent(tmp_path: Path):
    """However long its answer takes."""
    engine = Forgetful(release=asyncio.Event())
    body = json.dumps(chat("x" * 7_900_000, stream=True)).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"

    async def work(site: Site):
        writers = []

        async def one() -> None:
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock")
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body))
            for at in range(0, len(body), 65536):
                writer.write(body[at : at + 65536])
                await writer.drain()
            await reader.readuntil(b'"content"')
            writers.append(writer)

        await one()
        before = resident()
        for _ in range(12):
            await one()
        assert engine.running == 13
        assert resident() - before < 6 * len(body)
        engine.release.set()
        for writer in writers:
            writer.close()

    run(tmp_path, work, engines={"e1": engine}, tenants=(change(ACME, max_concurrent=20),))


def test_an_engine_does_not_run_ahead_of_a_client_that_does_not_read(tmp_path: Path):
    """Backpressure: with a client that reads nothing, the engine is held up instead of the gateway's memory growing."""
    engine = StubEngine(words=400_000)

    async def work(site: Site):
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock", limit=1024)
        body = json.dumps(chat(stream=True)).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readline()
        flight = next(iter(site.gateway.flights))
        before = -1
        while flight.meter.deltas != before:  # until nothing moves any more
            before = flight.meter.deltas
            await asyncio.sleep(0.3)
        assert 0 < before < 20_000
        writer.transport.abort()
        await until(lambda: engine.cancelled == 1 and not site.gateway.flights)

    run(tmp_path, work, engines={"e1": engine})


def test_a_client_that_takes_nothing_is_left(tmp_path: Path):
    engine = StubEngine(words=400_000)

    async def work(site: Site):
        _, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock", limit=1024)
        body = json.dumps(chat(stream=True)).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme-1\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: engine.running == 1)
        await until(lambda: engine.cancelled == 1 and not site.gateway.flights)
        (record,) = await site.usage()
        assert record["partial"] is True
        assert record["output"] > 0
        writer.close()

    run(tmp_path, work, engines={"e1": engine}, limits={"stall_seconds": 0.2})


def test_prefill_on_one_engine_and_decode_on_another(tmp_path: Path):
    import time

    from kvctl.connector import handle

    engines = {"p": StubEngine(), "d": StubEngine()}

    async def work(site: Site):
        for path, body in (
            ("/v1/chat/completions", chat(stream=True, n=1, min_tokens=5, max_completion_tokens=9)),
            ("/v1/messages", chat(max_tokens=9)),
            ("/v1/responses", {"model": "tiny", "input": "a b", "max_output_tokens": 9}),
        ):
            assert (await site.post(path, body))[0] == 200
            first, second = (site.last(engine).body for engine in engines.values())
            assert first.get("max_tokens", first.get("max_output_tokens")) == 1
            assert not first["stream"]
            assert first["cache_salt"] == second["cache_salt"]
            held = [
                handle.verify(body["kv_transfer_params"]["kvctl"], [site.identity.public], now=time.time())
                for body in (first, second)
            ]
            assert held[0].await_until == 0
            assert held[1].await_until > time.time()
        assert [record["engine"] for record in await site.usage()] == ["d"] * 3
        engines["p"].fault = "error"
        assert (await site.chat())[0] == 200, "the decoding engine does without"
        held = site.last(engines["d"]).body["kv_transfer_params"]["kvctl"]
        assert handle.verify(held, [site.identity.public], now=time.time()).await_until == 0
        engines["p"].fault = "silent"
        assert (await site.chat())[0] == 200
        await until(lambda: engines["p"].cancelled == 1)

    routing = {"prefill_seconds": 0.2}
    run(tmp_path, work, engines=engines, routing=routing, p={"role": "prefill"}, d={"role": "decode"})


def test_stopping_lets_requests_end_and_takes_no_new_ones(tmp_path: Path):
    async def work(site: Site):
        running = await begin(site)
        kept = await site.session.get(site.url + "/v1/models", headers=KEY)
        await kept.read()
        stop = asyncio.create_task(site.daemon.stop())
        await until(lambda: site.gateway.draining)
        site.engine.release.set()
        assert (await running.read()).endswith(b"[DONE]\n\n")
        await stop
        records = [
            json.loads(line) for path in (tmp_path / "usage").iterdir() for line in path.read_text().splitlines()
        ]
        assert [record["partial"] for record in records] == [False]

    run(tmp_path, work, engines={"e1": held()})


def test_stopping_breaks_off_what_takes_too_long(tmp_path: Path):
    async def work(site: Site):
        running = await begin(site)
        await site.daemon.stop()
        assert events(await running.read())[-1]["error"]["code"] == "KV-GATE-043"
        assert site.engine.cancelled == 1

    run(tmp_path, work, engines={"e1": held()}, limits={"drain_seconds": 0.1})


def test_counting_tokens_passes_an_engine_over_that_cannot_be_reached(tmp_path: Path):
    async def work(site: Site):
        for name in ("e1", "e2"):
            await site.runners[name].cleanup()
        status, headers, data = await site.post("/v1/messages/count_tokens", chat())
        assert (status, headers["retry-after"]) == (503, "5")
        assert "KV-GATE-042" in json.loads(data)["error"]["message"]
        assert not any(engine.up for engine in site.gateway.engines.all)

    run(tmp_path, work, engines={"e1": StubEngine(), "e2": StubEngine()}, routing={"health_seconds": 3600})


class Halting(StubEngine):
    """Says how long its answer is, and ends before that."""

    async def _text(self, body, usage):
        await super()._text(body, usage)
        raise asyncio.IncompleteReadError(b"", 1)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await super().handle(request)
        except asyncio.IncompleteReadError:
            response = web.StreamResponse(headers={"Content-Length": "999", "Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"id"')
            request.transport.close()
            return response


@pytest.mark.parametrize(
    ("engine", "code"), [(Halting(), "KV-GATE-044"), (StubEngine(words=2000), "KV-GATE-045")], ids=["halts", "too long"]
)
def test_an_answer_that_was_computed_and_cannot_be_given_is_on_record(tmp_path: Path, engine: StubEngine, code: str):
    async def work(site: Site):
        status, told = await site.chat()
        assert (status, told["error"]["code"]) == (502, code)
        (record,) = await site.usage()
        assert (record["partial"], record["output"], record["status"]) == (True, None, 502)

    run(tmp_path, work, engines={"e1": engine}, limits={"event": 4096})


def test_an_engine_that_would_mix_tenants_computes_no_prompt_for_another(tmp_path: Path):
    """The prefilling one takes no cache_salt on this route."""
    engines = {"p1": StubEngine(unsalted=("messages",)), "d1": StubEngine()}

    async def work(site: Site):
        assert (await site.post("/v1/messages", chat(max_tokens=1)))[0] == 200
        assert (await site.chat())[0] == 200
        paths = [seen.path for seen in engines["p1"].seen if seen.method == "POST"]
        assert paths == ["/v1/chat/completions"]

    run(tmp_path, work, engines=engines, p1={"role": "prefill"}, d1={"role": "decode"})
