"""Who may be at an engine: slots by class, a tenant's own limit, and the queue for the rest."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from kvctl.gateway.answers import Refused
from kvctl.gateway.choose import allowed, choose, ranked, serving
from kvctl.gateway.config import Config
from kvctl.gateway.engines import ORDER, Engine, Engines
from kvctl.gateway.fair import Fair, Flow, Verdict
from kvctl.gateway.room import Room
from kvctl.gateway.tenants import Caller
from kvctl.types.snapshot import TenantView

COST_BYTES = 16 << 10  # of a body that make a request cost as much as one more sequence


@dataclass(eq=False)
class Ask:
    """A request that wants a slot for each of its sequences."""

    caller: Caller
    model: str
    digest: bytes  # of tenant and prefix
    size: int  # bytes of the body
    prompts: int = 1
    sequences: int = 1
    granted: asyncio.Future[Engine] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    engines: tuple[Engine, ...] = ()  # those that it may go to, once it is in line
    chosen: Engine | None = None

    @property
    def tenant(self) -> TenantView:
        return self.caller.tenant

    @property
    def flow(self) -> Flow:
        return Flow(self.tenant.name, self.model, (self.tenant.sla, self.engines))


class Admission:
    def __init__(self, config: Config, engines: Engines) -> None:
        self._limits = config.limits
        self._overload = config.routing.overload
        self._weights = {one: getattr(config.classes, one) for one in ("gold", "silver", "bronze")}
        self._engines = engines
        self._fair: Fair[Ask] = Fair()
        self._room: Room[Ask] = Room()
        self.running: Counter[str] = Counter()  # sequences, by tenant
        self.waiting: Counter[str] = Counter()  # requests, by class
        self._counting: Counter[str] = Counter()  # requests that count tokens, by tenant

    def __len__(self) -> int:
        """How many wait."""
        return len(self._fair)

    async def enter(self, ask: Ask) -> Engine:
        """An engine with slots for it, to be given back by `leave`. Refused with 404, 403, 400, 429 or 503."""
        ask.engines = tuple(self.eligible(ask))
        self._check_fits(ask)
        # The limit on waiting is for those who will have to.
        tenant = ask.tenant
        cost = ask.sequences + ask.size / COST_BYTES
        self._fair.add(ask.flow, self._weights[tenant.sla] * tenant.weight, cost, ask)
        self._room.add(tenant.sla, tenant.name, ask)
        self.waiting[tenant.sla] += 1
        self.dispatch()
        try:
            if not ask.granted.done():
                self._check_queue(ask)
            async with asyncio.timeout(self._limits.queue_seconds):
                return await ask.granted
        except TimeoutError:
            self._give_up(ask)
            message = f"no slot was free for {self._limits.queue_seconds:g} s"
            raise Refused(429, "KV-GATE-033", "queue_seconds", message, retry_after=self._patience()) from None
        except BaseException:
            self._give_up(ask)
            raise

    @contextmanager
    def counting(self, tenant: TenantView) -> Iterator[None]:
        """While an engine counts a prompt's tokens: no slot, and at a time as many as the tenant may have of those.

        Refused with 429 for one more.
        """
        if self._counting[tenant.name] >= tenant.max_concurrent:
            message = f"this tenant has {tenant.max_concurrent} prompts counted already"
            raise Refused(429, "KV-GATE-038", "counting", message, retry_after=1)
        self._counting[tenant.name] += 1
        try:
            yield
        finally:
            _less(self._counting, tenant.name, 1)

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
            engine.place(ask.tenant.sla, ask.prompts)
            for engine in self._engines.all
            if engine.written.role == "prefill"
            and ask.model in engine.models
            and (countries is None or engine.written.country in countries)
        ]
        place = choose(places, ask.digest, self._overload) if places else None
        return self._engines.by_name[place.name] if place else None

    def take(self, ask: Ask, engine: Engine) -> None:
        """For its prompts alone."""
        engine.running[ask.tenant.sla] += ask.prompts

    def give_back(self, ask: Ask, engine: Engine) -> None:
        engine.running[ask.tenant.sla] -= ask.prompts
        self.dispatch()

    def another(self, ask: Ask, engine: Engine, tried: set[str]) -> Engine | None:
        """In place of one that could not be reached: its slots become others'; None when no other engine has them."""
        places = [one.place(ask.tenant.sla, ask.sequences) for one in self.eligible(ask) if one.name not in tried]
        order = [place for place in ranked(places, ask.digest) if place.room]
        if not order:
            return None
        other = self._engines.by_name[order[0].name]
        engine.running[ask.tenant.sla] -= ask.sequences
        other.running[ask.tenant.sla] += ask.sequences
        return other

    def leave(self, ask: Ask, engine: Engine) -> None:
        """Give the slots back; the next in line takes them."""
        engine.running[ask.tenant.sla] -= ask.sequences
        _less(self.running, ask.tenant.name, ask.sequences)
        self._fair.wake(ask.tenant.name)
        self.dispatch()

    def dispatch(self) -> None:
        """Give out what is free: to be called when a slot, an engine or a limit has changed."""
        while (ask := self._fair.next(partial(self._judge, {}))) is not None:
            self._out(ask)
            if ask.chosen is None or ask.granted.done():  # its client left, and its task has not run since
                continue
            ask.chosen.running[ask.tenant.sla] += ask.sequences
            self.running[ask.tenant.name] += ask.sequences
            ask.granted.set_result(ask.chosen)

    def _judge(self, kept: dict[str, int], flow: Flow, ask: Ask) -> Verdict:
        """`kept`: engines whose slots are left to gather for one that is before it, and the best class of those.

        Without that, a request of many sequences would never find as many slots at once.
        """
        tenant = ask.tenant
        if ask.granted.done():
            return Verdict.GO
        if self.running[tenant.name] + ask.sequences > tenant.max_concurrent:
            return Verdict.FLOW
        rank = ORDER.index(tenant.sla)
        free = [engine for engine in ask.engines if rank < kept.get(engine.name, len(ORDER))]
        places = [engine.place(tenant.sla, ask.sequences) for engine in free]
        place = choose(places, ask.digest, self._overload) if places else None
        ask.chosen = self._engines.by_name[place.name] if place else None
        if ask.chosen is not None:
            return Verdict.GO
        if not any(engine.spare(tenant.sla) for engine in free):
            return Verdict.LANE
        able = [engine for engine in free if engine.up and engine.most(tenant.sla) >= ask.sequences]
        if able:
            kept[max(able, key=lambda engine: engine.spare(tenant.sla)).name] = rank
        return Verdict.LATER

    def _check_fits(self, ask: Ask) -> None:
        """Refused with 400 for what can never have a slot for each sequence, with 503 when no engine that can is up."""
        tenant = ask.tenant
        able = [engine for engine in ask.engines if engine.most(tenant.sla) >= ask.sequences]
        if ask.sequences > tenant.max_concurrent or not able:
            most = min(tenant.max_concurrent, max(engine.most(tenant.sla) for engine in ask.engines))
            message = f"this request is {ask.sequences} sequences (prompts times n); {most} at once are the most here"
            raise Refused(400, "KV-GATE-037", "sequences", message)
        if not any(engine.up for engine in able):
            raise Refused(503, "KV-GATE-042", "no_engine", "no engine of this model answers", retry_after=5)

    def _check_queue(self, ask: Ask) -> None:
        """Make room for one more, which has been put in line already. Refused with 429 when it is the one too many."""
        tenant = ask.tenant
        if self._room.of_tenant(tenant.sla, tenant.name) > self._limits.queue_per_tenant:
            raise self._full("this tenant's queue")
        if len(self._fair) <= self._limits.queue:
            return
        last = self._room.last()
        if last is ask:
            raise self._full("the queue")
        self._fair.remove(last.flow, last)
        self._out(last)
        if not last.granted.done():  # its client left, and its task has not run since
            last.granted.set_exception(self._full("the queue"))
        self.dispatch()

    def _full(self, whose: str) -> Refused:
        return Refused(429, "KV-GATE-032", "queue_full", f"{whose} is full", retry_after=self._patience())

    def _patience(self) -> int:
        return max(1, int(self._limits.queue_seconds / 4))

    def _give_up(self, ask: Ask) -> None:
        granted = ask.granted
        if granted.done() and not granted.cancelled():
            if granted.exception() is None:
                self.leave(ask, granted.result())  # it was given slots in the moment in which it gave up
        elif self._fair.remove(ask.flow, ask):
            self._out(ask)
            self.dispatch()  # what was kept for it is others'

    def _out(self, ask: Ask) -> None:
        """It waits no longer."""
        self.waiting[ask.tenant.sla] -= 1
        self._room.remove(ask.tenant.sla, ask.tenant.name, ask)


def _less(counts: Counter[str], name: str, by: int) -> None:
    counts[name] -= by
    if not counts[name]:
        del counts[name]
