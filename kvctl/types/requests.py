"""What each operation of the controller takes. Plain values only: they travel as JSON and as query texts."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Nothing:
    """No parameters."""


# --- accounts -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AccountCreate:
    """A new account; the answer holds a one-time link with which its owner sets a password."""

    name: str
    roles: list[str]
    tenant: str | None = None
    until: str | None = None  # RFC 3339: an auditor's access ends
    dry_run: bool = False
    oidc_subject: str | None = None  # its owner signs in with the OpenID provider, and gets no link


@dataclass(frozen=True, slots=True)
class AccountChange:
    name: str
    roles: list[str] | None = None
    disabled: bool | None = None
    new_link: bool = False  # for a password that was forgotten
    dry_run: bool = False
    reset_totp: bool = False  # for a telephone that was lost
    oidc_subject: str | None = None  # its owner signs in with the OpenID provider from now on, and no other way
    unbind_oidc: bool = False  # by a password again


@dataclass(frozen=True, slots=True)
class AccountTotp:
    """The caller's own authenticator app. No code: a new secret is handed out; its first code puts it in force."""

    code: str = ""
    remove: bool = False
    tenant: str | None = None  # of an account that is bound to one
    dry_run: bool = False


# --- tenants and API keys -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TenantCreate:
    tenant: str
    entity: str  # legal entity that is responsible for the data
    entity_country: str = ""  # ISO 3166-1 alpha-2
    sla: str = "silver"  # gold | silver | bronze
    quota_bytes: int | None = None  # on each store, over all its tiers; None: what the store's configuration says
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    max_concurrent: int = 16
    require_subject: str = "warn"  # refuse | warn | off
    domains: list[str] = field(default_factory=lambda: ["user"])
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TenantNamed:
    tenant: str


@dataclass(frozen=True, slots=True)
class TenantScope:
    """One tenant, or all that the caller may see."""

    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class TenantChange:
    tenant: str
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """New limits; what is None stays as it is. `unlimited`: names of limits that are taken away."""

    tenant: str
    quota_bytes: int | None = None  # on each store
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    max_concurrent: int | None = None  # cannot be taken away
    unlimited: list[str] = field(default_factory=list)
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TenantOffboard:
    """`confirm` is the tenant's name, typed again."""

    tenant: str
    confirm: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class KeyCreate:
    tenant: str
    domain: str = "user"
    label: str = ""
    days: int = 90
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class KeyNamed:
    tenant: str
    key: str  # its id
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class EpochRotate:
    """A new epoch makes a domain cold; destroying the old one's key erases it everywhere."""

    tenant: str
    domain: str
    destroy_old: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A connector's lease on a scope's keys. `holder` is its public key, 64 hexadecimal digits."""

    tenant: str
    domain: str
    holder: str
    operations: list[str] = field(default_factory=list)  # none: all


@dataclass(frozen=True, slots=True)
class LeaseScopes:
    """Which scopes a connector may have leases of, once they are others than at `after`. `holder`: as for a lease."""

    holder: str
    after: int = 0  # a number that the connector has: answered at once when there is a newer one
    wait: float = 0.0  # seconds to wait for one


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    after: int = 0  # a number that the gateway has: answered at once when there is a newer one
    wait: float = 0.0  # seconds to wait for one


# --- policies, residency, retention, holds --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PolicyApply:
    """`text` is the YAML of a policy file: docs/policies.md."""

    text: str
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PolicyShow:
    tenant: str | None = None
    at: str | None = None  # RFC 3339; None: now


@dataclass(frozen=True, slots=True)
class PolicyText:
    text: str


@dataclass(frozen=True, slots=True)
class ResidencyHistory:
    tenant: str
    at: str  # RFC 3339


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    tenant: str | None = None
    limit: int = 100  # chunks listed; the totals are always whole


@dataclass(frozen=True, slots=True)
class RetentionApply:
    tenant: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RetentionExplain:
    tenant: str
    key: str  # a chunk's key, or its first digits


@dataclass(frozen=True, slots=True)
class HoldSet:
    tenant: str
    reason: str
    domain: str | None = None
    subject: str | None = None  # a pseudonym, 32 hexadecimal digits
    user: str | None = None  # or the user's id, which is turned into one and kept nowhere
    model: str | None = None
    until: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class HoldLift:
    tenant: str
    hold: str
    reason: str = ""
    dry_run: bool = False


# --- models ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ModelPin:
    """A model's digests, as whoever has its directory read them: `sha256:` and 64 hexadecimal digits each."""

    name: str
    weights: str
    tokenizer: str
    config: str
    licence: str  # or `none`
    fingerprint: str | None = None  # of an engine that serves it, 64 hexadecimal digits
    engines: list[str] = field(default_factory=list)  # versions that it was tested with
    dry_run: bool = False


# --- erasure --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EraseTenant:
    tenant: str
    domain: str | None = None
    confirm: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class EraseChunks:
    """What a tenant stored for one model, or in a time, or both. `since` and `until`: RFC 3339; the end is not in it.
    `confirm` is the tenant's name, typed again."""

    tenant: str
    model: str | None = None  # 32 hexadecimal digits
    since: str | None = None
    until: str | None = None
    domain: str | None = None
    confirm: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class EraseSubject:
    tenant: str
    user: str | None = None  # the user's id; only its pseudonym is kept
    subject: str | None = None  # or the pseudonym
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ErasureNamed:
    erasure: str
    tenant: str | None = None


# --- tier moves and approvals ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TierPropose:
    tenant: str
    source: str  # tier
    target: str  # tier
    store: str | None = None  # None: every store
    model: str | None = None
    kind: str | None = None  # common | private
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class MoveNamed:
    move: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalNamed:
    approval: str


@dataclass(frozen=True, slots=True)
class ApprovalVote:
    """`payload_sha256` is what the voter saw; a vote on another payload is refused."""

    approval: str
    decision: str  # yes | no
    payload_sha256: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalList:
    state: str | None = None  # pending | approved | rejected | expired | executed | aborted; None: all
    tenant: str | None = None
    limit: int = 100


# --- usage, stores, audit, controller, fleet ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class UsageShow:
    tenant: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class StoreDestroyed:
    store: str
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class StoreNamed:
    store: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AuditLog:
    tenant: str | None = None
    kind: str | None = None  # a glob: tenant.*
    actor: str | None = None
    since: str | None = None
    until: str | None = None
    after: int | None = None  # an index: only later events
    limit: int = 100
    before: int | None = None  # an index: only earlier events


@dataclass(frozen=True, slots=True)
class AuditVerify:
    log: str = "control"  # control | data
    since: str | None = None  # the text of an earlier checkpoint


@dataclass(frozen=True, slots=True)
class AuditProve:
    index: int
    log: str = "control"


@dataclass(frozen=True, slots=True)
class AuditExport:
    format: str = "jsonl"  # jsonl | csv | parquet
    tenant: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class AuditRun:
    pack: str = "gdpr"
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class BackupMake:
    """`file` is on the controller's machine; None: below its state. `site`: the declared site where it will be kept."""

    file: str | None = None
    label: str = ""
    days: int = 30  # until it is to be gone; erasure receipts name it until then
    site: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ServiceAdd:
    """A gateway or connector that comes with a certificate. `request`: PKCS #10, PEM; its key stays where it is."""

    name: str
    request: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ServiceNamed:
    name: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AuditWaive:
    """Accept what a check finds until a time (RFC 3339)."""

    check: str
    until: str
    reason: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of another plane of this site, from the command that did it. `site`: refused by another site's."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    outcome: str = "ok"  # ok | denied | refused | failed
    site: str | None = None


@dataclass(frozen=True, slots=True)
class RunNamed:
    run: str


@dataclass(frozen=True, slots=True)
class Listed:
    limit: int = 50


@dataclass(frozen=True, slots=True)
class NodesNamed:
    nodes: list[str] = field(default_factory=list)  # none: all


@dataclass(frozen=True, slots=True)
class PlanNamed:
    plan: str = "latest"
