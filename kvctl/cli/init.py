"""`kvctl init`: write a starter inventory."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import click

from kvctl.cli.output import note
from kvctl.types.errors import UsageError

CODES = {
    "KV-INIT-001": "kvctl init was told no nodes and there is no terminal to ask at.",
    "KV-INIT-002": "kvctl init does not overwrite a file.",
    "KV-INIT-003": "A node given to kvctl init is not NAME=ADDRESS:ROLE, or makes no valid inventory.",
    "KV-INIT-004": "kvctl init cannot read or write a file.",
}
SPEC = re.compile(r"(?P<name>[^=\s]+)=(?:(?P<user>[^@\s]+)@)?(?P<address>\S+):(?P<role>[^:\s]+)")
RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
FORM = "NAME=[USER@]ADDRESS:ROLE, such as store1=10.0.0.11:storage"

HEAD = """\
# kvctl inventory. Every field: kvctl config schema, docs/inventory.md. Check this file: kvctl config validate
version: 1

site:
  name: {site}
  country: {country}  # ISO 3166-1 alpha-2 country of the hardware

# Roles `storage` and `gpu` exist without a definition. The role of a node is what is expected of it.
nodes:
"""
# Commented out with "# " so that taking that away leaves a valid file.
TAIL = """
# The lossless class; these are the defaults.
# fabric:
#   lossless_priority: 3
#   dscp: 26
#   cnp_dscp: 48
#   cnp_priority: 6
#   mtu: 9000

# What the nodes of a role must have. A definition replaces the built-in role of that name.
# roles:
#   storage:
#     kind: storage
#     nic:
#       firmware:
#         MT_0000000359: {version: 22.43.2026}  # by PSID
#     drives:
#       lba: 4096
#       exclude_serials: [BOOT-DRIVE-SERIAL]
#     rails:
#       - {interface: enp65s0f0np0}
#   gpu:
#     kind: gpu
#     rails:
#       - {interface: enp65s0f0np0, gpu: 0}

# Findings that you accept until a day.
# waivers:
#   - {check: nic.count, node: "*", reason: second card ordered, until: 2027-01-31}
"""


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NAME=ADDRESS:ROLE]...")
@click.option("--nodes", "file", type=click.Path(path_type=Path), metavar="FILE", help="Nodes, one a line; - is stdin.")
@click.option("--site", default="main", show_default=True, help="Short name of the site.")
@click.option("--country", default="ZZ", show_default=True, help="Two-letter country of the hardware; ZZ: not said.")
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), default=Path("inventory.yaml"), metavar="FILE"
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--dry-run", "--check", is_flag=True, help="Print the file to stdout and write nothing.")
def command(
    nodes: tuple[str, ...], file: Path | None, site: str, country: str, target: Path, force: bool, dry_run: bool
) -> None:
    """Write a starter inventory.

    \b
    Examples:
      kvctl init store1=10.0.0.11:storage gpu1=10.0.0.21:gpu
      kvctl init store1=admin@[fd00::11]:storage -o site-a.yaml
      kvctl init --nodes nodes.txt --site oslo --country NO

    With no nodes it asks for them, on a terminal only.
    """
    if not dry_run and not force and target.exists():
        raise _exists(target)
    specs = [*nodes, *(_read(file) if file else [])]
    if not specs:
        site, specs = _ask(site)
    text = render(site, country, specs)
    if dry_run:
        click.echo(text, nl=False)
        return
    _write(target, text, force)
    note(f"wrote {target} with {len(specs)} nodes; next: kvctl node trust, then kvctl check")


def render(site: str, country: str, specs: list[str]) -> str:
    """The file's text, proved valid. Raises UsageError KV-INIT-003."""
    from kvctl.fleet.inventory.load import load_text
    from kvctl.fleet.inventory.problems import InventoryError

    lines = [_node(spec) for spec in specs]
    text = HEAD.format(site=_quoted(site), country=_quoted(country)) + "".join(lines) + TAIL
    try:
        load_text(text, "inventory.yaml")
    except InventoryError as error:
        given = HEAD.count("\n")
        what = []
        for problem in error.problems:
            index = problem.line - 1 - given
            of = repr(specs[index]) if 0 <= index < len(specs) else problem.field
            what.append(f"{of}: {problem.problem}" + (f"; allowed: {problem.allowed}" if problem.allowed else ""))
        raise UsageError("KV-INIT-003", "\n  ".join(what), fix=f"give nodes as {FORM}") from error
    return text


def _node(spec: str) -> str:
    match = SPEC.fullmatch(spec)
    if match is None:
        raise UsageError("KV-INIT-003", f"{spec!r} is not a node", fix=f"give nodes as {FORM}")
    parts = match.groupdict()
    parts["address"] = re.sub(r"^\[(.*)\]$", r"\1", parts["address"])
    fields = ", ".join(f"{key}: {_quoted(parts[key])}" for key in ("name", "address", "role", "user") if parts[key])
    return f"  - {{{fields}}}\n"


def _quoted(text: str) -> str:
    """Plain when YAML of any version reads it as this text, else quoted."""
    plain = re.fullmatch(r"[a-z][a-z0-9._-]*|[0-9]+(\.[0-9]+){3}|[A-Z]{2}", text)
    return text if plain and text.lower() not in RESERVED else json.dumps(text)


def _read(file: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            "KV-INIT-004",
            "the list of nodes cannot be read",
            where=str(file),
            why=str(error),
            fix="give a readable text",
        ) from error
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    specs = [line for line in lines if line]
    if not specs:
        raise UsageError("KV-INIT-001", "the list of nodes is empty", where=str(file), fix=f"one a line: {FORM}")
    return specs


def _ask(site: str) -> tuple[str, list[str]]:
    if not sys.stdin.isatty():
        raise UsageError(
            "KV-INIT-001", "no nodes are given, and there is no terminal to ask at", fix=f"give {FORM}, or --nodes FILE"
        )
    site = click.prompt("Short name of the site", default=site, err=True)
    specs: list[str] = []
    note(f"Nodes, as {FORM}; an empty line ends.")
    while spec := click.prompt(f"Node {len(specs) + 1}", default="", show_default=False, err=True).strip():
        try:
            render(site, "ZZ", [*specs, spec])
            specs.append(spec)
        except UsageError as error:
            note(error.what)
    if not specs:
        raise UsageError("KV-INIT-001", "no nodes were given", fix=f"give {FORM}")
    return site, specs


def _exists(target: Path) -> UsageError:
    return UsageError(
        "KV-INIT-002", "the file exists", where=str(target), fix="give another name with -o, or --force to overwrite it"
    )


def _write(target: Path, text: str, force: bool) -> None:
    """All or nothing: a full disk leaves no half file, and a file that appeared meanwhile is not overwritten."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=".kvctl-", delete=False
        ) as new:
            temporary = Path(new.name)
            try:
                new.write(text)
                new.flush()
                os.fsync(new.fileno())
                temporary.chmod(0o644)
                if force:
                    temporary.replace(target)
                else:
                    os.link(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        raise UsageError(
            "KV-INIT-004",
            "the inventory cannot be written",
            where=str(target),
            why=str(error),
            fix="give -o another FILE",
        ) from error
