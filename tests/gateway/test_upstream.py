"""An engine's answer, however it is cut on its way, and what is no answer."""

import asyncio
import gc
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
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


def test_an_engine_that_takes_no_more_connections_was_sent_nothing(tmp_path: Path):
    async def work() -> None:
        with ExitStack() as stack:
            full = stack.enter_context(socket.socket(socket.AF_UNIX))
            full.bind(f"{tmp_path}/s")
            full.listen(0)
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(f"{tmp_path}/s")
            async with post(Address(f"{tmp_path}/s"), "/x", {}, b"{}", connect=1, silence=1):
                pass

    with pytest.raises(Unreachable):
        asyncio.run(work())


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [("a.example", 443, "a.example"), ("a.example", 8000, "a.example:8000"), ("::1", 8000, "[::1]:8000")],
)
def test_the_host_that_an_engine_is_told(host: str, port: int, said: str):
    assert Address(None, host, port).authority == said


def test_an_address_that_does_not_answer_is_no_reason_to_miss_the_next(monkeypatch: pytest.MonkeyPatch):
    """A name with two addresses, of which the first drops what is sent to it."""

    async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 0\r\n\r\n")
        writer.close()

    async def work(stack: ExitStack) -> int:
        full = stack.enter_context(socket.create_server(("127.0.0.2", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(2):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())

        async def named(*_: object, **__: object) -> list[tuple[object, ...]]:
            there = ("127.0.0.2", "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in there]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", named)
        async with (
            await asyncio.start_server(engine, "127.0.0.1", port),
            post(Address(None, "engine.example", port), "/x", {}, b"{}", connect=5, silence=5) as answer,
        ):
            return answer.status

    with ExitStack() as stack:
        assert asyncio.run(asyncio.wait_for(work(stack), 4)) == 200


def test_leaving_at_any_moment_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in (HEAD, b"\r\n", b"abc"):
                writer.write(piece)
                await asyncio.sleep(0)
            await reader.read()
        writer.close()

    async def client() -> None:
        async with post(Address(f"{tmp_path}/s"), "/x", {}, b"{}", connect=1, silence=5) as answer:
            await answer.deliver(lambda _: True, asyncio.Event().wait, 5)

    async def work() -> None:
        await asyncio.start_unix_server(engine, f"{tmp_path}/s")
        for turns in range(30):
            task = asyncio.create_task(client())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.01)
        gc.collect()

    asyncio.run(work())
    assert caplog.records == []
