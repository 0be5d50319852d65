"""Driving the console by its keys, and reading what is on its screen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from kvctl.tui.app import Console
from tests.tui.stub import Stub

Script = Callable[[Console, Pilot[None]], Awaitable[None]]


def drive(client: Any, script: Script, *, size: tuple[int, int] = (80, 24), **options: Any) -> None:
    async def go() -> None:
        app = Console(client, refresh=0.05, **options)
        async with app.run_test(size=size) as pilot:
            await script(app, pilot)

    try:
        asyncio.run(go())
    finally:
        if isinstance(client, Stub):
            client.released.set()


def screen(app: Console) -> str:
    """All lines that are drawn."""
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)


async def shows(app: Console, pilot: Pilot[None], *texts: str, without: tuple[str, ...] = ()) -> str:
    """Wait until all of these are on the screen, and none of those."""
    seen = ""
    for _ in range(300):
        await pilot.pause(0.02)
        seen = screen(app)
        if all(text in seen for text in texts) and not any(text in seen for text in without):
            return seen
    raise AssertionError(f"not on the screen: {texts} without {without}\n{seen}")
