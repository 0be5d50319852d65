"""kvctl model: pin a model by its files' digests, compare a directory with its pin, list what is known."""

from pathlib import Path
from typing import Any

import click

from kvctl.cli.governance import connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.told import dry_run_option
from kvctl.client import models
from kvctl.types.errors import ExitCode, UsageError
from kvctl.types.requests import ModelPin, Nothing

PINS = ("name", "weights", "tokenizer", "config", "licence", "engines", "fingerprint", "pinned_at")
FIELDS = ("field", "value")
DIFFERENCES = ("field", "pinned", "found")
FAMILIES = ("name", "licence", "kv_bytes_per_token", "run_with", "notes")
MODEL_PATH = click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group("model")
def command() -> None:
    """Models pinned by content: weights, tokenizer, config, licence.

    \b
    Examples:
      kvctl model pin /models/qwen3-32b --engine "vllm 0.32.0"
      kvctl model validate /models/qwen3-32b
      kvctl model ls
      kvctl model ls --catalogue
    """


@command.command("pin")
@MODEL_PATH
@click.option("--name", help="[default: the directory's name]")
@click.option("--engine", "engines", multiple=True, help="An engine version that it was tested with; can be repeated.")
@click.option(
    "--fingerprint", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The fingerprint that an engine printed for it.",
)  # fmt: skip
@dry_run_option
@inventory_option
@output_option()
def pin(
    path: Path, name: str | None, engines: tuple[str, ...], fingerprint: Path | None, dry_run: bool,
    inventory: str | None, fmt: str | None,
) -> None:  # fmt: skip
    """Read the directory PATH, every byte of its weights, and put its digests on record."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    found = models.digests(path, fingerprint)
    asked = ModelPin(name or path.resolve().name, **found, engines=list(engines), dry_run=dry_run)
    document = client.call("model.pin", asked)
    rows = [{"field": key, "value": text(value)} for key, value in document.items() if key not in ("schema", "would")]
    show(document, rows, FIELDS, form, "")


@command.command("validate")
@MODEL_PATH
@click.option("--name", help="[default: the directory's name]")
@inventory_option
@output_option()
def validate(path: Path, name: str | None, inventory: str | None, fmt: str | None) -> int:
    """Compare the directory PATH with its pin. Exit code 3 when a field differs; each one is named."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    wanted = name or path.resolve().name
    pins = {one["name"]: one for one in client.call("model.ls", Nothing())["models"]}
    if wanted not in pins:
        raise UsageError("KV-MOD-004", f"no model is pinned as {wanted}", fix="kvctl model pin PATH, or give --name")
    kept = pins[wanted]
    found = models.compare(path, kept)
    document = {"schema": "kvctl.model.validate/1", "name": wanted, "path": str(path), "differences": found}
    show(document, found, DIFFERENCES, form, f"{wanted} is what was pinned on {kept['pinned_at']}")
    return int(ExitCode.CHECK_FAILED if found else ExitCode.OK)


@command.command("ls")
@click.option("--catalogue", "known", is_flag=True, help="Open-weight families and what a token of their KV takes.")
@click.option(
    "--kv-dtype", type=click.Choice(["bfloat16", "float16", "float32", "fp8"]), default="bfloat16", show_default=True,
    help="For the catalogue.",
)  # fmt: skip
@inventory_option
@output_option()
def ls(known: bool, kv_dtype: str, inventory: str | None, fmt: str | None) -> None:
    """The pinned models, or the catalogue."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if known:
        return families(kv_dtype, form)
    document = client.call("model.ls", Nothing())
    show(document, [{key: text(one[key]) for key in PINS} for one in document["models"]], PINS, form, "none is pinned")
    return None


def families(kv_dtype: str, form: str) -> None:
    found = models.families(kv_dtype)
    document = {"schema": "kvctl.model.catalogue/1", "kv_dtype": kv_dtype, "families": found}
    rows = [{**one, "run_with": text(list(one["run_with"]))} for one in found]
    show(document, rows, FAMILIES, form, "")


def text(value: Any) -> Any:
    """A list as one cell; nothing as a dash; a digest by its first digits."""
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ", ".join(value)
    return value[:19] if isinstance(value, str) and value.startswith("sha256:") else value
