"""`python -m kvctl.bench.stub_serve SOCKET ...`: an engine without a model in a process of its own."""

import argparse
import asyncio
import gc
import signal
from collections.abc import Sequence

from aiohttp import web

from kvctl.bench.stub_engine import StubEngine

BACKLOG = 2048  # as uvicorn, and so vLLM, listens


async def start(engine: StubEngine, path: str) -> web.ServerRunner:
    """Listen on a unix socket; `cleanup` of what is returned ends it."""
    server = web.Server(engine.handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.UnixSite(runner, path, backlog=BACKLOG).start()
    return runner


async def serve(engine: StubEngine, path: str) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = await start(engine, path)
    await stop.wait()
    await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("stub_serve")
    parser.add_argument("socket")
    parser.add_argument("--first", type=float, default=0.0, help="seconds to the first token")
    parser.add_argument("--each", type=float, default=0.0, help="seconds to each further one")
    parser.add_argument("--slots", type=int, default=1 << 20, help="requests that are computed at once")
    asked = parser.parse_args(argv)
    gc.freeze()
    engine = StubEngine(first=asked.first, each=asked.each, slots=asked.slots, stamped=True)
    asyncio.run(serve(engine, asked.socket))


if __name__ == "__main__":
    main()
