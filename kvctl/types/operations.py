"""Every operation of the controller: its name, its route, what it takes, who may ask for it.

The HTTP routes, the client, the console and the test that walks every route as every role are made from this table.
GET operations change nothing and take their request as a query; POST operations take it as a JSON body.
"""

from dataclasses import dataclass, fields
from typing import Any

from kvctl.types import requests as r
from kvctl.types.principals import Role

VIEWER, TENANT, OPERATOR = Role.VIEWER, Role.TENANT_ADMIN, Role.OPERATOR
APPROVER, AUDITOR, DPO, BREAK = Role.APPROVER, Role.AUDITOR, Role.DPO, Role.BREAK_GLASS
ADMIN, SERVICE = Role.ADMIN, Role.SERVICE
READERS = frozenset({VIEWER, TENANT, OPERATOR, APPROVER, AUDITOR, DPO, BREAK})
SITE = frozenset({OPERATOR, APPROVER, AUDITOR, DPO, BREAK})  # readers of what concerns the whole site


@dataclass(frozen=True, slots=True)
class Operation:
    name: str  # noun.verb
    request: type[Any]
    roles: frozenset[Role]
    method: str = "GET"
    step_up: bool = False  # a person must have proved itself again within the last minutes
    site: bool = False  # about the whole site: not for a principal that is bound to a tenant

    @property
    def path(self) -> str:
        return "/v1/" + self.name.replace(".", "/")

    @property
    def changes(self) -> bool:
        return self.method == "POST"

    @property
    def names_tenant(self) -> bool:
        """Whether its request has a tenant; a principal bound to a tenant then names that one and no other."""
        return any(field.name == "tenant" for field in fields(self.request))


def read(name: str, request: type[Any], roles: frozenset[Role], *, site: bool = False) -> Operation:
    return Operation(name, request, roles, site=site)


def change(name: str, request: type[Any], *roles: Role, step_up: bool = False, site: bool = False) -> Operation:
    return Operation(name, request, frozenset(roles), "POST", step_up, site)


TABLE: tuple[Operation, ...] = (
    change("account.change", r.AccountChange, ADMIN, step_up=True, site=True),
    change("account.create", r.AccountCreate, ADMIN, step_up=True, site=True),
    read("account.ls", r.Nothing, frozenset({ADMIN, AUDITOR}), site=True),
    change("account.totp", r.AccountTotp, *READERS, ADMIN, step_up=True),
    change("approve.execute", r.ApprovalNamed, OPERATOR, DPO, site=True),
    read("approve.ls", r.ApprovalList, READERS),
    read("approve.show", r.ApprovalNamed, SITE, site=True),
    change("approve.vote", r.ApprovalVote, APPROVER, DPO, step_up=True, site=True),
    read("audit.checks", r.Nothing, SITE, site=True),
    change("audit.export", r.AuditExport, AUDITOR, OPERATOR, TENANT, step_up=True),
    read("audit.log", r.AuditLog, READERS),
    read("audit.packs", r.Nothing, SITE, site=True),
    change("audit.prove", r.AuditProve, AUDITOR, OPERATOR, APPROVER, DPO, site=True),
    change("audit.run", r.AuditRun, AUDITOR, OPERATOR, DPO, site=True),
    change("audit.verify", r.AuditVerify, AUDITOR, OPERATOR, APPROVER, DPO, site=True),
    change("audit.waive", r.AuditWaive, DPO, APPROVER, step_up=True, site=True),
    change("controller.backup", r.BackupMake, OPERATOR, step_up=True, site=True),
    read("controller.status", r.Nothing, SITE | {ADMIN}, site=True),
    change("erase.chunks", r.EraseChunks, DPO, OPERATOR, step_up=True),
    read("erase.ls", r.TenantScope, frozenset({DPO, TENANT, OPERATOR, AUDITOR})),
    read("erase.receipt", r.ErasureNamed, frozenset({DPO, TENANT, OPERATOR, AUDITOR})),
    change("erase.subject", r.EraseSubject, DPO, TENANT, OPERATOR, step_up=True),
    change("erase.tenant", r.EraseTenant, DPO, OPERATOR, step_up=True),
    change("event.record", r.EventRecord, OPERATOR, site=True),
    read("fleet.findings", r.Nothing, SITE, site=True),
    read("fleet.plan", r.PlanNamed, SITE, site=True),
    read("fleet.status", r.Nothing, SITE, site=True),
    change("fleet.check", r.NodesNamed, OPERATOR, site=True),
    change("fleet.make-plan", r.NodesNamed, OPERATOR, site=True),
    change("hold.lift", r.HoldLift, DPO, OPERATOR, step_up=True),
    read("hold.ls", r.TenantScope, READERS),
    change("hold.set", r.HoldSet, DPO, OPERATOR, TENANT),
    change("key.create", r.KeyCreate, TENANT, OPERATOR),
    read("key.ls", r.TenantScope, frozenset({TENANT, OPERATOR, AUDITOR})),
    change("key.revoke", r.KeyNamed, TENANT, OPERATOR),
    change("key.rotate", r.EpochRotate, OPERATOR, step_up=True),
    change("lease.issue", r.LeaseRequest, SERVICE),
    read("lease.scopes", r.LeaseScopes, frozenset({SERVICE})),
    read("model.ls", r.Nothing, SITE, site=True),
    change("model.pin", r.ModelPin, OPERATOR, site=True),
    read("move.ls", r.TenantScope, READERS),
    change("policy.apply", r.PolicyApply, OPERATOR, DPO, site=True),
    read("policy.show", r.PolicyShow, READERS),
    read("residency.history", r.ResidencyHistory, READERS),
    read("residency.now", r.TenantScope, READERS),
    change("residency.whatif", r.PolicyText, OPERATOR, APPROVER, AUDITOR, DPO, site=True),
    change("retention.apply", r.RetentionApply, OPERATOR, DPO),
    read("retention.explain", r.RetentionExplain, READERS),
    read("retention.plan", r.RetentionPlan, READERS),
    change("run.cancel", r.RunNamed, OPERATOR, site=True),
    read("run.ls", r.Listed, SITE, site=True),
    read("run.show", r.RunNamed, SITE, site=True),
    change("service.add", r.ServiceAdd, OPERATOR, step_up=True, site=True),
    read("service.ls", r.Nothing, SITE, site=True),
    change("service.remove", r.ServiceNamed, OPERATOR, site=True),
    read("snapshot.get", r.SnapshotRequest, frozenset({SERVICE})),
    change("store.compare", r.StoreNamed, OPERATOR, AUDITOR, DPO, site=True),
    change("store.destroyed", r.StoreDestroyed, OPERATOR, step_up=True, site=True),
    read("store.ls", r.Nothing, SITE, site=True),
    change("store.sync", r.StoreNamed, OPERATOR, site=True),
    change("tenant.create", r.TenantCreate, OPERATOR, site=True),
    read("tenant.ls", r.TenantScope, READERS),
    change("tenant.offboard", r.TenantOffboard, OPERATOR, step_up=True, site=True),
    change("tenant.quota", r.TenantQuota, OPERATOR, site=True),
    change("tenant.resume", r.TenantChange, OPERATOR, site=True),
    read("tenant.show", r.TenantNamed, READERS),
    change("tenant.suspend", r.TenantChange, OPERATOR, TENANT, BREAK),
    change("tier.move", r.MoveNamed, OPERATOR, site=True),
    change("tier.propose", r.TierPropose, OPERATOR, TENANT),
    change("tier.resume", r.MoveNamed, OPERATOR, site=True),
    change("tier.rollback", r.MoveNamed, OPERATOR, site=True),
    change("tier.stop", r.MoveNamed, OPERATOR, BREAK, site=True),
    read("usage.show", r.UsageShow, READERS),
)

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in TABLE}
