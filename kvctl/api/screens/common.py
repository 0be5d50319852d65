"""Fields that several pages ask for."""

from kvctl.api.menu import Field

TENANT = Field("tenant", "Tenant", required=True, suggest="tenants")
ANY_TENANT = Field("tenant", "Tenant", suggest="tenants", hint="none: all")
REASON = Field("reason", "Reason")
POLICY = Field("text", "Policy file (YAML)", required=True, kind="long")
USER = Field("user", "User's id", required=True, hint="only its pseudonym is kept")
