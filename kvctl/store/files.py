"""Files whose bytes and names must last, or must be gone."""

import os
from pathlib import Path

WIPE_BYTES = 1 << 20


def overwrite(file: Path) -> None:
    """Write zeros over a whole file, on the medium: what was deleted within it is not left to be found."""
    with file.open("r+b") as target:
        left = os.fstat(target.fileno()).st_size
        zeros = bytes(WIPE_BYTES)
        while left > 0:
            left -= target.write(zeros[: min(left, len(zeros))])
        target.flush()
        os.fsync(target.fileno())


def sync(path: Path) -> None:
    """Make a file's bytes, or the renames and removals in a directory, survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(file: Path, data: bytes) -> None:
    """Put a file in place so that a crash leaves the old one or the new one, and the new one once this returns.

    Makes its directory (mode 0700). Raises OSError.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as target:
        target.write(data)
        target.flush()
        os.fsync(target.fileno())
    draft.rename(file)
    sync(file.parent)
