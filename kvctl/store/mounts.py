"""Which directories were mounts of this store before: an empty one among them is a drive that is not mounted."""

import json
from pathlib import Path

from kvctl.store.files import write_whole
from kvctl.types.errors import KvctlError


def known(state: Path) -> set[str]:
    """Directories that were opened as mounts; empty when this store is new."""
    try:
        return set(json.loads(_file(state).read_bytes()))
    except FileNotFoundError:
        return set()


def remember(state: Path, paths: set[str]) -> None:
    """Write the directories down, beside those known."""
    before = known(state)
    if paths <= before:
        return
    try:
        _write(state, before | paths)
    except OSError as failed:
        raise KvctlError(
            "KV-STORE-049",
            "the store's state directory cannot be written",
            where=str(state),
            why=failed.strerror or str(failed),
            fix="create it, owned by the user kvstored runs as, or name another with `state`",
        ) from failed


def _write(state: Path, paths: set[str]) -> None:
    write_whole(_file(state), json.dumps(sorted(paths)).encode())


def _file(state: Path) -> Path:
    return state / "mounts.json"
