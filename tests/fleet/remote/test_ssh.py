"""Sessions against a real sshd, and against peers that misbehave."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError

from .conftest import Sshd, free_port, keygen, run_sshd

BOTH = pytest.mark.parametrize("transport", ["paramiko", "system"])


def over(sshd: Sshd, tmp_path: Path, transport: str) -> Target:
    return sshd.target(tmp_path / "state", transport=transport)


def failure(target: Target, timeout: float = 10) -> KvctlError:
    with pytest.raises(KvctlError) as caught, ssh.connect(target, timeout=timeout) as session:
        session.run("true", timeout=timeout)
    return caught.value


@BOTH
def test_command_gives_status_and_both_outputs(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    with ssh.connect(over(sshd, tmp_path, transport), timeout=10) as session:
        result = session.run("cat; echo no >&2; exit 7", stdin=b"\x00in\xff", timeout=10)
    assert (result.rc, result.out, result.err) == (7, b"\x00in\xff", b"no\n")


@BOTH
def test_large_input_and_output_do_not_wait_for_each_other(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    data = bytes(range(256)) * 32768
    with ssh.connect(over(sshd, tmp_path, transport), timeout=10) as session:
        assert session.run("cat", stdin=data, timeout=60).out == data


@BOTH
def test_hanging_command_ends_at_its_deadline(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    begun = time.monotonic()
    with ssh.connect(over(sshd, tmp_path, transport), timeout=10) as session, pytest.raises(KvctlError) as caught:
        session.run("exec sleep 3", timeout=0.7)
    assert caught.value.code == "KV-SSH-007"
    assert time.monotonic() - begun < 5


@BOTH
def test_flood_is_cut_at_the_limit(sshd: Sshd, tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("builtin", "system"):
        monkeypatch.setattr(f"kvctl.fleet.remote.{module}.OUTPUT_LIMIT", 4 * 1048576)
    with ssh.connect(over(sshd, tmp_path, transport), timeout=10) as session, pytest.raises(KvctlError) as caught:
        session.run("exec cat /dev/zero", timeout=60)
    assert caught.value.code == "KV-SSH-008"
    assert "4 MiB" in caught.value.why


@BOTH
def test_abort_from_another_thread_ends_the_command(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    with ssh.connect(over(sshd, tmp_path, transport), timeout=10) as session:
        timer = threading.Timer(0.5, session.abort)
        timer.start()
        with pytest.raises(KvctlError) as caught:
            session.run("exec sleep 3", timeout=30)
    assert "cancelled" in caught.value.why


@BOTH
def test_unknown_host_key_names_the_command_that_enrols_it(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    error = failure(sshd.target(tmp_path / "state", known_hosts=str(empty), transport=transport))
    assert error.code == "KV-SSH-002"
    assert error.fix == "kvctl node trust n1"


@BOTH
def test_changed_host_key_is_refused(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text().split()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {other[0]} {other[1]}\n")
    error = failure(sshd.target(tmp_path / "state", known_hosts=str(known), transport=transport))
    assert error.code == "KV-SSH-003"
    assert "SHA256:" in error.why
    assert "console" in error.fix


@BOTH
def test_key_that_the_node_does_not_know(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    stranger = keygen(tmp_path / "stranger")
    error = failure(sshd.target(tmp_path / "state", identity_file=str(stranger), transport=transport))
    assert error.code == "KV-SSH-004"
    assert "bootstrap" in error.fix


@BOTH
def test_refused_port_says_so(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    error = failure(gone := _at(sshd, tmp_path, transport, free_port()))
    assert error.code == "KV-SSH-001"
    assert "refused" in error.why
    assert str(gone.port) in error.why


def _at(sshd: Sshd, tmp_path: Path, transport: str, port: int) -> Target:
    moved = replace(sshd, port=port)
    return moved.target(tmp_path / "state", transport=transport)


def test_name_that_does_not_resolve(target: Target) -> None:
    error = failure(replace(target, host="no-such-host.invalid"))
    assert error.code == "KV-SSH-001"
    assert "does not resolve" in error.why


@pytest.mark.parametrize(
    "greeting",
    [b"", b"SSH-2.0-OpenSSH_9.9\r\n", b"SSH-2.0-x\r\n\x00\x00\x00\x0c", b"x" * 200],
    ids=["silent", "banner", "stub", "noise"],
)
def test_peer_that_stops_answering_does_not_hang(hung: Callable[..., Target], greeting: bytes) -> None:
    begun = time.monotonic()
    error = failure(hung(greeting), timeout=1.0)
    assert error.code in ("KV-SSH-007", "KV-SSH-001")
    assert time.monotonic() - begun < 5


def test_peer_that_is_no_sshd_is_no_timeout(hung: Callable[..., Target]) -> None:
    begun = time.monotonic()
    error = failure(hung(b"HTTP/1.0 400 Bad Request\r\n" * 200), timeout=20)
    assert error.code == "KV-SSH-001"
    assert time.monotonic() - begun < 15


def test_proxy_command_reaches_the_node(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f'Host 127.0.0.1\n  ProxyCommand {_python()} -c "{_PIPE}" %h {sshd.port}\n',
    )
    inventory = sshd.target(tmp_path / "state", ssh_config=str(config))
    moved = replace(inventory, port=1)  # only the proxy knows the right port
    moved = replace(moved, key_name=inventory.key_name)
    with ssh.connect(moved, timeout=10) as session:
        assert session.run("echo through", timeout=10).out == b"through\n"


def test_proxy_jump_goes_through_another_sshd(sshd: Sshd, tmp_path: Path) -> None:
    with run_sshd(tmp_path / "jump") as jump:
        config = tmp_path / "config"
        config.write_text(
            f"Host jumphost\n  HostName 127.0.0.1\n  Port {jump.port}\n  IdentityFile {jump.identity}\n"
            f"Host 127.0.0.1\n  ProxyJump jumphost\n"
        )
        known = tmp_path / "known"
        known.write_text(sshd.known_hosts.read_text() + jump.known_hosts.read_text())
        target = sshd.target(tmp_path / "state", ssh_config=str(config), known_hosts=str(known))
        assert "-W" in target.proxy_command
        for transport in ("paramiko", "system"):
            with ssh.connect(replace(target, transport=transport), timeout=20) as session:
                assert session.run("echo $SSH_CONNECTION", timeout=10).rc == 0


def _python() -> str:
    import sys

    return sys.executable


_PIPE = (
    "import os,socket,sys,threading;s=socket.create_connection((sys.argv[1],int(sys.argv[2])));"
    "threading.Thread(target=lambda:[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')],daemon=True).start();"
    "[s.sendall(d) for d in iter(lambda:os.read(0,65536),b'')]"
)


def test_sudo_that_asks_for_a_password_is_named(target: Target) -> None:
    plain = replace(target, user="ops")
    texts = [b"sudo: a password is required\n", b"sudo: a terminal is required to read the password; ...\n"]
    for text in texts + [b"ops is not in the sudoers file.\n"]:
        assert ssh.explain(plain, "the probe", ssh.Result(1, b"", text)).code == "KV-SSH-005"


@pytest.mark.parametrize(
    ("rc", "err", "code"),
    [
        (127, b"sh: 1: python3: not found\n", "KV-SSH-006"),
        (1, b"kvctl: python 3.9 or newer is needed, this is 3.6\n", "KV-SSH-006"),
        (1, b"OSError: [Errno 28] No space left on device\n", "KV-SSH-009"),
        (1, b"SyntaxError: future feature annotations is not defined\n", "KV-SSH-006"),
        (3, b"whatever\n", "KV-SSH-012"),
    ],
)
def test_failed_command_is_explained(target: Target, rc: int, err: bytes, code: str) -> None:
    assert ssh.explain(target, "the probe", ssh.Result(rc, b"", err)).code == code
