"""What admin verbs take: the base of every request, and its words."""

from typing import Annotated

from msgspec import Meta as Rule
from msgspec import Struct

Hex16 = Annotated[str, Rule(pattern="^[0-9a-fA-F]{32}$")]
Hex32 = Annotated[str, Rule(pattern="^[0-9a-fA-F]{64}$")]
Text = Annotated[str, Rule(min_length=1, max_length=256)]
MOST = 10_000  # rows or keys of one request


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """No fields: the verb takes nothing."""
