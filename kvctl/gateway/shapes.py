"""The list of models, as each API family has it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any


def models_openai(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": list(found)}


def models_anthropic(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    data = [
        {
            "type": "model",
            "id": one["id"],
            "display_name": one["id"],
            "created_at": datetime.fromtimestamp(one["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        for one in found
    ]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"data": data, "has_more": False, **ends}
