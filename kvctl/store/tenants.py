"""Which tenants are served, and how much each may take: pushed by the controller, in force until the next push."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta as Rule
from msgspec import Struct

from kvctl.store.pushed import Pushed, Text

FILE = "tenants.json"  # below `state`


class Tenant(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tenant: Text
    state: Literal["active", "suspended"] = "active"
    quota_bytes: Annotated[int, Rule(ge=0, le=2**62)] | None = None  # None: what the configuration says


class TenantSet(Pushed, frozen=True, kw_only=True):
    tenants: tuple[Tenant, ...] = ()
    unknown: Literal["serve", "refuse"] = "serve"  # tenants that are not named


class Served:
    """A set, as sessions ask it."""

    def __init__(self, given: TenantSet = TenantSet()) -> None:
        self.given = given
        self._states = {one.tenant: one.state for one in given.tenants}

    def refusal(self, tenant: str) -> str:
        """Why a tenant is not served; "" when it is."""
        state = self._states.get(tenant)
        if state == "suspended":
            return "this tenant is suspended"
        return "this store does not serve this tenant" if state is None and self.given.unknown == "refuse" else ""

    def quotas(self) -> dict[str, int]:
        """Bytes of those that the controller gave a limit."""
        return {one.tenant: one.quota_bytes for one in self.given.tenants if one.quota_bytes is not None}


def file(state: str) -> Path:
    return Path(state) / FILE
