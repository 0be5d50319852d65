"""The admin socket: what it tells, and the flush of the engines."""

import asyncio
import json
from pathlib import Path

import pytest

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import Site, chat, run


def test_flush_says_which_engines_answered(tmp_path: Path):
    engines = {"e1": StubEngine(), "e2": StubEngine(resettable=False), "e3": StubEngine()}

    async def work(site: Site):
        status, said = await site.admin_post("/v1/flush", {})
        assert status == 200
        assert said["complete"] is False
        by_name = {one["engine"]: one for one in said["engines"]}
        assert {name: (one["answered"], one["success"]) for name, one in by_name.items()} == {
            "e1": (True, True),
            "e2": (True, False),
            "e3": (False, False),
        }
        assert "VLLM_SERVER_DEV_MODE" in by_name["e2"]["why"]
        assert by_name["e3"]["why"]
        assert engines["e1"].resets == 1
        assert "reset_external=true" in next(one.path for one in engines["e1"].seen if "reset" in one.path)
        _, said = await site.admin_post("/v1/flush", {"engines": ["e1"]})
        assert said["complete"] is True
        assert (await site.admin_post("/v1/flush", {"engines": ["e9"]}))[1]["code"] == "KV-GATE-054"
        assert (await site.admin_post("/v1/flush", {"engine": "e1"}))[0] == 400

    run(tmp_path, work, engines=engines, absent=("e3",))


def test_after_a_flush_nothing_is_cached(tmp_path: Path):
    long = " ".join(map(str, range(64)))

    async def work(site: Site):
        await site.chat(long)
        await site.chat(long)
        await site.admin_post("/v1/flush", {})
        await site.chat(long)
        assert [record["cached"] for record in await site.usage()] == [0, 63, 0]

    run(tmp_path, work)


def test_health_names_what_is_wrong(tmp_path: Path):
    async def work(site: Site):
        assert await site.admin_get("/healthz") == (503, {"ok": False, "reasons": ["no engine answers"]})

    async def well(site: Site):
        assert await site.admin_get("/healthz") == (200, {"ok": True, "reasons": []})

    run(tmp_path, work, absent=("e1",))
    run(tmp_path, well)


def test_metrics_are_prometheus_text_with_help(tmp_path: Path):
    async def work(site: Site):
        await site.post("/v1/chat/completions", chat("a b c", stream=True))
        await site.chat(key="wrong", cache_salt="x")
        await site.chat(cache_salt="x", kv_whatever=1)
        _, text = await site.admin_get("/metrics")
        lines = text.splitlines()
        for line in (
            'kvgated_requests_total{tenant="acme",route="chat",status="200"} 2',
            'kvgated_tokens_total{tenant="acme",kind="prompt"} 5',
            'kvgated_tokens_total{tenant="acme",kind="output"} 16',
            'kvgated_refusals_total{reason="unknown_key"} 1',
            'kvgated_stripped_total{field="cache_salt"} 1',
            'kvgated_stripped_total{field="other"} 1',
            'kvgated_ttft_seconds_count{sla="silver"} 2',
            'kvgated_engine_up{engine="e1"} 1',
            "kvgated_snapshot_number 1",
            "kvgated_usage_records_total 2",
        ):
            assert line in lines
        named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        shown = {line.partition("{")[0].partition(" ")[0] for line in lines if not line.startswith("#")}
        assert all(any(one.startswith(name) for name in named) for one in shown)

    run(tmp_path, work)


@pytest.mark.parametrize("path", ["/v1/nothing", "/", "/v1/usage?after=x", "/v1/usage?limit=0", "/v1/usage?limit=x"])
def test_wrong_requests(tmp_path: Path, path: str):
    async def work(site: Site):
        status, told = await site.admin_get(path)
        assert status in (400, 404)
        assert told["code"].startswith("KV-GATE-05")

    run(tmp_path, work)


def test_usage_is_collected_and_removed(tmp_path: Path):
    async def work(site: Site):
        for _ in range(3):
            await site.chat()
        _, page = await site.admin_get("/v1/usage?limit=2")
        assert [record["counter"] for record in page["records"]] == [1, 2]
        _, page = await site.admin_get(f"/v1/usage?after={page['after']}")
        assert [record["counter"] for record in page["records"]] == [3]
        _, none = await site.admin_get(f"/v1/usage?after={page['after']}")
        assert (none["records"], none["after"]) == ([], page["after"])
        assert await site.admin_post("/v1/collected", {"upto": page["after"]}) == (200, {"removed": 0})
        _, stat = await site.admin_get("/v1/stat")
        assert stat["usage"] == {"boot": page["boot"], "counter": 3, "waiting": 0}

    run(tmp_path, work)


def test_a_request_that_comes_in_pieces_is_heard_to_its_end(tmp_path: Path):
    async def work(site: Site):
        body = json.dumps({"engines": ["e1"]}).encode()
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/admin.sock")
        head = f"POST /v1/flush HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body[:9])
        await asyncio.sleep(0.05)
        writer.write(body[9:])
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()

    run(tmp_path, work)


def test_a_request_that_is_too_long_flushes_nothing(tmp_path: Path):
    async def work(site: Site):
        status, told = await site.admin_post("/v1/flush", {"engines": ["e1" * 50_000]})
        assert (status, told["code"]) == (400, "KV-GATE-054")
        assert site.engine.resets == 0

    run(tmp_path, work)
