"""Prefill and decode on different engines: the one computes the prompt and stores it, the other is told to wait for it.

Whatever goes wrong with the first, the second computes the prompt itself: nothing here ever fails a request.
"""

import asyncio
import time
from dataclasses import dataclass, replace

from kvctl.connector.keys import Identity
from kvctl.gateway.admission import Admission, Ask
from kvctl.gateway.engines import Engine
from kvctl.gateway.flight import Flight
from kvctl.gateway.job import Job
from kvctl.gateway.metrics import Metrics
from kvctl.gateway.upstream import EngineBroke, Unreachable


async def forget() -> None:
    """What an engine says of one token is nobody's."""


@dataclass(frozen=True, slots=True)
class Prefill:
    admission: Admission
    identity: Identity
    metrics: Metrics
    prefill_seconds: float  # for the prefilling engine to have computed a prompt
    await_seconds: float  # that the decoding engine waits for chunks

    async def run(self, flight: Flight, job: Job, ask: Ask) -> None:
        """Have the prompt computed, and set the handle's `await_until`, where the site has engines for that."""
        decoding = flight.engine
        if job.tie.handle is None or decoding is None or decoding.written.role != "decode":
            return
        engine = self.admission.prefilling(ask)
        if engine is None or job.route.path in engine.unsalted:  # unsalted: all tenants would share its cache
            return
        if await self._compute(engine, flight, job, ask):
            handle = replace(job.tie.handle, await_until=time.time() + self.await_seconds)
            job.tie = replace(job.tie, handle=handle)

    async def _compute(self, engine: Engine, flight: Flight, job: Job, ask: Ask) -> bool:
        self.admission.take(ask, engine)
        try:
            async with (
                asyncio.timeout(self.prefill_seconds),
                engine.post(job.route.path, job.prefill_data(self.identity), flight.id + "-p") as response,
            ):
                await response.deliver(lambda _: True, forget, self.prefill_seconds)
                return response.status == 200
        except Unreachable as bad:
            engine.failed(str(bad)[:300])
            self._failed(engine, "connect")
        except (EngineBroke, TimeoutError):
            self._failed(engine, "prefill")
        finally:
            self.admission.give_back(ask, engine)
        return False

    def _failed(self, engine: Engine, how: str) -> None:
        self.metrics.count("kvgated_engine_failures_total", engine=engine.name, how=how)
