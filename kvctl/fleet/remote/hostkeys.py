"""known_hosts files: which keys are recorded for a name (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostKey:
    """One public host key: its algorithm name and its blob (RFC 4253 section 6.6)."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode("ascii").rstrip("=")
        return f"SHA256:{digest}"

    @property
    def text(self) -> str:
        return f"{self.type} {base64.b64encode(self.blob).decode('ascii')}"


@dataclass(frozen=True, slots=True)
class _Line:
    names: tuple[str, ...]
    key: HostKey


@dataclass(frozen=True, slots=True)
class _File:
    lines: tuple[_Line, ...]
    markers: bool


def key_name(host: str, port: int) -> str:
    """How OpenSSH writes a host in known_hosts."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def recorded(files: Iterable[str], name: str) -> tuple[HostKey, ...]:
    """Every key recorded for `name`, in the files' order. A file that does not exist holds no key."""
    return tuple(line.key for path in files for line in _read(path).lines if _matches(line.names, name))


def has_markers(files: Iterable[str]) -> bool:
    """True when a file has @revoked or @cert-authority lines, which only OpenSSH itself honours here."""
    return any(_read(path).markers for path in files)


def _read(path: str) -> _File:
    try:
        stat = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return _File((), False)
    return _parse(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _parse(path: str, mtime: int, size: int) -> _File:
    lines: list[_Line] = []
    markers = False
    for text in Path(path).read_text("utf-8", errors="replace").splitlines():
        fields = text.split()
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0].startswith("@"):
            markers = True
            continue
        if len(fields) < 3:
            continue
        try:
            blob = base64.b64decode(fields[2], validate=True)
        except binascii.Error:
            continue  # OpenSSH, too, passes over a line that it cannot read
        lines.append(_Line(tuple(fields[0].split(",")), HostKey(fields[1], blob)))
    return _File(tuple(lines), markers)


def _matches(names: tuple[str, ...], name: str) -> bool:
    found = False
    for pattern in names:
        if pattern.startswith("|1|"):
            found = found or _hashed(pattern, name)
        elif pattern.startswith("!"):
            if fnmatchcase(name, _glob(pattern[1:])):
                return False
        elif fnmatchcase(name, _glob(pattern)):
            found = True
    return found


def _glob(pattern: str) -> str:
    # known_hosts knows * and ? alone; a bracket there is the [host]:port form
    return pattern.lower().replace("[", "[[]")


def _hashed(pattern: str, name: str) -> bool:
    parts = pattern.split("|")
    if len(parts) != 4:
        return False
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
