"""Which site an inventory file is, without reading it: so that `kvctl status` starts at once.

An entry holds only while the file's size and modification time are those it had when it was loaded.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def remember(state_dir: Path, inventory: Path, site: str) -> None:
    """Note the site's name. A state directory that cannot be written is reported by whoever must write state."""
    entry = stamp(inventory) | {"site": site}
    known = entries(state_dir)
    key = str(inventory.resolve())
    if known.get(key) == entry:
        return
    known[key] = entry
    import tempfile  # only when something changed: status must start at once

    with contextlib.suppress(OSError):
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=state_dir, prefix=".inventories-")
        with os.fdopen(handle, "w") as file:
            json.dump(known, file)
        Path(name).replace(state_dir / "inventories.json")


def recall(state_dir: Path, inventory: Path) -> str | None:
    """The site's name, or None when the file changed since it was loaded or never was."""
    entry = entries(state_dir).get(str(inventory.resolve()))
    if entry is None:
        return None
    try:
        same = stamp(inventory).items() <= entry.items()
    except OSError:
        return None
    return str(entry["site"]) if same else None


def entries(state_dir: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads((state_dir / "inventories.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def stamp(inventory: Path) -> dict[str, Any]:
    info = inventory.stat()
    return {"size": info.st_size, "mtime_ns": info.st_mtime_ns}
