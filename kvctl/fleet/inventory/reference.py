"""The text of docs/inventory.md, from the model's descriptions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvctl.fleet.inventory.problems import CODES
from kvctl.fleet.inventory.schema import allowed, resolve, schema

INTRO = """\
# The inventory

One YAML file describes a site: its nodes, and what is expected of them. `inventory.example.yaml` is a complete one;
`kvctl init` writes a starter, `kvctl config validate` checks a file and names every error with its line, and
`kvctl config schema` prints the JSON Schema for your editor. This page is made from the model.

Five lines are an inventory, because the roles `storage` and `gpu` exist without a definition:

```yaml
site: {name: oslo, country: NO}
nodes:
  - {name: store1, address: 10.0.0.11, role: storage}
  - {name: store2, address: 10.0.0.12, role: storage}
  - {name: gpu1, address: 10.0.0.21, role: gpu}
```

How values are read: where a field is text, an unquoted value is that text exactly as written (`NO`, `off`, `28.10`,
`0123`). Numbers are plain decimals; `0x10`, `010` and `1_000`, which YAML tools read differently, are refused. `true`,
`false`, `yes`, `no`, `on` and `off` are booleans where a boolean is expected. Anchors, aliases and `<<` work; a file
may have 4 MiB, 32 levels and 200 000 values after expansion, and no key stands twice in one mapping.

kvctl looks for the file in this order: `--inventory`, `KVCTL_INVENTORY`, `inventory` in `./kvctl.toml`, `inventory` in
the user's `config.toml`, `./inventory.yaml`, and last the inventory of a lab that is up on this machine.
`kvctl config show --origin` says which it was.
"""


def markdown() -> str:
    """The page: one table for each kind of mapping, in the order in which the file refers to them."""
    parts = [INTRO]
    for title, name, part in _sections():
        parts.append(f"\n## {title}\n\n{part.get('description', '').strip()}\n\n" + _table(name, part))
    parts.append("\n## Errors\n\n| code | meaning |\n|---|---|\n")
    parts += [f"| {code} | {text} |\n" for code, text in CODES.items()]
    return "".join(parts)


def _sections() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(title, path, schema) of every mapping with named fields, depth first."""
    document = schema()
    yield "The file", "", document
    yield from _below("", document)


def _below(path: str, part: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for key, value in part.get("properties", {}).items():
        here, field = f"{path}.{key}" if path else key, resolve(value)
        if "items" in field:
            here, field = f"{here}[]", resolve(field["items"])
        elif "patternProperties" in field or isinstance(field.get("additionalProperties"), Mapping):
            values = field.get("patternProperties", {"": field.get("additionalProperties")})
            here, field = f"{here}.<name>", resolve(next(iter(values.values())))
        if "properties" in field:
            yield f"`{here}`", here, field
            yield from _below(here, field)


def _table(path: str, part: Mapping[str, Any]) -> str:
    required = part.get("required", [])
    rows = ["| field | allowed | default | meaning |\n|---|---|---|---|\n"]
    for key, value in part["properties"].items():
        field = resolve(value)
        default = "required" if key in required else _default(value.get("default"))
        meaning = value.get("description", field.get("description", ""))
        rows.append(f"| `{key}` | {_cell(_short(field))} | {_cell(default)} | {_cell(meaning)} |\n")
    return "".join(rows)


def _short(field: Mapping[str, Any]) -> str:
    """What is allowed; for a nested mapping only that it is one, since it has a table of its own."""
    if field.get("type") == "array":
        return "a list"
    if field.get("type") == "object":
        return "a mapping"
    if "pattern" in field:
        return f"text, `{field['pattern']}`"
    return allowed(field)


def _default(value: Any) -> str:
    if isinstance(value, dict):
        return ""
    if isinstance(value, list):
        return f"`{json.dumps(value)}`" if value else "empty"
    return {None: "none", "": "empty"}.get(value, f"`{str(value).lower() if isinstance(value, bool) else value}`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
