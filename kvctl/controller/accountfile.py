"""The file of secrets of local accounts: passwords, one-time links, authenticators. What they may is in the books."""

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.types.errors import KvctlError

FILE = "accounts.json"
MAX_BYTES = 16 << 20
LINK_SECONDS = 24 * 3600
LINK_BYTES = 32
lock = threading.RLock()  # of the file, which the services and the sign-in change


class Secret(msgspec.Struct, forbid_unknown_fields=True):
    """Of one account. Times are Unix seconds."""

    password: str | None = None  # argon2id, as its encoded text
    link: str | None = None  # SHA-256 of the one-time link's token
    link_until: float = 0
    failures: int = 0  # wrong passwords since the last right one
    closed_until: float = 0  # no password is looked at before
    totp: str | None = None  # secret of the authenticator app; None: a password is enough
    totp_new: str | None = None  # one that was handed out and not confirmed by a code yet
    totp_step: int = 0  # of the newest code that was taken: none is taken twice
    recovery: list[str] = []  # SHA-256 of the recovery codes that are left

    def __repr__(self) -> str:
        return "Secret(...)"


class Secrets:
    """The file of secrets of accounts in a controller's directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def read(self) -> dict[str, Secret]:
        """KvctlError KV-API-070 for a file that cannot be read: nobody is let in by guess."""
        if not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(read_secret(self._path, MAX_BYTES), type=dict[str, Secret])
        except msgspec.DecodeError as error:
            raise KvctlError(
                "KV-API-070", "the accounts' passwords cannot be read", where=str(self._path), why=str(error),
                fix="restore the file, or remove it and make new links: kvctl account change NAME --new-link",
            ) from None  # fmt: skip

    @contextmanager
    def changing(self) -> Iterator[dict[str, Secret]]:
        """All of them, to be changed; written when the block ends well."""
        with lock:
            found = self.read()
            yield found
            write_secret(self._path, msgspec.json.format(msgspec.json.encode(found)) + b"\n")

    def new_link(self, name: str, *, now: float) -> str:
        """A token that sets the account's password once, within LINK_SECONDS. An older one is void."""
        token = secrets.token_urlsafe(LINK_BYTES)
        with self.changing() as found:
            entry = found.setdefault(name, Secret())
            entry.link, entry.link_until = digest(token), now + LINK_SECONDS
        return token

    def without_totp(self, name: str) -> None:
        """A password is enough from now on; recovery codes are void."""
        with self.changing() as found:
            entry = found.setdefault(name, Secret())
            entry.totp, entry.totp_new, entry.totp_step, entry.recovery = None, None, 0, []

    def without(self, name: str) -> None:
        """No password, link or authenticator: the account's owner signs in elsewhere from now on."""
        with self.changing() as found:
            found.pop(name, None)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
