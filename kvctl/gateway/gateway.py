"""A request from its first byte to its last: who it is, what may pass, where it goes, what it used."""

import asyncio
import secrets
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import msgspec
from aiohttp import web

from kvctl.connector.keys import Identity
from kvctl.daemon.log import Log
from kvctl.gateway import answers, routes, strip, tenants
from kvctl.gateway.admission import Admission, Ask
from kvctl.gateway.answers import Family, Refused
from kvctl.gateway.config import Config
from kvctl.gateway.engines import Engine, Engines
from kvctl.gateway.flight import Flight
from kvctl.gateway.intake import Held, Intake, check_framing, only_one
from kvctl.gateway.job import Job, prepare
from kvctl.gateway.metrics import Metrics
from kvctl.gateway.outlet import ClientGone
from kvctl.gateway.prefill import Prefill
from kvctl.gateway.rates import Rates
from kvctl.gateway.records import Records
from kvctl.gateway.relay import headers, relay
from kvctl.gateway.routes import Api, Route
from kvctl.gateway.shapes import models_anthropic, models_openai
from kvctl.gateway.tally import Tally
from kvctl.gateway.tenants import Caller
from kvctl.gateway.upstream import EngineBroke, Unreachable
from kvctl.gateway.watch import Watch

SUBJECT_HEADER = "x-kvctl-subject"
PRIORITIES = {"gold": "0", "silver": "1", "bronze": "2"}  # vLLM serves the least first


class Gateway:
    """Serves requests until `draining`. Everything runs in one loop."""

    def __init__(
        self,
        config: Config,
        identity: Identity,
        watch: Watch,
        records: Records,
        log: Log,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.log = log
        self.metrics: Metrics = watch.metrics
        self.watch = watch
        self.records = records
        self.rates = Rates()
        self.engines = Engines(config, log)
        self.admission = Admission(config, self.engines)
        self.tally = Tally(config.site, config.gateway, records, self.rates, self.metrics, clock)
        self.held = Held(config.limits, config.classes)
        self.flights: set[Flight] = set()
        self.draining = False
        self._identity = identity
        routing = config.routing
        self._prefill = Prefill(self.admission, identity, self.metrics, routing.prefill_seconds, routing.await_seconds)
        self.clock = clock
        watch.changed = self.snapshot_changed
        watch.looked = self.looked

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """For aiohttp.web.Server, with handler_cancellation: a client that leaves cancels this."""
        task = asyncio.current_task()
        assert task is not None
        family = routes.family_of(request.raw_path, versioned="anthropic-version" in request.headers)
        flight = Flight(f"req_{secrets.token_hex(12)}", family, task, request.transport)
        self.flights.add(flight)
        try:
            return await self._guarded(request, flight)
        finally:
            self.flights.discard(flight)

    async def _guarded(self, request: web.BaseRequest, flight: Flight) -> web.StreamResponse:
        try:
            return await self._serve(request, flight)
        except Refused as refused:
            return self._refusal(flight, refused)
        except ClientGone:
            self.tally.record_partial(flight, "client")
            if request.transport is not None:
                request.transport.abort()  # what it did not take is not kept for it
            assert flight.outlet is not None
            return flight.outlet.response
        except asyncio.CancelledError:
            if flight.cut is None or request.transport is None or request.transport.is_closing():
                self.tally.record_partial(flight, "client")
                raise
            flight.task.uncancel()
            self.tally.record_partial(flight, "gateway")
            return await self._cut(flight, flight.cut)
        except Exception:  # noqa: BLE001  logged with the id that the client is given
            self.tally.record_partial(flight, "gateway")
            self.log.error("fault", request=flight.id, trace=traceback.format_exc()[-1500:])
            return self._refusal(flight, Refused(500, "KV-GATE-060", "fault", "a fault of the gateway"))

    async def _serve(self, request: web.BaseRequest, flight: Flight) -> web.StreamResponse:
        check_framing(request)
        route = routes.find(request.method, request.raw_path)
        if self.draining:
            raise Refused(503, "KV-GATE-043", "draining", "this gateway is about to stop", retry_after=1)
        caller = flight.caller = self._caller(request, route)
        flight.scope = route.scope
        if route.api is Api.MODELS:
            response: web.StreamResponse = self._models(flight, caller)
        else:
            intake = Intake(self.held, caller.tenant)
            try:
                response = await self._post(request, flight, route, caller, intake)
            finally:
                intake.release()
        self._count_request(caller, route.api.value, response.status)
        return response

    def _caller(self, request: web.BaseRequest, route: Route) -> Caller:
        directory = self.watch.current()
        key = tenants.key_of(request.headers.getall("Authorization", ()), request.headers.getall("X-Api-Key", ()))
        caller = directory.find(key, self.clock())
        tenants.check_scope(caller, route.scope)
        return caller

    async def _post(
        self, request: web.BaseRequest, flight: Flight, route: Route, caller: Caller, intake: Intake
    ) -> web.StreamResponse:
        self.records.check()
        self.rates.enter(caller.tenant, self.clock())
        await intake.read(request, self.config.limits)
        flight.began = time.monotonic()
        job = prepare(
            route,
            caller,
            intake.data,
            only_one(request, SUBJECT_HEADER),
            prefix=self.config.routing.prefix,
            now=int(self.clock()),
            seconds=self.config.limits.handle_seconds,
        )
        flight.job = job
        self._note(job, caller)
        ask = Ask(caller, job.model, job.digest, job.size, job.prompts, job.sequences)
        if not route.computes:
            return await self._count_tokens(request, flight, job, ask, intake)
        return await self._compute(request, flight, job, ask, intake)

    def _note(self, job: Job, caller: Caller) -> None:
        for name in job.stripped:
            self.metrics.count("kvgated_stripped_total", field=name if name in strip.DROPPED else "other")
        if not job.subject and caller.tenant.require_subject != "off":
            self.metrics.count("kvgated_without_subject_total", tenant=caller.tenant.name)

    async def _compute(
        self, request: web.BaseRequest, flight: Flight, job: Job, ask: Ask, intake: Intake
    ) -> web.StreamResponse:
        engine = await self.admission.enter(ask)
        flight.engine = engine
        self.metrics.observe("kvgated_queue_seconds", flight.seconds, sla=ask.tenant.sla)
        try:
            await self._prefill.run(flight, job, ask)
            job.sent = job.data(self._identity)
            job.body = {}
            intake.data = b""
            return await self._at_engine(request, flight, job, ask, intake)
        finally:
            self.metrics.observe("kvgated_request_seconds", flight.seconds, sla=ask.tenant.sla)
            self.admission.leave(ask, flight.engine)

    async def _at_engine(
        self, request: web.BaseRequest, flight: Flight, job: Job, ask: Ask, intake: Intake
    ) -> web.StreamResponse:
        """At the engine that was chosen, and at others in turn while nothing could be sent to one."""
        tried: set[str] = set()
        while True:
            engine = flight.engine
            assert engine is not None
            try:
                return await self._ask(request, flight, job, engine, intake)
            except Unreachable as bad:
                tried.add(engine.name)
                self._unreachable(engine, bad)
                other = self.admission.another(ask, engine, tried)
                if other is None:
                    message = "the engine cannot be reached, and no other has a slot"
                    raise Refused(503, "KV-GATE-042", "no_engine", message, retry_after=5) from bad
                self.metrics.count("kvgated_retries_total")
                flight.engine = other

    def _unreachable(self, engine: Engine, bad: Exception) -> None:
        engine.failed(str(bad)[:300])
        self.metrics.count("kvgated_engine_failures_total", engine=engine.name, how="connect")
        self.log.refused("engine unreachable", engine.name, why=engine.why)

    async def _ask(
        self, request: web.BaseRequest, flight: Flight, job: Job, engine: Engine, intake: Intake
    ) -> web.StreamResponse:
        assert flight.caller is not None
        if job.route.path in engine.unsalted:
            message = f"engine {engine.name} takes no cache_salt on this route: its tenants would share a cache"
            raise Refused(501, "KV-GATE-047", "unsalted", message)
        more = {"X-Vllm-Priority": PRIORITIES[flight.caller.tenant.sla]} if engine.written.priority else {}
        try:
            async with engine.post(job.route.path, job.sent, flight.id, more) as upstream:
                job.sent = b""
                intake.release()
                return await relay(request, flight, job, upstream, self.tally, self.config.limits)
        except TimeoutError as bad:
            self.metrics.count("kvgated_engine_failures_total", engine=engine.name, how="silent")
            self.tally.record_partial(flight, "engine")
            raise Refused(504, "KV-GATE-046", "engine_silent", "the engine did not answer in time") from bad
        except EngineBroke as bad:
            self.metrics.count("kvgated_engine_failures_total", engine=engine.name, how="broke")
            self.tally.record_partial(flight, "engine")
            raise Refused(502, "KV-GATE-044", "engine_broke", "the engine stopped in its answer") from bad

    async def _count_tokens(
        self, request: web.BaseRequest, flight: Flight, job: Job, ask: Ask, intake: Intake
    ) -> web.StreamResponse:
        """No KV is computed: no salt, no slot, no record, and a bound of its own."""
        up = [engine for engine in self.admission.eligible(ask) if engine.up]
        job.sent = strip.write(job.body)
        with self.admission.counting(ask.tenant):
            for engine in sorted(up, key=lambda one: one.running.total()):
                try:
                    return await self._ask(request, flight, job, engine, intake)
                except Unreachable as bad:
                    self._unreachable(engine, bad)
        raise Refused(503, "KV-GATE-042", "no_engine", "no engine of this model answers", retry_after=5)

    def _models(self, flight: Flight, caller: Caller) -> web.Response:
        countries = caller.tenant.processing_countries
        usable = [
            engine
            for engine in self.engines.all
            if engine.written.role != "prefill" and (countries is None or engine.written.country in countries)
        ]
        names = frozenset(name for engine in usable for name in engine.models)
        shape = models_anthropic if flight.family is Family.ANTHROPIC else models_openai
        body = msgspec.json.encode(shape(self.engines.models(names)))
        return web.Response(body=body, headers=headers(flight, "application/json"))

    def _refusal(self, flight: Flight, refused: Refused) -> web.Response:
        self.tally.refused(refused)
        self.log.refused("refused", refused.reason, status=refused.status, code=refused.code, request=flight.id)
        if flight.caller is not None:
            self._count_request(flight.caller, flight.job.api.value if flight.job else "none", refused.status)
        more = dict(refused.headers)
        if refused.retry_after is not None:
            more["Retry-After"] = str(refused.retry_after)
        body = answers.body(refused, flight.family, flight.id)
        response = web.Response(status=refused.status, body=body, headers=headers(flight, "application/json") | more)
        if refused.close:
            response.force_close()
        return response

    def _count_request(self, caller: Caller, route: str, status: int) -> None:
        self.metrics.count("kvgated_requests_total", tenant=caller.tenant.name, route=route, status=str(status))

    async def _cut(self, flight: Flight, why: Refused) -> web.StreamResponse:
        """End what the gateway broke off: in the stream when it has begun."""
        outlet = flight.outlet
        if outlet is None or not outlet.response.prepared:
            return self._refusal(flight, why)
        self.tally.refused(why)
        if why.close:
            outlet.response.force_close()
        with suppress(ClientGone):
            await replace(outlet, stall_seconds=1.0).send(answers.event(why, flight.family, flight.id))
        return outlet.response

    def snapshot_changed(self) -> None:
        """End what its tenant or key may no longer do; limits may have grown."""
        self.review()
        self.admission.dispatch()

    def review(self) -> None:
        """End what its tenant or key may no longer do, without any change too: a key's time is over by itself."""
        directory, now = self.watch.directory, self.clock()
        if directory is None:
            return
        for flight in list(self.flights):
            if flight.caller is not None and (why := directory.still(flight.caller, flight.scope, now)) is not None:
                flight.end(why)

    def looked(self) -> None:
        """To be called every now and then."""
        self.review()
        for flight in list(self.flights):
            if flight.crowded():
                message = "too much was sent behind this request, which has no answer yet"
                flight.end(Refused(400, "KV-GATE-036", "pipelined", message, close=True))
