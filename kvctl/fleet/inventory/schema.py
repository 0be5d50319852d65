"""The JSON Schema of the inventory, and what it says of one field."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kvctl.fleet.inventory.model import Inventory

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of inventory.yaml. References between parts are beyond it; the loader checks them."""
    document = Inventory.model_json_schema(mode="validation")
    return {"$schema": DIALECT, **document, "title": "kvctl inventory"}


def resolve(part: Any) -> dict[str, Any]:
    """Follow $ref and the one non-null branch of `X | None`; keywords beside them (default, description) win."""
    while isinstance(part, Mapping):
        if "$ref" in part:
            name = str(part["$ref"]).rpartition("/")[2]
            part = {**schema()["$defs"][name], **{k: v for k, v in part.items() if k != "$ref"}}
        elif "anyOf" in part:
            branch = next(b for b in part["anyOf"] if b.get("type") != "null")
            part = {**branch, **{k: v for k, v in part.items() if k != "anyOf"}}
        else:
            return dict(part)
    return {}


def part_at(path: tuple[str | int, ...]) -> dict[str, Any]:
    """The schema of the field at `path` with references followed; {} when there is no such field."""
    here = resolve(schema())
    for step in path:
        if isinstance(step, int):
            here = resolve(here.get("items", {}))
        elif step in here.get("properties", {}):
            here = resolve(here["properties"][step])
        elif "patternProperties" in here:
            here = resolve(next(iter(here["patternProperties"].values())))
        else:
            here = resolve(here.get("additionalProperties", {}))
    return here


def keys_at(path: tuple[str | int, ...]) -> list[str]:
    """Keys that the mapping at `path` may have; [] when it takes any key."""
    return list(part_at(path).get("properties", {}))


def allowed(part: Mapping[str, Any]) -> str:
    """What a field accepts, in words: 'dcqcn | off | any', 'a whole number 0 to 7'."""
    if "const" in part:
        return str(part["const"])
    if "enum" in part:
        return " | ".join(str(v) for v in part["enum"])
    kind = part.get("type")
    if kind in ("integer", "number"):
        return _number(part)
    if kind == "string":
        return _text(part)
    if kind == "array":
        return f"a list of: {allowed(resolve(part.get('items', {}))) or 'anything'}"
    if kind == "object":
        keys = part.get("properties", {})
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"
    return {"boolean": "true | false", "null": "nothing"}.get(str(kind), "")


def _number(part: Mapping[str, Any]) -> str:
    word = "a whole number" if part["type"] == "integer" else "a number"
    low, high = part.get("minimum"), part.get("maximum")
    above = part.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f"{word} {low} to {high}"
    bounds = [f"at least {low}"] if low is not None else [f"above {above}"] if above is not None else []
    bounds += [f"at most {high}"] if high is not None else []
    return " ".join([word, *bounds])


def _text(part: Mapping[str, Any]) -> str:
    if part.get("format") == "date":
        return "a date such as 2027-01-31"
    if "pattern" in part:
        meaning = str(part.get("description", "text")).rstrip(".")
        return f"{meaning} (pattern {part['pattern']})"
    least = part.get("minLength", 0)
    return f"text of at least {least} characters" if least > 1 else "text, not empty" if least else "text"
