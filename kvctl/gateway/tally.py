"""What a request's end leaves behind: its usage record, its tenant's tokens of the day, and the metrics."""

from collections.abc import Callable
from dataclasses import dataclass

from kvctl.gateway.answers import Refused
from kvctl.gateway.flight import Flight, tokens
from kvctl.gateway.metrics import Metrics
from kvctl.gateway.rates import Rates
from kvctl.gateway.records import Record, Records
from kvctl.gateway.usage import Used


@dataclass(frozen=True, slots=True)
class Tally:
    site: str
    gateway: str
    records: Records
    rates: Rates
    metrics: Metrics
    clock: Callable[[], float]

    def record(self, flight: Flight, used: Used, status: int) -> None:
        """Once a request; a second call does nothing."""
        self._record(flight, used, status, partial=False)

    def record_partial(self, flight: Flight, whose: str) -> None:
        """An answer that did not come to its end, through its client, the engine or the gateway.

        One of which the engine has said the whole usage is whole: nothing that costs was missing.
        """
        if flight.recorded or flight.job is None or flight.engine is None:
            return
        if flight.meter is not None and flight.meter.final:
            self.record(flight, flight.meter.used, 200)
            return
        self.metrics.count("kvgated_partial_total", by=whose)
        used = flight.meter.used if flight.meter else Used()
        self._record(flight, used, 499 if whose == "client" else 502, partial=True)

    def _record(self, flight: Flight, used: Used, status: int, *, partial: bool) -> None:
        caller, job, engine = flight.caller, flight.job, flight.engine
        if flight.recorded or caller is None or job is None or engine is None:
            return
        flight.recorded = True
        deltas = flight.meter.deltas if flight.meter else 0
        boot, counter = self.records.number()
        now = self.clock()
        self.records.add(
            Record(
                site=self.site,
                gateway=self.gateway,
                boot=boot,
                counter=counter,
                at=round(now, 3),
                request=flight.id,
                tenant=caller.tenant.name,
                domain=caller.domain.name,
                key=caller.key.id,
                model=job.model,
                route=job.api.value,
                engine=engine.name,
                country=engine.written.country,
                sla=caller.tenant.sla,
                subject=job.subject,
                status=status,
                prompt=used.prompt,
                cached=used.cached,
                output=used.output,
                partial=partial,
                deltas=deltas,
                seconds=round(flight.seconds, 3),
            )
        )
        self.rates.spent(caller.tenant.name, tokens(used, deltas), now)
        self._count(flight, used, partial)

    def _count(self, flight: Flight, used: Used, partial: bool) -> None:
        assert flight.caller is not None
        tenant = flight.caller.tenant.name
        self.metrics.count("kvgated_usage_records_total")
        for kind, amount in (("prompt", used.prompt), ("cached", used.cached), ("output", used.output)):
            if amount is not None:
                self.metrics.count("kvgated_tokens_total", amount, tenant=tenant, kind=kind)
        if used.prompt is None and not partial:
            self.metrics.count("kvgated_unmetered_total", tenant=tenant)

    def first_byte(self, flight: Flight) -> None:
        assert flight.caller is not None
        self.metrics.observe("kvgated_ttft_seconds", flight.seconds, sla=flight.caller.tenant.sla)

    def refused(self, refused: Refused) -> None:
        self.metrics.count("kvgated_refusals_total", reason=refused.reason)

    def restore(self, tenant_tokens: dict[str, int], now: float) -> None:
        """Tokens of today that were used before this boot."""
        for tenant, amount in tenant_tokens.items():
            self.rates.spent(tenant, amount, now)
