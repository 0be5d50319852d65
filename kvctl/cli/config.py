"""`kvctl config`: where settings come from, and whether the inventory is valid."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvctl.cli.options import group_flags, inventory_option, output_option, pace_options
from kvctl.cli.output import emit, note
from kvctl.cli.settings import PROJECT_FILE, Settings, inventory_path, lab_dir, resolve_settings, user_file
from kvctl.types.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kvctl.fleet.inventory.load import LoadedInventory


@click.group()
def command() -> None:
    """Show where settings come from; validate the inventory.

    \b
    Examples:
      kvctl config show --origin
      kvctl config validate site-a.yaml
      kvctl config schema > inventory.schema.json

    A setting comes from the first of: a flag, KVCTL_<NAME>, ./kvctl.toml, the user's config.toml, the default.
    """


@command.command()
@click.option("--origin", is_flag=True, help="Add where each value comes from.")
@inventory_option
@output_option()
@pace_options
@click.option("--state-dir", metavar="DIR", help="Where kvctl keeps state.")
def show(origin: bool, **flags: Any) -> None:
    """Show every setting.

    \b
    Examples:
      kvctl config show --origin
      kvctl config show -o json
    """
    settings = resolve_settings(**flags, **group_flags())
    rows = [
        {"setting": name, "value": _plain(item.value), **({"origin": item.origin} if origin else {})}
        for name, item in settings.items()
    ]
    about = _about(settings)
    document = {
        "schema": "kvctl.config/1",
        "settings": {row["setting"]: {k: v for k, v in row.items() if k != "setting"} for row in rows},
        "inventory": about,
    }
    emit(document, rows, ["setting", "value", *(["origin"] if origin else [])], settings.output.value)
    if settings.output.value == "table":
        note(f"inventory: {about['path'] or 'none'}, sha256 {about['sha256'] or '-'}, {about['state']}")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _about(settings: Settings) -> dict[str, Any]:
    """Path and hash of the inventory; a broken one is said to be so and does not keep the settings from being shown."""
    from kvctl.fleet.inventory.load import load

    path = settings.inventory.value
    if path is None:
        return {"path": None, "sha256": None, "state": "not found"}
    try:
        return {"path": str(path), "sha256": load(path).sha256, "state": "valid"}
    except UsageError as error:
        return {"path": str(path), "sha256": None, "state": f"not valid ({error.code}); run: kvctl config validate"}


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@inventory_option
@output_option()
def validate(file: Path | None, **flags: Any) -> int:
    """Check an inventory; exit 2 and name every error when it is not valid.

    \b
    Examples:
      kvctl config validate
      kvctl config validate site-a.yaml -o json
    """
    from kvctl.fleet.inventory.load import load

    settings = resolve_settings(**flags)
    path, fmt = file or settings.inventory.value, settings.output.value
    try:
        loaded = load(file or inventory_path(settings))
    except UsageError as error:
        if fmt == "table":
            raise
        errors = _errors(error)
        emit({"schema": VALIDATED, "valid": False, "path": _plain(path), "errors": errors}, errors, ERROR_COLUMNS, fmt)
        return int(ExitCode.USAGE)
    counts = _counts(loaded)
    note(f"{path} is valid: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
    document = {
        "schema": VALIDATED,
        "valid": True,
        "path": str(path),
        "sha256": loaded.sha256,
        "counts": counts,
        "errors": [],
    }
    if fmt != "table":
        emit(document, [], ERROR_COLUMNS, fmt)
    return int(ExitCode.OK)


VALIDATED = "kvctl.config.validate/1"
ERROR_COLUMNS = ["line", "column", "field", "code", "problem", "allowed"]


def _errors(error: UsageError) -> list[dict[str, Any]]:
    from kvctl.fleet.inventory.problems import InventoryError

    if isinstance(error, InventoryError):
        return [{name: getattr(problem, name) for name in ERROR_COLUMNS} for problem in error.problems]
    return [{"line": None, "column": None, "field": "", "code": error.code, "problem": error.what, "allowed": ""}]


def _counts(loaded: "LoadedInventory") -> dict[str, int]:
    inventory = loaded.inventory
    return {
        "nodes": len(inventory.nodes),
        "roles": len({node.role for node in inventory.nodes}),
        "pools": len(inventory.pools),
        "waivers": len(inventory.waivers),
    }


@command.command()
def schema() -> None:
    """Print the JSON Schema (draft 2020-12) of inventory.yaml.

    \b
    Example:
      kvctl config schema > inventory.schema.json
    """
    from kvctl.fleet.inventory.schema import schema as inventory_schema

    click.echo(json.dumps(inventory_schema(), indent=2))


@command.command()
@inventory_option
@output_option()
def path(**flags: Any) -> None:
    """Print the files and directories that kvctl reads and writes, and which exist.

    \b
    Example:
      kvctl config path
    """
    settings = resolve_settings(**flags)
    paths = {
        "project file": Path.cwd() / PROJECT_FILE,
        "user file": user_file(os.environ),
        "inventory": settings.inventory.value,
        "state": settings.state_dir.value,
        "lab": lab_dir(os.environ),
    }
    rows = [
        {"what": what, "exists": "yes" if place and os.access(place, os.F_OK) else "no", "path": _plain(place)}
        for what, place in paths.items()
    ]
    emit({"schema": "kvctl.config.path/1", "paths": rows}, rows, ["what", "exists", "path"], settings.output.value)
