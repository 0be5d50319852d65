"""The roles' own code on the node: `ansible.module_utils.kvctl_*`, the same that the Ansible modules run.

The archive carries it under that name. In a checkout or an installed wheel it lies in the playbooks' folder.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

PACKAGE = "ansible.module_utils"


def load(name: str) -> Any:
    """The module `ansible.module_utils.NAME`."""
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("ansible"):
            raise
        extend()
        return importlib.import_module(f"{PACKAGE}.{name}")


def sources() -> tuple[Path, Path]:
    """Folders of the modules and of the parsers' package `tools`, in a checkout or a wheel."""
    package = Path(__file__).resolve().parents[2]
    candidates = (package.parent / "playbooks" / "module_utils", package / "data" / "playbooks" / "module_utils")
    for folder in candidates:
        if folder.is_dir():
            return folder, package / "fleet" / "probe"
    raise ModuleNotFoundError(f"the roles' code is neither in {candidates[0]} nor in {candidates[1]}")


def extend() -> None:
    """Make the folders part of the package; the package is made when Ansible itself is not installed."""
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        parent = sys.modules.setdefault("ansible", types.ModuleType("ansible"))
        parent.__path__ = []
        package = types.ModuleType(PACKAGE)
        package.__path__ = []
        sys.modules[PACKAGE] = package
    for folder in sources():
        if str(folder) not in package.__path__:
            package.__path__.append(str(folder))
