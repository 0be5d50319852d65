"""Read an inventory file. Whatever is in it, the outcome is a LoadedInventory or one error with every problem."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kvctl.fleet.inventory import schema
from kvctl.fleet.inventory.model import BUILT_IN_ROLES, Inventory
from kvctl.fleet.inventory.problems import (
    BAD_VALUE,
    MISSING_FILE,
    UNKNOWN_KEY,
    UNREADABLE,
    InventoryError,
    Problem,
    field_name,
    shorten,
)
from kvctl.fleet.inventory.references import find_broken
from kvctl.fleet.inventory.tree import MAX_BYTES, NULL, Path, Tree, read
from kvctl.types.errors import UsageError

# YAML 1.1 words for booleans; accepted where a boolean is expected, since every older YAML tool does.
BOOLEAN_WORDS = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}
AMBIGUOUS_NUMBER = re.compile(r"[-+]?(0[xob][0-9a-fA-F_]+|0[0-9]+|[0-9]+_[0-9_]*|[0-9]+(:[0-5]?[0-9])+)")
TEXT_WANTED = frozenset({"string_type", "literal_error", "enum", "date_type"})


@dataclass(frozen=True)
class LoadedInventory:
    inventory: Inventory
    path: FilePath
    sha256: str  # of the file's bytes
    lines: Mapping[Path, int]  # ("nodes", 0, "address") -> line, from 1

    def line(self, *path: str | int) -> int:
        """The line of a field, or of the nearest part around it that is written in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1


def load(path: FilePath) -> LoadedInventory:
    """Read and validate. Raises UsageError KV-INV-001 or 002 for the file, InventoryError for what is in it."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(
            MISSING_FILE, "there is no inventory here", where=str(path), fix="run: kvctl init, or give --inventory FILE"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            UNREADABLE, "the inventory cannot be read", where=str(path), why=why, fix="give a readable file"
        ) from error
    return _load(raw, str(path), path)


def load_text(text: str, name: str = "inventory.yaml") -> LoadedInventory:
    """Validate a text; `name` is what the errors call it. Raises InventoryError."""
    return _load(text.encode("utf-8", "surrogatepass"), name, FilePath(name))


def _load(raw: bytes, name: str, path: FilePath) -> LoadedInventory:
    tree = read(raw, name)
    inventory, problems = _validate(tree)
    problems += tree.problems
    if inventory is None or problems:
        raise InventoryError(name, problems)
    lines = {where: tree.keys.get(where, place)[0] for where, place in tree.values.items()}
    return LoadedInventory(inventory, path, hashlib.sha256(raw).hexdigest(), lines)


def _validate(tree: Tree) -> tuple[Inventory | None, list[Problem]]:
    """JSON mode is strict, yet takes a list for a tuple and a text for a date.

    Numbers and booleans where text belongs become the text that was written (NO, 28.10, off), then it is asked again.
    """
    while True:
        try:
            return Inventory.model_validate_json(json.dumps(tree.data)), []
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        changes = [_retype(tree, _path(tree, detail["loc"]), detail["type"]) for detail in details]
        if not any(changes):
            return None, _problems(tree, details)


def _path(tree: Tree, loc: Path) -> Path:
    """pydantic appends "[key]" when the key itself is refused."""
    return loc[:-1] if loc[-1:] == ("[key]",) and loc not in tree.values else loc


def _retype(tree: Tree, path: Path, error: str) -> bool:
    """Replace an unquoted scalar by what its field asks for; False when there is nothing to gain."""
    written, value = tree.plain.get(path), tree.at(path)
    if written is None or value is None:
        return False
    if error in TEXT_WANTED and not isinstance(value, str):
        tree.replace(path, written)
        return True
    if error.startswith("bool") and isinstance(value, str) and written.lower() in BOOLEAN_WORDS:
        tree.replace(path, BOOLEAN_WORDS[written.lower()])
        return True
    return False


def _problems(tree: Tree, details: Iterable[ErrorDetails]) -> list[Problem]:
    broken = list(find_broken(tree.data, BUILT_IN_ROLES))
    found = []
    for item in broken:
        first = f" (line {tree.place(item.first)[0]})" if item.first else ""
        place = tree.place(item.path)
        found.append(Problem(*place, field_name(item.path), item.code, item.problem + first, item.allowed))
    for detail in details:
        # The document's own check is find_broken again, without places.
        again = not detail["loc"] and broken
        # pydantic counts only the valid entries of a list; the others have errors of their own.
        counted = detail["type"] == "too_short" and tree.at(_path(tree, detail["loc"]))
        if not again and not counted:
            found.append(_explain(tree, detail))
    return found


def _explain(tree: Tree, detail: ErrorDetails) -> Problem:
    path, kind = _path(tree, detail["loc"]), detail["type"]
    name = field_name(path)
    if kind == "extra_forbidden":
        return Problem(*tree.key_place(path), name, UNKNOWN_KEY, *_unknown_key(path))
    if kind == "missing":
        allowed = schema.allowed(schema.part_at(path))
        return Problem(*tree.place(path), name, BAD_VALUE, "is required and missing", allowed)
    if detail["loc"] != path:
        return Problem(*tree.key_place(path), name, BAD_VALUE, "the name is not allowed", _group_name())
    if kind == "too_short":
        return Problem(*tree.place(path), name, BAD_VALUE, "is empty", "at least one entry")
    if kind == "value_error":
        return Problem(*tree.place(path), name, BAD_VALUE, shorten(str(detail["ctx"]["error"]), 200))
    return Problem(*tree.place(path), name, BAD_VALUE, _wrong(tree, path), schema.allowed(schema.part_at(path)))


def _group_name() -> str:
    return "lower case letters, digits, - and _, beginning with a letter"


def _unknown_key(path: Path) -> tuple[str, str]:
    keys = schema.keys_at(path[:-1])
    near = difflib.get_close_matches(str(path[-1]), keys, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key{hint}", ", ".join(keys)


def _wrong(tree: Tree, path: Path) -> str:
    """What stands there, and why it is not what it may look like."""
    value, written = tree.at(path), tree.plain.get(path)
    if path and path[-1] == "credentials":
        return "is not a reference to a secret"
    if isinstance(value, dict | list):
        return "is a mapping" if isinstance(value, dict) else "is a list"
    if value is None:
        if written in NULL - {"", None}:
            return f"{written} means no value"
        return "has no value; leave the key out or give one" if path else "the document has no value"
    shown = shorten(str(value) if written is None else written)
    if written is None:
        return f"{shown!r} (quoted, so text)" if _wants_number(path) else f"{shown!r}"
    if _wants_number(path) and AMBIGUOUS_NUMBER.fullmatch(written):
        return f"{shown} is read differently by different YAML tools; write a plain decimal number"
    return shown if isinstance(value, bool | int | float) else f"{shown!r}"


def _wants_number(path: Path) -> bool:
    part = schema.part_at(path)
    values = part.get("enum", [part.get("const")])
    return part.get("type") in ("integer", "number", "boolean") or all(isinstance(v, int) for v in values)
