"""Who asks: a person, a service or a token, and what each may be."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"
    TENANT_ADMIN = "tenant-admin"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"  # reads everything, changes nothing, every read is logged
    DPO = "dpo"  # erasure and holds; reads no tenant's data
    BREAK_GLASS = "break-glass"
    ADMIN = "admin"  # accounts, and nothing else
    SERVICE = "service"  # a gateway, store or connector with a certificate


class Kind(StrEnum):
    HUMAN = "human"
    SERVICE = "service"
    TOKEN = "token"  # of a script; never votes


# Nobody holds two of these at once.
APART = (Role.OPERATOR, Role.APPROVER, Role.AUDITOR)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was authenticated. `tenant`: the only one this principal may name; None: any."""

    name: str  # local:alice (by password or OpenID), unix:root, service:<name>
    roles: frozenset[Role]
    tenant: str | None = None
    kind: Kind = Kind.HUMAN
    fresh: bool = False  # proved itself again within the last minutes (step-up)

    def has(self, *roles: Role) -> bool:
        return any(role in self.roles for role in roles)


SYSTEM = Principal("system", frozenset(), kind=Kind.SERVICE)  # the controller's own schedules
