"""Usage records against what the engine said: nothing more, nothing less, whoever leaves and however they ask."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import ACME, Site, change, chat, run, until

HELD = 2  # words of an answer before the engine waits


@dataclass(frozen=True)
class Asked:
    path: str
    words: int  # of the prompt, which all begin alike: some come from the cache
    tokens: int
    choices: int
    stream: bool
    usage: bool  # the client asks for it
    leaves: bool

    @property
    def body(self) -> dict[str, Any]:
        text = "a " * self.words
        prompt: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
        if self.path == "/v1/completions":
            prompt = {"prompt": text}
        elif self.path == "/v1/responses":
            prompt = {"input": text}
        more = {"stream_options": {"include_usage": True}} if self.usage and self.older else {}
        choices = {"n": self.choices} if self.older else {}
        limit = "max_output_tokens" if self.path == "/v1/responses" else "max_tokens"
        return {"model": "tiny", "stream": self.stream, limit: self.tokens, **prompt, **choices, **more}

    @property
    def older(self) -> bool:
        return self.path in ("/v1/chat/completions", "/v1/completions")

    @property
    def output(self) -> int:
        return self.tokens * (self.choices if self.older else 1)

    @property
    def partial(self) -> tuple[int | None, int | None]:
        """Prompt and output of one that left: what the last chunk said, where chunks say it."""
        if self.older:
            return self.words, HELD * self.choices
        return (self.words if self.path == "/v1/messages" else None), None


ASKS = st.builds(
    Asked,
    path=st.sampled_from(["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]),
    words=st.integers(1, 60),
    tokens=st.integers(HELD + 1, 9),
    choices=st.integers(1, 3),
    stream=st.booleans(),
    usage=st.booleans(),
    leaves=st.booleans(),
).filter(lambda ask: ask.stream or not ask.leaves)


@given(st.lists(ASKS, min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_records_are_what_the_engine_said(asks: list[Asked]):
    async def work(site: Site):
        answers = [asyncio.create_task(begin(site, ask)) for ask in asks]
        streams = [ask for ask in asks if ask.stream]
        held = (
            sum(HELD * ask.choices for ask in streams if ask.older),
            sum(HELD for ask in streams if not ask.older),
        )
        await until(lambda: site.engine.running == len(asks) and came_so_far(site) == held)
        for ask, answer in zip(asks, answers, strict=True):
            if ask.leaves:
                (await answer).close()
        leaving = sum(ask.leaves for ask in asks)
        await until(lambda: site.engine.cancelled == leaving)
        assert site.engine.release is not None
        site.engine.release.set()
        for ask, answer in zip(asks, answers, strict=True):
            if not ask.leaves:
                assert await (await answer).read()
        await until(lambda: not site.gateway.flights)
        records = await site.usage()
        whole = sorted((one["prompt"], one["cached"], one["output"]) for one in records if not one["partial"])
        assert whole == sorted((one.prompt, one.cached, one.output * one.choices) for one in site.engine.said)
        assert sorted(one[2] for one in whole) == sorted(ask.output for ask in asks if not ask.leaves)
        partial = [(one["prompt"], one["output"]) for one in records if one["partial"]]
        assert sorted(partial, key=str) == sorted((ask.partial for ask in asks if ask.leaves), key=str)
        assert [one["counter"] for one in records] == list(range(1, len(asks) + 1))

    with TemporaryDirectory() as folder:
        engine = StubEngine(release=asyncio.Event())
        run(Path(folder), work, engines={"e1": engine}, tenants=(change(ACME, max_concurrent=64),))


def came_so_far(site: Site) -> tuple[int, int]:
    """Tokens that chunks said, and events of the streams whose chunks say nothing, over all that run."""
    meters = [(flight.job, flight.meter) for flight in site.gateway.flights if flight.meter and flight.job]
    older = [meter.used.output or 0 for job, meter in meters if job.api in ("chat", "completions")]
    return sum(older), sum(meter.deltas for job, meter in meters if job.api in ("responses", "messages"))


async def begin(site: Site, ask: Asked) -> aiohttp.ClientResponse:
    headers = {"Authorization": "Bearer acme-1"}
    return await site.session.post(site.url + ask.path, json=ask.body, headers=headers)


@dataclass
class Saying(StubEngine):
    """Streams these chunks (choices' indices, prompt and output tokens), then waits for `release`, then the rest."""

    first_said: tuple[tuple[tuple[int, ...], int, int], ...] = ()
    then_said: tuple[tuple[tuple[int, ...], int, int], ...] = ()

    async def _serve_chat(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return await self._say(request)

    async def _serve_completions(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return await self._say(request)

    async def _say(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for said in (self.first_said, self.then_said):
            for indices, prompt, output in said:
                choices = [{"index": index, "text": "x", "delta": {"content": "x"}} for index in indices]
                usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
                await response.write(b"data: " + json.dumps({"choices": choices, "usage": usage}).encode() + b"\n\n")
            if said is self.first_said and self.release is not None:
                await self.release.wait()
        await response.write(b"data: [DONE]\n\n")
        return response


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("choices", [1, 2])
def test_a_list_of_prompts_is_metered_prompt_by_prompt(tmp_path: Path, choices: int, leaves: bool):
    """vLLM's chunks say the tokens of their own prompt, and number the choices of all prompts through."""
    sizes = (1000, 2000, 10)
    said = tuple(((at * choices + of,), size, at + 1) for at, size in enumerate(sizes) for of in range(choices))
    output = choices * (1 + 2 + 3)
    engine = Saying(release=asyncio.Event(), first_said=said, then_said=(((), sum(sizes), output),))

    async def work(site: Site):
        body = {"model": "tiny", "prompt": ["a", "b", "c"], "n": choices, "stream": True, "max_tokens": 3}
        headers = {"Authorization": "Bearer acme-1"}
        response = await site.session.post(site.url + "/v1/completions", json=body, headers=headers)
        await until(lambda: next(iter(site.gateway.flights)).meter.deltas == len(said))
        if leaves:
            response.close()
        else:
            engine.release.set()
            await response.read()
        await until(lambda: not site.gateway.flights)
        (record,) = await site.usage()
        assert (record["prompt"], record["output"], record["partial"]) == (sum(sizes), output, leaves)

    run(tmp_path, work, engines={"e1": engine})


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((((0,), 5, 1), ((), 5, 1)), (((0,), 5, 2), ((), 5, 7))),
        ((((), 5, 0),), (((0,), 5, 1), ((0,), 5, 2), ((), 5, 7))),
        ((((), 5, 1),), (((), 5, 7),)),
    ],
)
def test_the_engines_last_word_is_what_is_recorded(tmp_path: Path, first, then):
    engine = Saying(release=asyncio.Event(), first_said=first, then_said=then)

    async def work(site: Site):
        answer = asyncio.create_task(site.post("/v1/chat/completions", chat(stream=True)))
        await until(lambda: any(flight.meter and flight.meter.final for flight in site.gateway.flights))
        engine.release.set()
        assert (await answer)[0] == 200
        (record,) = await site.usage()
        assert (record["prompt"], record["output"], record["partial"]) == (5, 7, False)

    run(tmp_path, work, engines={"e1": engine})


def test_a_client_that_leaves_after_a_usage_that_was_not_the_last_is_metered_by_the_last(tmp_path: Path):
    engine = Saying(release=asyncio.Event(), first_said=(((), 5, 0), ((0,), 5, 1), ((0,), 5, 2)))

    async def work(site: Site):
        headers = {"Authorization": "Bearer acme-1"}
        response = await site.session.post(site.url + "/v1/chat/completions", json=chat(stream=True), headers=headers)
        await until(lambda: next(iter(site.gateway.flights)).meter.deltas == 2)
        response.close()
        await until(lambda: not site.gateway.flights)
        (record,) = await site.usage()
        assert (record["prompt"], record["output"], record["partial"]) == (5, 2, True)

    run(tmp_path, work, engines={"e1": engine})
