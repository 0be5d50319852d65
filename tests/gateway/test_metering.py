"""Usage records against what the engine said: nothing more, nothing less, whoever leaves and however they ask."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import ACME, Site, change, run, until

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
