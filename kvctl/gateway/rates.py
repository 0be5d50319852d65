"""A tenant's requests a minute and tokens a day, as this gateway has seen them. Times are given, never read."""

from dataclasses import dataclass, field

from kvctl.gateway.answers import Refused
from kvctl.types.snapshot import TenantView

DAY = 86400


@dataclass
class Bucket:
    """Requests that a tenant may send now; filled evenly, a minute's worth at most."""

    level: float
    at: float


@dataclass
class Rates:
    _buckets: dict[str, Bucket] = field(default_factory=dict)
    _tokens: dict[str, int] = field(default_factory=dict)  # of `_day`
    _day: int = 0

    def enter(self, tenant: TenantView, now: float) -> None:
        """Count a request at `now` (Unix seconds). Refused with 429 when the tenant has used up its minute or day."""
        self._turn(now)
        self._check_day(tenant, now)
        if tenant.requests_per_minute is not None:
            self._check_minute(tenant.name, tenant.requests_per_minute, now)

    def spent(self, tenant: str, tokens: int, at: float) -> None:
        """Count tokens that were used at `at`; those of an earlier day no longer matter."""
        self._turn(at)
        if int(at // DAY) == self._day:
            self._tokens[tenant] = self._tokens.get(tenant, 0) + tokens

    def today(self, tenant: str) -> int:
        return self._tokens.get(tenant, 0)

    def _turn(self, now: float) -> None:
        if int(now // DAY) > self._day:
            self._day = int(now // DAY)
            self._tokens.clear()

    def _check_day(self, tenant: TenantView, now: float) -> None:
        if tenant.tokens_per_day is not None and self.today(tenant.name) >= tenant.tokens_per_day:
            wait = int(DAY - now % DAY) + 1
            message = f"this tenant has used its {tenant.tokens_per_day} tokens of today (UTC)"
            raise Refused(429, "KV-GATE-031", "tokens_per_day", message, retry_after=wait)

    def _check_minute(self, name: str, limit: int, now: float) -> None:
        bucket = self._buckets.setdefault(name, Bucket(limit, now))
        bucket.level = min(limit, bucket.level + max(0.0, now - bucket.at) * limit / 60)
        bucket.at = now
        if bucket.level < 1:
            wait = max(1, round((1 - bucket.level) * 60 / limit))
            message = f"this tenant may send {limit} requests a minute"
            raise Refused(429, "KV-GATE-030", "requests_per_minute", message, retry_after=wait)
        bucket.level -= 1
