"""A tenant's requests a minute and tokens a day, as this gateway has seen them. Times are given, never read."""

from dataclasses import dataclass, field

from kvctl.gateway.answers import Refused
from kvctl.types.snapshot import TenantView

DAY = 86400
DAYS = 8  # that are kept: a clock that was ahead for a moment is no reason to forget what was used today


@dataclass
class Bucket:
    """Requests that a tenant may send now; filled evenly, a minute's worth at most."""

    level: float
    at: float


@dataclass
class Rates:
    _buckets: dict[str, Bucket] = field(default_factory=dict)
    _tokens: dict[int, dict[str, int]] = field(default_factory=dict)  # by day and tenant

    def enter(self, tenant: TenantView, now: float) -> None:
        """Count a request at `now` (Unix seconds). Refused with 429 when the tenant has used up its minute or day."""
        self._check_day(tenant, now)
        if tenant.requests_per_minute is not None:
            self._check_minute(tenant.name, tenant.requests_per_minute, now)

    def spent(self, tenant: str, tokens: int, at: float) -> None:
        """Count tokens that were used at `at`."""
        day = self._tokens.setdefault(int(at // DAY), {})
        day[tenant] = day.get(tenant, 0) + tokens
        if len(self._tokens) > DAYS:
            del self._tokens[min(self._tokens)]

    def today(self, tenant: str, now: float) -> int:
        """What was used on the day of `now`, and on days that are still to come: the clock was wrong there."""
        return sum(used.get(tenant, 0) for day, used in self._tokens.items() if day >= int(now // DAY))

    def _check_day(self, tenant: TenantView, now: float) -> None:
        if tenant.tokens_per_day is not None and self.today(tenant.name, now) >= tenant.tokens_per_day:
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
