"""What one tenant can take of a gateway that others are in, end to end."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from kvctl.bench.stub_engine import StubEngine
from kvctl.daemon.fields import Size
from kvctl.gateway import sequences, strip
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Classes, Limits
from kvctl.gateway.intake import Held
from kvctl.gateway.routes import Api
from kvctl.types.snapshot import TenantView
from tests.gateway.site import Site, chat, run, tenant, until

GOLD = tenant("g", "g-1", sla="gold", max_concurrent=16)
BRONZE = tenant("b", "b-1", sla="bronze", max_concurrent=8)
WIDE = {
    "n": ("/v1/completions", {"prompt": "a b", "n": 8}),
    "best_of": ("/v1/completions", {"prompt": "a b", "best_of": 8, "n": 1}),
    "prompts": ("/v1/completions", {"prompt": ["a b"] * 8}),
    "tokens": ("/v1/completions", {"prompt": [[1, 2]] * 4, "n": 2}),
    "beams": ("/v1/completions", {"prompt": "a b", "n": 8, "use_beam_search": True}),
    "choices": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "n": 8}),
}


class Counting(StubEngine):
    """Takes lists of prompts, and holds whatever is computed until `release` is set."""

    async def _hold(self) -> web.StreamResponse:
        assert self.release is not None
        await self.release.wait()
        return web.json_response({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    async def _serve_completions(self, request, body) -> web.StreamResponse:
        return await self._hold()

    async def _serve_chat(self, request, body) -> web.StreamResponse:
        return await self._hold()

    async def _serve_count(self, request, body) -> web.StreamResponse:
        await self._hold()
        return web.json_response({"input_tokens": 1})


def holding() -> dict[str, StubEngine]:
    return {"e1": Counting(release=asyncio.Event())}


@pytest.mark.parametrize("kind", WIDE)
def test_a_wide_request_takes_what_its_sequences_take(tmp_path: Path, kind: str):
    path, more = WIDE[kind]

    async def work(site: Site):
        body = {"model": "tiny", "max_tokens": 1} | more
        two = [asyncio.create_task(site.post(path, body, "b-1")) for _ in range(2)]
        await until(lambda: len(site.gateway.admission) == 1)
        _, stat = await site.admin_get("/v1/stat")
        assert stat["engines"][0]["running"] == {"gold": 0, "silver": 0, "bronze": 8}
        assert stat["tenants"] == [{"name": "b", "running": 8, "tokens_today": 0}]
        gold = [asyncio.create_task(site.post(path, body, "g-1"))]
        await until(lambda: site.engine.running == 2)
        site.engine.release.set()
        assert [status for status, _, _ in await asyncio.gather(*two, *gold)] == [200, 200, 200]
        assert site.gateway.admission.running == {}

    run(tmp_path, work, engines=holding(), e1={"slots": 16}, tenants=(GOLD, BRONZE))


@pytest.mark.parametrize("more", [{"n": 9}, {"prompt": ["a"] * 9}, {"prompt": [[1]] * 3, "n": 3}, {"n": 1 << 70}])
def test_what_can_never_fit_is_said_in_the_clients_own_way(tmp_path: Path, more):
    async def work(site: Site):
        status, _, data = await site.post("/v1/completions", {"model": "tiny", "prompt": "a"} | more, "b-1")
        error = json.loads(data)["error"]
        assert (status, error["type"], error["code"]) == (400, "invalid_request_error", "KV-GATE-037")
        assert not [seen for seen in site.engine.seen if seen.method == "POST"]

    run(tmp_path, work, tenants=(BRONZE,))


@pytest.mark.parametrize("wrong", ["64", 64.0, 1.5, True, [64], {"a": 1}])
def test_a_number_of_answers_is_a_whole_number(tmp_path: Path, wrong):
    """An engine takes some of these for a number, and would compute more than was counted."""

    async def work(site: Site):
        for name in ("n", "best_of"):
            status, told = await site.chat(**{name: wrong})
            assert (status, told["error"]["code"]) == (400, "KV-GATE-026")
        assert (await site.chat(n=None))[0] == 200

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "api", "prompts", "each"),
    [
        ('{"prompt": "a"}', Api.COMPLETIONS, 1, 1),
        ('{"prompt": [1, 2, 3]}', Api.COMPLETIONS, 1, 1),
        ('{"prompt": [-1]}', Api.COMPLETIONS, 1, 1),
        ('{"prompt": [[1], [2, 3]]}', Api.COMPLETIONS, 2, 1),
        ('{"prompt": ["a", "b", "c"], "n": 2}', Api.COMPLETIONS, 3, 2),
        ('{"prompt": [{"prompt": "a"}, {"prompt_token_ids": [1]}]}', Api.COMPLETIONS, 2, 1),
        ('{"prompt": "a", "prompt_embeds": ["AA", "BB"]}', Api.COMPLETIONS, 3, 1),
        ('{"prompt": null, "prompt_embeds": "AA"}', Api.COMPLETIONS, 1, 1),
        ('{"prompt": []}', Api.COMPLETIONS, 1, 1),
        ("{}", Api.COMPLETIONS, 1, 1),
        ('{"n": 4, "best_of": 2}', Api.COMPLETIONS, 1, 4),
        ('{"n": 2, "best_of": 4}', Api.COMPLETIONS, 1, 4),
        ('{"n": 0}', Api.CHAT, 1, 1),
        ('{"n": -5}', Api.CHAT, 1, 1),
        ('{"n": 3, "prompt": ["a", "b"]}', Api.CHAT, 1, 3),
        ('{"n": 3}', Api.RESPONSES, 1, 1),
        ('{"n": 3}', Api.MESSAGES, 1, 1),
    ],
)
def test_sequences_are_counted_as_an_engine_makes_them(body: str, api: Api, prompts: int, each: int):
    read = strip.read(body.encode())
    assert (sequences.prompts(read, api), sequences.each(read, api)) == (prompts, each)


def test_counting_tokens_has_a_bound_and_takes_no_slot(tmp_path: Path):
    async def work(site: Site):
        def ask(key: str):
            return asyncio.create_task(site.post("/v1/messages/count_tokens", chat(), key))

        asked = [ask("b-1") for _ in range(20)]
        await until(lambda: sum(one.done() for one in asked) == 12)
        await until(lambda: site.engine.running == 8)
        assert site.gateway.engines.all[0].running.total() == 0
        told = [one.result() for one in asked if one.done()]
        assert {status for status, _, _ in told} == {429}
        assert all(headers["retry-after"] == "1" for _, headers, _ in told)
        error = json.loads(told[0][2])["error"]
        assert error["type"] == "rate_limit_error"
        assert error["message"].startswith("KV-GATE-038")
        other = ask("g-1")
        await until(lambda: site.engine.running == 9)
        site.engine.release.set()
        assert (await other)[0] == 200
        assert sum([(await one)[0] == 200 for one in asked]) == 8
        assert (await ask("b-1"))[0] == 200, "the bound is on those at one time"

    run(tmp_path, work, engines=holding(), tenants=(GOLD, BRONZE))


def test_bronze_tenants_cannot_fill_the_queue_for_gold(tmp_path: Path):
    crowd = tuple(tenant(f"b{number}", f"b{number}-1", sla="bronze") for number in range(3))

    async def work(site: Site):
        gold = [asyncio.create_task(site.chat(key="g-1", n=2))]
        await until(lambda: site.engine.running == 1)
        many = [asyncio.create_task(site.chat(key=f"b{number % 3}-1")) for number in range(30)]
        await until(lambda: sum(one.done() for one in many) == 18)
        assert {one.result()[1]["error"]["code"] for one in many if one.done()} == {"KV-GATE-032"}
        gold += [asyncio.create_task(site.chat(key="g-1")) for _ in range(4)]
        await until(lambda: site.gateway.admission.waiting["gold"] == 4)
        assert len(site.gateway.admission) == 12
        site.engine.release.set()
        assert [status for status, _ in await asyncio.gather(*gold)] == [200] * 5
        answers = [status for status, _ in await asyncio.gather(*many)]
        assert (answers.count(200), answers.count(429)) == (8, 22)

    limits = {"queue": 12, "queue_per_tenant": 8}
    run(tmp_path, work, engines=holding(), e1={"slots": 2}, tenants=(GOLD, *crowd), limits=limits)


def test_one_tenants_bodies_leave_room_for_others(tmp_path: Path):
    async def work(site: Site):
        async def begin(key: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            """All of a body of 64 KiB but its last bytes."""
            reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/gate.sock")
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\nContent-Length: 65536\r\n\r\n"
            writer.write(head.encode() + b" " * 65000)
            await writer.drain()
            return reader, writer

        many = [await begin("b-1") for _ in range(16)]
        await until(lambda: sum(line.startswith("{") and "KV-GATE-039" in line for line in logged(site)) >= 8)
        assert site.gateway.held.bytes <= 256 << 10, "half of what its class may have"
        assert (await site.chat("hello " * 1000, key="g-1"))[0] == 200
        assert (await many[-1][0].readline()).split()[1] == b"429"
        for _, writer in many:
            writer.close()
        await until(lambda: site.gateway.held.bytes == 0)

    run(tmp_path, work, tenants=(GOLD, BRONZE), limits={"body": "64KiB", "held": "1MiB"})


def logged(site: Site) -> list[str]:
    return site.log.getvalue().splitlines()


def filled(held: Held, view: TenantView, size: int) -> tuple[int, Refused]:
    """What it takes in parts of `size`, and why no more."""
    taken = 0
    try:
        while True:
            held.take(view, size)
            taken += size
    except Refused as refused:
        return taken, refused


def test_however_many_bronze_tenants_hold_what_they_can_others_find_room():
    held = Held(Limits(body=Size(16 << 10), held=Size(1 << 20)), Classes())
    for number in range(50):
        taken, refused = filled(held, tenant(f"b{number}", sla="bronze"), 1000)
        assert refused.code in ("KV-GATE-039", "KV-GATE-034")
        if not number:
            assert taken == 262_000, "one alone half of its class's part"
            assert (refused.status, refused.code) == (429, "KV-GATE-039")
    assert held.bytes <= 512 << 10
    assert filled(held, tenant("s", sla="silver"), 1000)[0] > 150_000
    taken, refused = filled(held, GOLD, 1000)
    assert taken > 150_000
    held.give(GOLD, taken)
    with pytest.raises(Refused) as full:
        held.take(GOLD, 1 << 20)
    assert (full.value.status, full.value.code) == (503, "KV-GATE-034")


def test_a_class_may_send_a_body_however_small_its_share_is():
    held = Held(Limits(body=Size(1 << 20), held=Size(8 << 20)), Classes(bronze_share=0.01))
    held.take(BRONZE, 1 << 20)
