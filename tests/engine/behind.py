"""An engine whose store stands behind a proxy, which can make it slow, wrong or gone."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.engine.proxy import Proxy
from tests.engine.serving import Engine, Site, engine_home, tiny_model

PATIENCE = 60.0  # seconds


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


class Behind:
    """`arguments` are the engine's. It is started by whoever makes this, and stopped by `stop` with the rest."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        home = engine_home()
        tiny_model(home, folder / "model")
        # It takes everything until it is full: what is admitted under pressure is not judged here.
        self.site = Site(folder / "site", policy={"second_touch_above": 1})
        self.daemon = self.site.daemon
        self.daemon.start()
        self.proxy = Proxy(folder / "proxy.sock", Path(self.daemon.unix.removeprefix("unix:")))
        key = self.daemon.identity.public.hex()
        nodes = [{"name": "storage1", "addresses": [self.proxy.address], "public_key": key}]
        options = self.site.options(stores=nodes, store_deadline_ms=3000)
        self.engine = Engine(home, folder / "model", folder, options, *arguments)

    @property
    def chunks(self) -> float:
        """On the store's flash."""
        return self.daemon.metric('kvstored_tier_chunks{tier="flash"}')

    def stop(self) -> None:
        self.proxy.clear()
        if self.daemon.alive:
            self.daemon.signal(signal.SIGCONT)
        self.engine.stop()
        self.proxy.close()
        if self.daemon.alive:
            self.daemon.stop()
