"""Streams from many clients at once: how long each event was on its way, and when the first one came."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp


@dataclass
class Times:
    """Seconds. `transit`: from an event's writing by the engine to its reader; `first`: from a request to its first."""

    transit: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    wrong: int = 0  # streams that were refused, or came to no end
    refused: int = 0  # of these, with 429

    def add(self, other: "Times") -> None:
        self.transit += other.transit
        self.first += other.first
        self.wrong += other.wrong
        self.refused += other.refused


@dataclass(frozen=True, slots=True)
class Target:
    """Where to send: a unix socket and, for the gateway, a key."""

    socket: Path
    key: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    streams: int  # at the same time
    requests: int  # of each of them, one after the other
    words: int  # tokens of an answer
    prompt: int = 200  # words


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` of all do not exceed; ValueError for none."""
    if not values:
        raise ValueError("no value was measured")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def offer(target: Target, load: Load, stop: asyncio.Event | None = None) -> Times:
    """Keep `streams` going until each has had its requests, or until `stop`."""
    times = Times()
    connector = aiohttp.UnixConnector(str(target.socket), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=600)) as session:
        await asyncio.gather(*(_client(session, target, load, number, times, stop) for number in range(load.streams)))
    return times


async def _client(
    session: aiohttp.ClientSession, target: Target, load: Load, number: int, times: Times, stop: asyncio.Event | None
) -> None:
    for request in range(load.requests):
        if stop is not None and stop.is_set():
            return
        text = f"{number} {request} " + "word " * load.prompt
        body = {
            "model": "tiny",
            "stream": True,
            "max_tokens": load.words,
            "messages": [{"role": "user", "content": text}],
        }
        await _stream(session, target, body, times)


async def _stream(session: aiohttp.ClientSession, target: Target, body: dict[str, object], times: Times) -> None:
    began = time.monotonic()
    headers = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    whole, first = False, True
    async with session.post("http://engine/v1/chat/completions", json=body, headers=headers) as response:
        if response.status != 200:
            times.wrong += 1
            times.refused += response.status == 429
            await asyncio.sleep(0.05)  # a client that is told to come back later
            return
        async for line in response.content:
            if line.startswith(b"data: {"):
                now, event = time.monotonic(), json.loads(line[6:])
                times.transit.append(now - event["sent"])
                if first and event["choices"][0]["delta"].get("content"):
                    first = False
                    times.first.append(now - began)
            whole = whole or line.startswith(b"data: [DONE]")
    times.wrong += not whole
