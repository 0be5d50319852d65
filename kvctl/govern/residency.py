"""May these bytes be there? One answer, with the rule that gave it. Default deny."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kvctl.govern.policy import Jurisdiction, Policy, Residency

Purpose = Literal["storage", "processing", "support"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` is the sentence for people and records; `version` the residency policy's, None when there is none."""

    allowed: bool
    rule: str
    store: str | None = None
    tier: str | None = None
    site: str | None = None
    country: str | None = None
    entity_country: str | None = None
    controlled_by: str | None = None
    version: int | None = None

    def document(self) -> dict[str, Any]:
        made = asdict(self)
        return {"verdict": "allow" if made.pop("allowed") else "deny", **made}


def decide(
    policy: Policy, tenant: str, store: str, tier: str, *, home: str, version: int | None = None,
    purpose: Purpose = "storage",
) -> Verdict:  # fmt: skip
    """Whether the tenant's bytes may be on this tier of this store. `home`: the country of the controller's site."""
    where = policy.where(store, tier)
    name = f"{store}/{tier}"
    return _verdict(policy.residency.get(tenant), where, name, tenant, home, version, purpose, store, tier)


def decide_at(
    policy: Policy, tenant: str, site: str, *, home: str, version: int | None = None, purpose: Purpose = "storage"
) -> Verdict:
    """The same for a site, where a backup or an export goes that no store holds."""
    return _verdict(policy.residency.get(tenant), policy.at(site), site, tenant, home, version, purpose, None, None)


def _verdict(
    rules: Residency | None, where: Jurisdiction | None, name: str, tenant: str, home: str, version: int | None,
    purpose: Purpose, store: str | None, tier: str | None,
) -> Verdict:  # fmt: skip
    if where is None:
        return Verdict(False, f"{name} is at no declared site", store, tier, version=version)
    allowed, rule = _judge(rules, where, tenant, home, version, purpose)
    return Verdict(
        allowed, rule, store, tier, where.site, where.country, where.entity_country, where.controlled_by, version
    )


def _judge(
    rules: Residency | None, where: Jurisdiction, tenant: str, home: str, version: int | None, purpose: Purpose
) -> tuple[bool, str]:
    if rules is None:
        at_home = bool(home) and where.country == home
        said = f"only {home}, the controller's own country" if home else "nobody named the controller's country"
        return at_home, f"no residency policy of {tenant}: {said}"
    countries = countries_of(rules, purpose)
    policy = f"residency {tenant}" + (f" v{version}" if version else "")
    listed = f"{purpose}_countries [{', '.join(countries)}]"
    if where.country not in countries:
        return False, f"{policy}: {where.country} is not in {listed}"
    if rules.controlled_by == "same":
        for country, whose in ((where.entity_country, "of the site's entity"), (where.controlled_by, "in control")):
            if country not in countries:
                return False, f"{policy}: controlled_by same: {country} {whose} is not in {listed}"
    return True, f"{policy}: {where.country} is in {listed}"


def countries_of(rules: Residency, purpose: Purpose) -> tuple[str, ...]:
    found = {
        "storage": rules.storage_countries, "processing": rules.processing_countries, "support": rules.support_countries
    }[purpose]  # fmt: skip
    return rules.storage_countries if found is None else found


def judged(
    policy: Policy, held: Sequence[Mapping[str, Any]], versions: Mapping[str, int], home: str
) -> list[dict[str, Any]]:
    """Counted copies (tenant, store, tier, chunks, bytes), each with its verdict and the jurisdictions of its place."""
    return [
        dict(row)
        | decide(
            policy, row["tenant"], row["store"], row["tier"], home=home, version=versions.get(row["tenant"])
        ).document()
        for row in held
    ]
