"""Documents that the controller pushes whole: each has a version, and is on disk before it is in force."""

from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta as Rule
from msgspec import Struct

from kvctl.store.files import write_whole
from kvctl.types.errors import KvctlError, RefusedError

Hex16 = Annotated[str, Rule(pattern="^[0-9a-f]{32}$")]
Text = Annotated[str, Rule(min_length=1, max_length=256)]


class Pushed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    version: Annotated[int, Rule(ge=0, le=2**53)] = 0  # 0: nothing was pushed yet


P = TypeVar("P", bound=Pushed)


def replaces(what: str, new: Pushed, old: Pushed) -> bool:
    """Whether a document is newer; False for the one in force, sent again. KV-STORE-024 for an older one."""
    if new.version > old.version:
        return True
    if new == old:
        return False
    raise RefusedError(
        "KV-STORE-024", f"the {what} that were sent are not newer than those in force",
        why=f"version {old.version} is in force, {new.version} was sent",
        fix="send the newest set with a higher version",
    )  # fmt: skip


def load(file: Path, kind: type[P]) -> P:
    """What `save` wrote, or an empty document. KvctlError KV-STORE-025 for a file that is none: nothing is guessed."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, msgspec.DecodeError) as bad:
        raise KvctlError(
            "KV-STORE-025", "what the controller pushed cannot be read back", where=str(file), why=str(bad),
            fix="restore the file, or remove it and push again before connectors come in",
        ) from bad  # fmt: skip


def save(file: Path, given: Pushed) -> None:
    """Raises KvctlError KV-STORE-049 when it cannot be kept: then nothing changes."""
    try:
        write_whole(file, msgspec.json.format(msgspec.json.encode(given)))
    except OSError as failed:
        raise KvctlError(
            "KV-STORE-049", "the store's state directory cannot be written", where=str(file.parent),
            why=failed.strerror or str(failed),
            fix="create it, owned by the user kvstored runs as, or name another with `state`",
        ) from failed  # fmt: skip
