"""The session that paramiko makes: one transport, strict host keys, a watchdog for the wall clock."""

import functools
import select
import socket
import threading
import time
from pathlib import Path
from typing import Self

from paramiko.ssh_exception import IncompatiblePeer, PasswordRequiredException

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline, Line, dial
from kvctl.fleet.remote.hostkeys import HostKey, recorded
from kvctl.fleet.remote.paramiko_only import paramiko
from kvctl.fleet.remote.result import OUTPUT_LIMIT, Result
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, UnreachableError

_KEX = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")
_CIPHERS = ("aes128-gcm@openssh.com", "aes128-ctr")
_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_KEEPALIVE = 15


class Watchdog:
    """Shuts the line's socket when the deadline passes or when told to: the one thing that ends every wait."""

    def __init__(self, line: Line, deadline: Deadline) -> None:
        self._line = line
        self.fired = False
        self._timer = threading.Timer(deadline.left(), self.fire)
        self._timer.daemon = True
        self._timer.start()

    def fire(self) -> None:
        self.fired = True
        shut(self._line)

    def stop(self) -> None:
        self._timer.cancel()


def shut(line: Line) -> None:
    try:
        line.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed by the other end


def start(target: Target, line: Line, deadline: Deadline, key_types: tuple[str, ...] = ()) -> paramiko.Transport:
    """Negotiate up to the point where the peer has proved its host key. Raises paramiko's exceptions."""
    transport = paramiko.Transport(line.sock)
    left = deadline.left()
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = left
    # types-paramiko lacks this attribute of Transport
    transport.channel_timeout = left  # type: ignore[attr-defined]
    options = transport.get_security_options()
    options.kex = tuple(dict.fromkeys((*_KEX, *options.kex)))
    options.ciphers = tuple(dict.fromkeys((*_CIPHERS, *options.ciphers)))
    if key_types:
        options.key_types = tuple(kind for kind in key_types if kind in options.key_types)
    transport.use_compression(False)
    transport.start_client(timeout=left)
    if not transport.initial_kex_done:
        raise TimeoutError("negotiation")
    return transport


def login(
    target: Target, deadline: Deadline, password: str | None, cancel: threading.Event | None = None
) -> "BuiltinSession":
    line = dial(target, deadline)
    dog = Watchdog(line, deadline)
    transport: paramiko.Transport | None = None
    doing = "the SSH handshake"
    try:
        known = recorded(target.known_hosts, target.key_name)
        transport = start(target, line, deadline, _preferred(known))
        offered = transport.get_remote_server_key()
        check_host_key(target, HostKey(offered.get_name(), offered.asbytes()), known)
        doing = "the login"
        _authenticate(target, transport, password)
        transport.set_keepalive(_KEEPALIVE)
    except KvctlError:
        _drop(transport, line)
        raise
    except (OSError, EOFError, paramiko.SSHException) as error:
        _drop(transport, line)
        raise _meaning(target, error, doing, dog, deadline, cancel) from error
    finally:
        dog.stop()
    return BuiltinSession(target, line, transport)


def check_host_key(target: Target, offered: HostKey, known: tuple[HostKey, ...]) -> None:
    if offered in known:
        return
    if not known:
        raise failures.host_key_unknown(target, target.known_hosts)
    texts = [f"{key.type} {key.fingerprint}" for key in known]
    raise failures.host_key_changed(target, f"{offered.type} {offered.fingerprint}", texts)


def _preferred(known: tuple[HostKey, ...]) -> tuple[str, ...]:
    """Ask first for the kinds of key that are recorded, as OpenSSH does."""
    first: list[str] = []
    for key in known:
        first += _RSA if key.type == "ssh-rsa" else (key.type,)
    usual = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", *_RSA)
    return tuple(dict.fromkeys((*first, *usual)))


def _meaning(
    target: Target,
    error: BaseException,
    doing: str,
    dog: Watchdog,
    deadline: Deadline,
    cancel: threading.Event | None,
) -> UnreachableError:
    if cancel is not None and cancel.is_set():
        return failures.unreachable(target, f"cancelled during {doing}")
    if dog.fired or deadline.over or isinstance(error, TimeoutError):
        return failures.timed_out(target, doing, deadline.seconds)
    if isinstance(error, IncompatiblePeer):
        return failures.unreachable(target, f"no common SSH algorithm: {error}")
    return failures.unreachable(target, f"the connection broke during {doing}: {error or type(error).__name__}")


def _authenticate(target: Target, transport: paramiko.Transport, password: str | None) -> None:
    tried: list[str] = []
    for path in target.identity_files:
        try:
            key = _load(path, Path(path).stat().st_mtime_ns)
        except PasswordRequiredException:
            tried.append(f"{path} (has a passphrase: load it into the agent)")
            continue
        except (OSError, paramiko.SSHException, ValueError, TypeError) as error:
            tried.append(f"{path} ({error})")
            continue
        if _offer(target, transport, key):
            return
        tried.append(path)
    if target.use_agent:
        agent = paramiko.Agent()
        try:
            for agent_key in agent.get_keys():
                if _offer(target, transport, agent_key):
                    return
                tried.append(f"agent key {agent_key.comment or agent_key.get_name()}")
        finally:
            agent.close()
    if password is not None:
        try:
            transport.auth_password(target.user, password)
        except paramiko.AuthenticationException:
            tried.append("the password")
        else:
            return
    raise failures.auth_refused(target, f"tried {', '.join(tried)}" if tried else "there is no key to offer")


def _offer(target: Target, transport: paramiko.Transport, key: paramiko.PKey) -> bool:
    try:
        more = transport.auth_publickey(target.user, key)
    except paramiko.AuthenticationException as error:
        if not transport.is_active():
            raise failures.auth_refused(target, f"it closed the connection: {error}") from error
        return False
    if more:
        raise failures.auth_refused(target, f"it also asks for {', '.join(more)}")
    return True


@functools.lru_cache(maxsize=16)
def _load(path: str, mtime: int) -> paramiko.PKey:
    key: paramiko.PKey = paramiko.PKey.from_path(path)
    certificate = Path(f"{path}-cert.pub")
    if certificate.is_file() and key.public_blob is None:
        key.load_certificate(str(certificate))
    return key


def _drop(transport: paramiko.Transport | None, line: Line) -> None:
    if transport is not None:
        transport.close()
    line.close()


class BuiltinSession:
    """A `Session` over one paramiko transport."""

    def __init__(self, target: Target, line: Line, transport: paramiko.Transport) -> None:
        self.target = target
        self._line = line
        self._transport = transport
        self._aborted = False

    def run(self, command: str, *, stdin: bytes = b"", timeout: float) -> Result:
        deadline = Deadline.after(timeout)
        dog = Watchdog(self._line, deadline)
        try:
            channel = self._channel(command, timeout)
            with channel:
                return _converse(self.target, channel, stdin, deadline)
        except KvctlError:
            raise
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._meaning(error, dog, deadline) from error
        finally:
            dog.stop()

    def open(self, command: str, *, timeout: float) -> "BuiltinStream":
        deadline = Deadline.after(timeout)
        dog = Watchdog(self._line, deadline)
        try:
            return BuiltinStream(self.target, self._channel(command, timeout))
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._meaning(error, dog, deadline) from error
        finally:
            dog.stop()

    def _channel(self, command: str, timeout: float) -> paramiko.Channel:
        channel = self._transport.open_session(timeout=timeout)
        channel.exec_command(command)
        return channel

    def _meaning(self, error: BaseException, dog: Watchdog, deadline: Deadline) -> UnreachableError:
        if self._aborted:
            return failures.unreachable(self.target, "the session was cut: the command was cancelled")
        return _meaning(self.target, error, "the command", dog, deadline, None)

    def abort(self) -> None:
        self._aborted = True
        shut(self._line)

    def close(self) -> None:
        _drop(self._transport, self._line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _converse(target: Target, channel: paramiko.Channel, stdin: bytes, deadline: Deadline) -> Result:
    """Feed stdin and drain both outputs at once, so that neither side can wait for the other."""
    out, err, pending = bytearray(), bytearray(), memoryview(stdin)
    fd = channel.fileno()
    if not pending:
        channel.shutdown_write()
    while True:
        moved = False
        ended = channel.eof_received or channel.closed  # before the outputs are drained, or the last is lost
        if pending and channel.send_ready():
            pending = pending[channel.send(bytes(pending[:32768])) :]
            moved = True
            if not pending:
                channel.shutdown_write()
        while channel.recv_ready():
            out += channel.recv(262144)
            moved = True
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(262144)
            moved = True
        if len(out) + len(err) > OUTPUT_LIMIT:
            raise failures.garbage(target, f"more than {OUTPUT_LIMIT // 1048576} MiB of output")
        if moved:
            continue
        if ended:
            break
        if deadline.over:
            raise TimeoutError("the command")
        select.select([fd], [], [], 0.02 if pending else min(5.0, deadline.left()))
    rc = channel.recv_exit_status()
    # -1 also stands for a command that a signal ended; then the connection is still there
    if rc == -1 and not channel.get_transport().is_active():
        raise EOFError("the connection ended before the command did")
    return Result(rc, bytes(out), bytes(err), time.time())


class BuiltinStream:
    """A `Stream` over a paramiko channel."""

    def __init__(self, target: Target, channel: paramiko.Channel) -> None:
        self._target = target
        self._channel = channel
        self._buffer = b""
        self._err = b""

    def readline(self, timeout: float) -> str:
        deadline = Deadline.after(timeout)
        while b"\n" not in self._buffer:
            self._channel.settimeout(max(0.01, deadline.left()))
            try:
                part = self._channel.recv(65536)
            except TimeoutError as error:
                raise failures.timed_out(self._target, "the command", timeout) from error
            if not part:
                line, self._buffer = self._buffer, b""
                return line.decode("utf-8", "replace")
            self._buffer += part
            if len(self._buffer) > 1048576:
                raise failures.garbage(self._target, "a line of more than 1 MiB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        self._channel.settimeout(5.0)
        self._channel.sendall(data)

    @property
    def alive(self) -> bool:
        transport = self._channel.get_transport()
        return not (self._channel.closed or self._channel.eof_received) and transport.is_active()

    def error_text(self) -> str:
        while self._channel.recv_stderr_ready():
            self._err += self._channel.recv_stderr(65536)
        return self._err.decode("utf-8", "replace")

    def close(self) -> None:
        self._channel.close()
