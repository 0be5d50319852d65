"""What a daemon needs on its node, as one archive named after its bytes: our rooms, and pinned wheels for its Python.

A node needs python3 and nothing else: no pip, no index, no compiler. The same sources and lock give the same archive.
"""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import kvctl
from kvctl.types.errors import KvctlError
from kvctl.types.resources import resource

# Who needs which of our rooms, and which lock says the rest.
ROOMS = {
    "engine": ("types", "connector", "sizing"),
    "store": ("types", "connector", "daemon", "sizing", "store"),
    "gateway": ("types", "connector", "daemon", "sizing", "gateway"),
}
# An engine's packages are in its own environment.
LOCKS = {"store": "requirements-store.lock", "gateway": "requirements-gateway.lock"}
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_34")
PIP_SECONDS = 600.0
FORM = 2  # of the archive: another one is another archive
WHOLE = "whole"  # the last file of the archive: where it is, all of it is


@dataclass(frozen=True, slots=True)
class Bundle:
    path: Path
    sha256: str

    @property
    def name(self) -> str:
        """The directory that it becomes on a node."""
        return self.path.name.removesuffix(".tar.gz")


def bundle(kind: str, python: str, arch: str, cache: Path, wheels: Path | None = None) -> Bundle:
    """The archive of a daemon for nodes with this Python ("3.13") and machine ("x86_64"), made once.

    `wheels`: a directory to take the wheels from instead of an index. KV-DEP-001 when they cannot be had.
    """
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = resource(LOCKS[kind]) if kind in LOCKS else None
    about = (FORM, kind, python, arch) if lock else (FORM, kind)
    recipe = hashlib.sha256(repr(about).encode() + (lock.read_bytes() if lock else b""))
    for name, data in sorted(own_files(ROOMS[kind]).items()):
        recipe.update(name.encode() + b"\0" + data)
    path = cache / f"{kind}-{kvctl.__version__}-{recipe.hexdigest()[:16]}.tar.gz"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            if lock:
                install(lock, python, arch, Path(scratch), wheels)
            write(path, Path(scratch), own_files(ROOMS[kind]))
    return Bundle(path, hashlib.sha256(path.read_bytes()).hexdigest())


def own_files(rooms: tuple[str, ...]) -> dict[str, bytes]:
    package = Path(kvctl.__file__).resolve().parent
    files = {"kvctl/__init__.py": (package / "__init__.py").read_bytes()}
    for room in rooms:
        for path in sorted((package / room).rglob("*.py")):
            files[f"kvctl/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    return files


def install(lock: Path, python: str, arch: str, target: Path, wheels: Path | None) -> None:
    """The lock's wheels for another Python than this one, checked by their hashes, unpacked into `target`."""
    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
        "--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={python}",
        *(f"--platform={platform}_{arch}" for platform in PLATFORMS), "--target", str(target), "-r", str(lock),
    ]  # fmt: skip
    if wheels is not None:
        argv += ["--no-index", f"--find-links={wheels}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    if done.returncode:
        raise KvctlError(
            "KV-DEP-001", f"the packages for Python {python} on {arch} cannot be had",
            why=" ".join(done.stderr.split())[-400:],
            fix="give this machine its package index, or --wheels DIR with them (pip download -r the lock)",
        )  # fmt: skip


def write(path: Path, root: Path, files: dict[str, bytes]) -> None:
    """A tar of sorted names without times and owners, renamed into place when it is whole."""
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if file.is_file() and "__pycache__" not in file.parts and not name.startswith("bin/"):
            files[name] = file.read_bytes()
    part = path.with_suffix(".part")
    with part.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            # Also directories: those that the archive does not name get what the node's umask leaves.
            for parent in sorted({str(one) for name in files for one in PurePosixPath(name).parents} - {"."}):
                folder = tarfile.TarInfo(parent)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(folder)
            for name in [*sorted(files), WHOLE]:
                member, data = tarfile.TarInfo(name), files.get(name, b"")
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
        packed.flush()
        os.fsync(raw.fileno())
    part.rename(path)
