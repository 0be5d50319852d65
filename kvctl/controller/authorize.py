"""Who may do what: the one place that says so. Default deny."""

import dataclasses
from typing import Any

from kvctl.types.errors import RefusedError
from kvctl.types.operations import Operation
from kvctl.types.principals import Kind, Principal


def authorize(operation: Operation, who: Principal, request: Any) -> Any:
    """The request as this principal may make it: bound to its own tenant, if it is bound to one.

    RefusedError KV-API-001 (role), 002 (another tenant), 003 (proves itself again first), 004 (tokens do not vote).
    """
    if not who.has(*operation.roles):
        needed = ", ".join(sorted(operation.roles)) or "nobody"
        raise RefusedError(
            "KV-API-001", f"{who.name} may not {operation.name}", why=f"that is for the roles {needed}",
            fix="ask somebody who has one of them",
        )  # fmt: skip
    if who.tenant is not None:
        request = bind(operation, who, request)
    if operation.step_up and who.kind is Kind.HUMAN and not who.fresh:
        raise RefusedError(
            "KV-API-003", f"{operation.name} needs you to confirm who you are",
            why="your last proof is older than five minutes", fix="confirm it where you signed in, and do it again",
        )  # fmt: skip
    if operation.name == "approve.vote" and who.kind is not Kind.HUMAN:
        raise RefusedError("KV-API-004", "a token does not vote", why="approvals are decided by people")
    return request


def bind(operation: Operation, who: Principal, request: Any) -> Any:
    """A principal of one tenant names that tenant, whatever it left out, and no other."""
    if operation.site or not operation.names_tenant:
        raise RefusedError(
            "KV-API-002", f"{who.name} may not {operation.name}", why="it concerns the whole site, not one tenant"
        )
    named = request.tenant
    if named is None:
        return dataclasses.replace(request, tenant=who.tenant)
    if named != who.tenant:
        # The same words whether that tenant exists or not.
        raise RefusedError("KV-API-002", f"{who.name} may not see that tenant", why="it is bound to another one")
    return request
