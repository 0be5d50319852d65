"""The key store: root keys of scopes and subject keys of tenants, each in a file of its own, wrapped by a master key.

A file is MAGIC, a nonce of 12 bytes and the AES-256-GCM sealed key (NIST SP 800-38D). Whose key it is goes in as
associated data: a file that is copied to another tenant's name opens nothing. docs/tenants.md says what destroying
a file proves and what it does not.
"""

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kvctl.connector.keys import ROOT_BYTES, RootKey
from kvctl.connector.pseudonym import pseudonym
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.govern.tenants import EPOCH, check_name
from kvctl.types.chunks import EPOCH_BYTES, Scope
from kvctl.types.errors import KvctlError, RefusedError

MAGIC = b"kvctl key 1\0"
NONCE_BYTES = 12
MASTER = "master.key"
ROOT, SUBJECT = "root", "subject"  # endings of files
ASIDE = "before-restore-"  # how directories beside the key store begin where a restore put what was there: with keys


class KeyStore:
    """Keys below one directory, for one process. Methods may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.RLock()
        self._owners: dict[bytes, str] | None = None  # digest of a key -> its tenant

    def create(self, tenant: str, domain: str) -> bytes:
        """A new epoch of a domain (EPOCH_BYTES). Its key is durable when this returns."""
        scope = Scope(check_name(tenant), check_name(domain, "trust domain"), secrets.token_bytes(EPOCH_BYTES))
        self._write(root_file(scope), tenant)
        return scope.epoch

    def root(self, scope: Scope) -> RootKey:
        """A scope's key. RefusedError KV-TEN-020 when it is not there, KvctlError KV-TEN-021 when it does not open."""
        return RootKey(scope, self._read(root_file(scope)))

    def fingerprint(self, scope: Scope) -> str:
        """What tells that two scopes have different keys, and nothing about either: 32 hexadecimal digits."""
        return _digest(self.root(scope).root)[:16].hex()

    def destroy(self, scope: Scope) -> str:
        """Destroy a scope's key. The text says what was done. OSError when it could not be; then ask again."""
        return self._destroy(root_file(scope))

    def create_subject(self, tenant: str) -> None:
        """The key behind a tenant's pseudonyms, unless it has one."""
        name = subject_file(check_name(tenant))
        with self._lock:
            if not (self.directory / name).exists():
                self._write(name, tenant)

    def subject_key(self, tenant: str) -> bytes:
        """ROOT_BYTES. Raises as `root` does."""
        return self._read(subject_file(check_name(tenant)))

    def subject_fingerprint(self, tenant: str) -> str:
        """The same of the key behind a tenant's pseudonyms."""
        return _digest(self.subject_key(tenant))[:16].hex()

    def destroy_subject(self, tenant: str) -> str:
        """Raises and answers as `destroy` does. From then on nobody can say whose a pseudonym was."""
        return self._destroy(subject_file(check_name(tenant)))

    def pseudonym(self, tenant: str, user: str) -> str:
        """What is kept of a user's id: 32 hexadecimal digits. ValueError for an id that is empty or too long."""
        return pseudonym(self.subject_key(tenant), user).hex()

    def scopes(self, tenant: str | None = None) -> list[Scope]:
        """Whose root keys are here, whether the books know of them or not."""
        found = []
        for name in self._files():
            owner, domain, epoch, ending = (*name.split("."), "", "", "")[:4]
            if ending == ROOT and tenant in (None, owner) and EPOCH.fullmatch(epoch):
                found.append(Scope(owner, domain, bytes.fromhex(epoch)))
        return sorted(found)

    def subjects(self) -> list[str]:
        """Tenants whose subject keys are here, whether the books know of them or not."""
        names = (name.split(".") for name in self._files())
        return sorted(parts[0] for parts in names if len(parts) == 2 and parts[1] == SUBJECT)

    def _files(self) -> Iterator[str]:
        if self.directory.is_dir():
            yield from (
                path.name for path in self.directory.iterdir() if path.name.endswith((f".{ROOT}", f".{SUBJECT}"))
            )

    def _write(self, name: str, tenant: str) -> None:
        key = secrets.token_bytes(ROOT_BYTES)
        with self._lock:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            owners = self._known_owners()
            if _digest(key) in owners:
                raise KvctlError(
                    "KV-TEN-022", "this machine's random numbers repeat: no key was made",
                    why=f"the new key of {tenant} is one of {owners[_digest(key)]}",
                    fix="do not run a controller on a machine whose random source is broken",
                )  # fmt: skip
            nonce = secrets.token_bytes(NONCE_BYTES)
            sealed = AESGCM(self._master(make=True)).encrypt(nonce, key, _bound_to(name))
            write_secret(self.directory / name, MAGIC + nonce + sealed)
            owners[_digest(key)] = tenant

    def _known_owners(self) -> dict[bytes, str]:
        if self._owners is None:
            self._owners = {_digest(self._read(name)): name.split(".")[0] for name in self._files()}
        return self._owners

    def _read(self, name: str) -> bytes:
        path = self.directory / name
        if not path.exists():
            raise RefusedError(
                "KV-TEN-020", "this key is not in the key store", where=str(path), why="it was destroyed, or lost",
                fix="kvctl tenant show says which; what it sealed cannot be read any more",
            )  # fmt: skip
        data = read_secret(path)
        nonce, sealed = data[len(MAGIC) :][:NONCE_BYTES], data[len(MAGIC) + NONCE_BYTES :]
        try:
            if not data.startswith(MAGIC):
                raise ValueError("it is no file of this key store")
            return AESGCM(self._master(make=False)).decrypt(nonce, sealed, _bound_to(name))
        except (InvalidTag, ValueError) as error:
            raise KvctlError(
                "KV-TEN-021", "a key cannot be unwrapped", where=str(path),
                why=str(error) or "it was changed, renamed, or wrapped by another master key",
                fix="restore the file and master.key from the same backup of the key store",
            ) from None  # fmt: skip

    def _master(self, *, make: bool) -> bytes:
        path = self.directory / MASTER
        with self._lock:
            if not path.exists():
                if not make or any(self._files()):
                    raise KvctlError(
                        "KV-TEN-023", "the key store has lost its master key", where=str(path),
                        why="a new one would open none of the keys that are there", fix="restore it from a backup",
                    )  # fmt: skip
                write_secret(path, secrets.token_bytes(ROOT_BYTES))
            return read_secret(path)

    def _destroy(self, name: str) -> str:
        with self._lock:
            # A creation that was cut off leaves its half-written file beside the place.
            paths = [self.directory / name, *self.directory.glob(f".{name}.*")]
            paths += self.directory.parent.glob(f"{ASIDE}*/{self.directory.name}/{name}")
            there = [path for path in paths if os.path.lexists(path)]
            done = [_overwrite(path) for path in there]
            for place in {path.parent for path in there}:
                _sync(place)
            self._owners = None
        if not done:
            return f"{name}: no such file was there any more; what an earlier attempt did is not known in detail"
        return f"{name}: {'; '.join(done)}; directory synced. {LIMITS_OF_PROOF}"


LIMITS_OF_PROOF = (
    "This shows that the controller has the key no longer. It does not show that the drive kept no older block (flash "
    "and copy-on-write file systems write elsewhere), that no backup of the key store has it, or that processes that "
    "had leased the key have left it before the lease's end."
)


def _overwrite(path: Path) -> str:
    if path.is_symlink():
        path.unlink()
        return "a symbolic link in its place was removed; what it led to was not touched"
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(descriptor).st_size
        os.write(descriptor, secrets.token_bytes(size))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.unlink()
    return f"{size} bytes overwritten with random ones and synced, file removed"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def root_file(scope: Scope) -> str:
    """The file of a scope's key, by its name."""
    check_name(scope.tenant)
    check_name(scope.domain, "trust domain")
    return f"{scope.tenant}.{scope.domain}.{scope.epoch.hex()}.{ROOT}"


def subject_file(tenant: str) -> str:
    return f"{tenant}.{SUBJECT}"


def _bound_to(name: str) -> bytes:
    """Names have no dots, so a file's name says one scope and no other."""
    return MAGIC + name.encode()


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(b"kvctl key digest 1\0" + key).digest()
