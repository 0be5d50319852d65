"""Who may be at an engine: slots by class, a tenant's own limit, and the queue for the rest."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from kvctl.gateway.answers import Refused
from kvctl.gateway.choose import allowed, choose, ranked, serving
from kvctl.gateway.config import Config
from kvctl.gateway.engines import Engine, Engines
from kvctl.gateway.fair import Fair, Flow
from kvctl.gateway.tenants import Caller
from kvctl.types.snapshot import TenantView

COST_BYTES = 16 << 10  # of a body that make a request cost one more


@dataclass(eq=False)
class Ask:
    """A request that wants a slot."""

    caller: Caller
    model: str
    digest: bytes  # of tenant and prefix
    size: int  # bytes of the body
    granted: asyncio.Future[Engine] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def tenant(self) -> TenantView:
        return self.caller.tenant

    @property
    def flow(self) -> Flow:
        return Flow(self.tenant.name, self.model)


class Admission:
    def __init__(self, config: Config, engines: Engines) -> None:
        self._limits = config.limits
        self._overload = config.routing.overload
        self._weights = {one: getattr(config.classes, one) for one in ("gold", "silver", "bronze")}
        self._engines = engines
        self._fair: Fair[Ask] = Fair()
        self.running: Counter[str] = Counter()  # by tenant
        self.waiting: Counter[str] = Counter()  # by class

    def __len__(self) -> int:
        """How many wait."""
        return len(self._fair)

    async def enter(self, ask: Ask) -> Engine:
        """An engine with a slot for it, to be given back by `leave`. Refused with 404, 403, 429 or 503."""
        eligible = self.eligible(ask)
        if not any(engine.up for engine in eligible):
            raise Refused(503, "KV-GATE-042", "no_engine", "no engine of this model answers", retry_after=5)
        tenant = ask.tenant
        # The limit on waiting is for those who will have to.
        self._fair.add(ask.flow, self._weights[tenant.sla] * tenant.weight, 1 + ask.size / COST_BYTES, ask)
        self.waiting[tenant.sla] += 1
        self.dispatch()
        try:
            if not ask.granted.done():
                self._check_queue(tenant)
            async with asyncio.timeout(self._limits.queue_seconds):
                return await ask.granted
        except TimeoutError:
            self._give_up(ask)
            message = f"no slot was free for {self._limits.queue_seconds:g} s"
            raise Refused(429, "KV-GATE-033", "queue_seconds", message, retry_after=self._patience()) from None
        except BaseException:
            self._give_up(ask)
            raise

    def eligible(self, ask: Ask) -> list[Engine]:
        """Engines that have the model, decode, and stand where the tenant's data may be processed."""
        sla = ask.tenant.sla
        able = [engine.place(sla) for engine in self._engines.all if engine.written.role != "prefill"]
        places = allowed(serving(able, ask.model), ask.tenant.processing_countries)
        return [self._engines.by_name[place.name] for place in places]

    def prefilling(self, ask: Ask) -> Engine | None:
        """The engine that computes the prompt for a decoding one; None when no such engine is there and up."""
        countries = ask.tenant.processing_countries
        places = [
            engine.place(ask.tenant.sla)
            for engine in self._engines.all
            if engine.written.role == "prefill"
            and ask.model in engine.models
            and (countries is None or engine.written.country in countries)
        ]
        place = choose(places, ask.digest, self._overload) if places else None
        return self._engines.by_name[place.name] if place else None

    def take(self, ask: Ask, engine: Engine) -> None:
        engine.running[ask.tenant.sla] += 1

    def give_back(self, ask: Ask, engine: Engine) -> None:
        engine.running[ask.tenant.sla] -= 1
        self.dispatch()

    def another(self, ask: Ask, engine: Engine, tried: set[str]) -> Engine | None:
        """In place of one that could not be reached: its slot becomes one elsewhere; None when no other has one."""
        places = [one.place(ask.tenant.sla) for one in self.eligible(ask) if one.name not in tried]
        order = [place for place in ranked(places, ask.digest) if place.room]
        if not order:
            return None
        other = self._engines.by_name[order[0].name]
        engine.running[ask.tenant.sla] -= 1
        other.running[ask.tenant.sla] += 1
        return other

    def leave(self, ask: Ask, engine: Engine) -> None:
        """Give the slot back; the next in line takes it."""
        engine.running[ask.tenant.sla] -= 1
        self._done(ask)
        self.dispatch()

    def dispatch(self) -> None:
        """Give out what is free: to be called when a slot, an engine or a limit has changed."""
        while (ask := self._fair.next(self._admissible)) is not None:
            engine = self._engine(ask)
            self.waiting[ask.tenant.sla] -= 1
            if engine is None or ask.granted.done():  # its client left, and its task has not run since
                continue
            engine.running[ask.tenant.sla] += 1
            self.running[ask.tenant.name] += 1
            ask.granted.set_result(engine)

    def _admissible(self, flow: Flow, ask: Ask) -> bool:
        return self.running[flow.tenant] < ask.tenant.max_concurrent and self._engine(ask) is not None

    def _engine(self, ask: Ask) -> Engine | None:
        places = [engine.place(ask.tenant.sla) for engine in self.eligible(ask)]
        place = choose(places, ask.digest, self._overload)
        return self._engines.by_name[place.name] if place else None

    def _check_queue(self, tenant: TenantView) -> None:
        """Refused with 429 when one more, which has been put in line already, is too many."""
        full = len(self._fair) > self._limits.queue
        if full or self._fair.of_tenant(tenant.name) > self._limits.queue_per_tenant:
            whose = "the queue" if full else "this tenant's queue"
            raise Refused(429, "KV-GATE-032", "queue_full", f"{whose} is full", retry_after=self._patience())

    def _patience(self) -> int:
        return max(1, int(self._limits.queue_seconds / 4))

    def _give_up(self, ask: Ask) -> None:
        if ask.granted.done() and not ask.granted.cancelled():
            self.leave(ask, ask.granted.result())  # it was given a slot in the moment in which it gave up
        elif self._fair.remove(ask.flow, ask):
            self.waiting[ask.tenant.sla] -= 1

    def _done(self, ask: Ask) -> None:
        name = ask.tenant.name
        self.running[name] -= 1
        if not self.running[name]:
            del self.running[name]
