import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kvctl.fleet.inventory.load import load_text
from kvctl.fleet.inventory.problems import InventoryError
from kvctl.fleet.inventory.schema import allowed, part_at, resolve, schema

EXAMPLE = (Path(__file__).parents[3] / "inventory.example.yaml").read_text()


def example() -> dict[str, Any]:
    """The example as JSON has it: what the loader made of it, since YAML 1.1 would read NO as false."""
    return json.loads(load_text(EXAMPLE).inventory.model_dump_json(exclude_unset=True))


VALIDATOR = jsonschema.Draft202012Validator(schema(), format_checker=jsonschema.FormatChecker())


def test_the_schema_is_one_and_accepts_the_example() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert list(VALIDATOR.iter_errors(example())) == []


def test_every_field_is_titled_and_described() -> None:
    for part in [schema(), *schema()["$defs"].values()]:
        for name, field in part.get("properties", {}).items():
            assert resolve(field).get("description"), f"{part['title']}.{name}"
            assert field.get("title") or "$ref" in field or field.get("anyOf"), f"{part['title']}.{name}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("site", "country"), "Norway"),
        (("site", "lab"), "maybe"),
        (("site", "colour"), "blue"),
        (("fabric", "mtu"), 100),
        (("fabric", "ecn"), "on"),
        (("fabric", "ets", "strict"), [9]),
        (("nodes",), []),
        (("nodes", 0, "port"), 0),
        (("nodes", 0, "address"), "-oProxyCommand=id"),
        (("nodes", 0, "bmc", "credentials"), "hunter2"),
        (("roles", "storage", "drives", "lba"), 520),
        (("roles", "storage", "rails", 0), {"subnet": ""}),
        (("waivers", 0, "reason"), "no"),
        (("waivers", 0, "until"), "soon"),
        (("waivers", 0, "until"), 20270131),
        (("version",), 2),
    ],
)
def test_what_the_schema_refuses_the_loader_refuses(path: tuple[str | int, ...], value: Any) -> None:
    data = copy.deepcopy(example())
    here: Any = data
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    assert list(VALIDATOR.iter_errors(data))
    with pytest.raises(InventoryError):
        load_text(json.dumps(data))


def test_json_is_an_inventory_too() -> None:
    text = json.dumps(example())
    assert yaml.safe_load(text)
    assert load_text(text).inventory == load_text(EXAMPLE).inventory


def test_what_a_field_allows_in_words() -> None:
    assert allowed(part_at(("fabric", "lossless_priority"))) == "a whole number 0 to 7"
    assert allowed(part_at(("fabric", "ecn"))) == "dcqcn | off | any"
    assert allowed(part_at(("roles", "any", "drives", "lba"))) == "512 | 4096"
    assert allowed(part_at(("waivers", 0, "until"))) == "a date such as 2027-01-31"
    assert part_at(("fabric", "absent")) == {}
