"""An engine's answer, however it is cut on its way, and what is no answer."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.gateway.upstream import Address, Chunks, EngineBroke, Length, Unreachable, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(at)]


@given(
    st.lists(st.binary(min_size=1, max_size=300)), st.lists(st.integers(0, 9999)), st.sampled_from([b"", b"X: y\r\n"])
)
def test_chunks_are_the_body_however_they_are_cut(parts: list[bytes], cuts: list[int], trailer: bytes):
    coding = Chunks()
    data = chunked(*parts)[:-2] + trailer + b"\r\n"
    assert b"".join(coding.feed(piece) for piece in pieces(data, cuts)) == b"".join(parts)
    assert coding.done


@pytest.mark.parametrize(
    "data", [b"0x5\r\n", b"-1\r\n", b"\r\n", b"5;" + b"a" * 2000, b"1\r\nab\r\n", b"g\r\n", b"1_0\r\n"]
)
def test_what_is_no_chunk(data: bytes):
    with pytest.raises(ValueError, match=r"size|line|longer"):
        Chunks().feed(data)


@given(st.binary(max_size=50), st.integers(0, 60))
def test_a_length_ends_a_body(data: bytes, size: int):
    body = Length(size)
    assert body.feed(data) == data[:size]
    assert body.done == (len(data) >= size)


def ask(folder: Path, answer: list[bytes], sink: Callable[[bytes], bool], **how: float) -> tuple[int, list[str]]:
    """Status of an answer, and what happened: `ended` and `drained`. The engine sends each piece by itself."""
    seen: list[str] = []

    async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in answer:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if how.get("hangs"):
            await reader.read()
            seen.append("left")
        writer.close()

    async def drain() -> None:
        seen.append("drained")

    async def whole() -> int:
        server = await asyncio.start_unix_server(engine, f"{folder}/s")
        async with server:
            silence = how.get("silence", 5)
            address = Address(f"{folder}/s")
            try:
                async with post(address, "/x", {"X-A": "b"}, b"{}", connect=1, silence=silence) as answer:
                    await answer.deliver(sink, drain, silence)
                    seen.append("ended")
            finally:
                await asyncio.sleep(0.05)
            return answer.status

    return asyncio.run(asyncio.wait_for(whole(), 20)), seen


@given(
    st.lists(st.binary(min_size=1, max_size=99), max_size=6), st.lists(st.integers(0, 999), max_size=6), st.booleans()
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_stream_arrives_whole_also_for_a_reader_that_wants_pauses(tmp_path: Path, parts, cuts, pauses):
    found: list[bytes] = []

    def sink(part: bytes) -> bool:
        found.append(part)
        return not pauses

    status, seen = ask(tmp_path, pieces(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*parts), cuts), sink)
    assert (status, seen[-1]) == (200, "ended")
    assert b"".join(found) == b"".join(parts)
    assert ("drained" in seen) == (pauses and bool(parts))


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 3\r\n\r\nabc and more",
        HEAD + b"\r\nabc",
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 3\r\n\r\nabc",
    ],
)
def test_other_ways_to_end(tmp_path: Path, answer: bytes):
    found: list[bytes] = []
    ask(tmp_path, [answer], lambda part: not found.append(part))
    assert b"".join(found) == b"abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * (70 << 10),
        HEAD + b"Content-Length: -3\r\n\r\nabc",
        HEAD + b"Content-Length: 9\r\n\r\nabc",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\nabc",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_answer_or_stops_in_it(tmp_path: Path, answer: bytes):
    with pytest.raises(EngineBroke):
        ask(tmp_path, [answer], lambda _: True)


def test_an_engine_that_says_nothing_more_is_left(tmp_path: Path):
    with pytest.raises(EngineBroke, match="nothing for"):
        ask(tmp_path, [HEAD + b"\r\nabc"], lambda _: True, hangs=True, silence=0.1)
    with pytest.raises(TimeoutError):
        ask(tmp_path, [], lambda _: True, hangs=True, silence=0.1)


def test_what_the_reader_raises_comes_to_its_task_and_ends_the_engines_work(tmp_path: Path):
    def sink(part: bytes) -> bool:
        raise KeyError("no")

    with pytest.raises(KeyError):
        ask(tmp_path, [HEAD + b"\r\nabc", b"def"], sink, hangs=True)


def test_nobody_there(tmp_path: Path):
    async def work() -> None:
        async with post(Address(f"{tmp_path}/none"), "/x", {}, b"", connect=1, silence=1):
            pass

    with pytest.raises(Unreachable, match="FileNotFoundError"):
        asyncio.run(work())
