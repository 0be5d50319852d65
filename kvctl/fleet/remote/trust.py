"""Enrol a node's host keys, once a person has compared the fingerprints."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from paramiko.ssh_exception import IncompatiblePeer

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.builtin import Watchdog, start
from kvctl.fleet.remote.dial import Deadline, dial
from kvctl.fleet.remote.hostkeys import HostKey, recorded
from kvctl.fleet.remote.paramiko_only import paramiko
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import UnreachableError

_KINDS = (("ssh-ed25519",), ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"), ("rsa-sha2-512",))


def scan(target: Target, *, timeout: float = 10.0) -> tuple[HostKey, ...]:
    """The host keys that the node proves to own, one a kind; nothing is trusted or written by it."""
    deadline = Deadline.after(timeout)
    found = tuple(key for kinds in _KINDS if (key := _offered(target, kinds, deadline)) is not None)
    if not found:
        raise failures.unreachable(target, "it offers no ed25519, ecdsa or rsa host key")
    return found


def _offered(target: Target, kinds: tuple[str, ...], deadline: Deadline) -> HostKey | None:
    line = dial(target, deadline)
    dog = Watchdog(line, deadline)
    transport = None
    try:
        transport = start(target, line, deadline, kinds)
        key = transport.get_remote_server_key()
        return HostKey(key.get_name(), key.asbytes())
    except IncompatiblePeer:
        return None  # it has no key of this kind
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise _meaning(target, error, dog, deadline) from error
    finally:
        dog.stop()
        if transport is not None:
            transport.close()
        line.close()


def _meaning(target: Target, error: BaseException, dog: Watchdog, deadline: Deadline) -> UnreachableError:
    if dog.fired or deadline.over or isinstance(error, TimeoutError):
        return failures.timed_out(target, "the SSH handshake", deadline.seconds)
    return failures.unreachable(target, f"the connection broke during the SSH handshake: {error}")


def enrol(target: Target, keys: Iterable[HostKey]) -> tuple[HostKey, ...]:
    """Record keys that the caller's person has confirmed, in kvctl's known_hosts; returns those that are new.

    RefusedError KV-SSH-003 when the file already holds another key of the same kind: that is a changed host, which
    no verb of kvctl overwrites.
    """
    path = Path(target.known_hosts[0])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        added = _new_keys(target, tuple(keys), str(path))
        if added:
            lead = b"" if _ends_line(fd) else b"\n"
            text = "".join(f"{target.key_name} {key.text}\n" for key in added)
            os.write(fd, lead + text.encode())
            os.fsync(fd)
        return added
    finally:
        os.close(fd)


def _new_keys(target: Target, keys: tuple[HostKey, ...], path: str) -> tuple[HostKey, ...]:
    known = recorded(target.known_hosts, target.key_name)
    by_type = {key.type: key for key in known}
    for key in keys:
        old = by_type.get(key.type)
        if old is not None and old != key and key not in known:
            raise failures.key_conflict(target, f"{key.type} {key.fingerprint}", f"{old.type} {old.fingerprint}", path)
    return tuple(key for key in keys if key not in known)


def _ends_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"
