"""What the fields of a daemon's configuration may be, and what msgspec's sentences about a wrong one mean."""

import os
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta as Rule
from msgspec import Struct

from kvctl.daemon.document import Path

SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGTP]i?B|B|)")
SCALE = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
ANY_KEY = "..."  # how msgspec writes a key that the user chose


class Size(int):
    """Bytes. Written 8GiB, 3.5TiB, 500GB (powers of 1000) or as a plain number."""

    @classmethod
    def parse(cls, text: str) -> "Size":
        match = SIZE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} is not a size such as 8GiB, 500GB or 1048576")
        base = 1024 if "i" in match[2] else 1000
        value = Decimal(match[1]) * base ** SCALE[match[2][:1]]
        if value != int(value):
            raise ValueError(f"{text} is not a whole number of bytes")
        return cls(int(value))


class PublicKey(bytes):
    """An Ed25519 public key, 32 bytes; written as 64 hexadecimal digits."""

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        if HEX_KEY.fullmatch(text) is None:
            raise ValueError("a public key is 64 hexadecimal digits")
        return cls(bytes.fromhex(text))


class Endpoint(str):
    """`tcp:ADDRESS:PORT` (an IPv6 address in brackets) or `unix:/PATH`."""

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        kind, _, rest = text.partition(":")
        if kind == "unix" and rest.startswith("/") and len(os.fsencode(rest)) < 108:
            return cls(text)
        host, _, port = rest.rpartition(":")
        if kind == "tcp" and host.strip("[]") and port.isascii() and port.isdigit() and int(port) < 65536:
            return cls(text)
        raise ValueError(f"{text[:80]!r} is neither tcp:ADDRESS:PORT nor unix:/PATH (107 bytes at most)")

    @property
    def path(self) -> str | None:
        """The socket's path; None for TCP."""
        return self[5:] if self.startswith("unix:") else None

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) of a TCP endpoint."""
        host, _, port = self[4:].rpartition(":")
        return host.strip("[]"), int(port)


Name = Annotated[str, Rule(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
FileName = Annotated[str, Rule(pattern="^/", max_length=4096)]
Count = Annotated[int, Rule(ge=1, le=1 << 20)]
Seconds = Annotated[float, Rule(gt=0, le=3600)]
Share = Annotated[float, Rule(gt=0, le=1)]


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every mapping of the file: immutable, and a key it does not know is an error."""


CUSTOM: tuple[type[Size] | type[PublicKey] | type[Endpoint], ...] = (Size, PublicKey, Endpoint)


def custom(kind: type[Any], value: Any) -> Any:
    """For msgspec.convert: a text of the file to a Size, PublicKey or Endpoint. ValueError when it is none."""
    if kind not in CUSTOM:
        raise NotImplementedError(kind)
    if not isinstance(value, str):
        raise ValueError(f"Expected a text, got {'nothing' if value is None else 'a list or a mapping'}")
    return kind.parse(value)


def place(text: str) -> tuple[Path, str]:
    """msgspec's sentence about a wrong document: the field's path, with ANY_KEY in it, and why."""
    why, _, where = text.partition(" - at `$")
    return tuple(_steps(where.rstrip("`"))), why


def unknown_field(why: str) -> str | None:
    """The key that msgspec did not expect; None when the sentence is about something else."""
    found = re.match(r"Object contains unknown field `(.*)`", why)
    return found[1] if found else None


def _steps(text: str) -> Iterator[str | int]:
    """`.tiers.flash.mounts[0].path`"""
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]+)\]", text):
        yield int(index) if index.isdigit() else name or index


def field_name(path: Path) -> str:
    """tiers.flash.mounts[0].path"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
