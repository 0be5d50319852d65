"""Which directories were mounts of this store before: an empty one among them is a drive that is not mounted."""

import json
import os
from pathlib import Path

from kvctl.store.files import sync
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
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = _file(state).with_suffix(".new")
    with draft.open("w") as target:
        json.dump(sorted(paths), target)
        target.flush()
        os.fsync(target.fileno())
    draft.rename(_file(state))
    sync(state)


def _file(state: Path) -> Path:
    return state / "mounts.json"
