"""Enrolment shows what ssh-keygen shows, and never replaces a key."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.remote import ssh, trust
from kvctl.fleet.remote.hostkeys import HostKey
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, RefusedError

from .conftest import Sshd, run_sshd


def fresh(target: Target, tmp_path: Path) -> Target:
    return replace(target, known_hosts=(str(tmp_path / "own" / "known_hosts"),))


def test_scan_shows_the_fingerprint_and_writes_nothing(sshd: Sshd, target: Target, tmp_path: Path) -> None:
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(sshd.directory / "host_key.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    unknown = fresh(target, tmp_path)
    (key,) = trust.scan(unknown)
    assert (key.type, key.fingerprint) == ("ssh-ed25519", shown)
    assert not Path(unknown.known_hosts[0]).exists()


def test_enrolled_node_can_be_entered_and_enrolling_again_adds_nothing(target: Target, tmp_path: Path) -> None:
    unknown = fresh(target, tmp_path)
    keys = trust.scan(unknown)
    assert trust.enrol(unknown, keys) == keys
    assert trust.enrol(unknown, keys) == ()
    path = Path(unknown.known_hosts[0])
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().splitlines()) == 1
    with ssh.connect(unknown, timeout=10) as session:
        assert session.run("echo in", timeout=10).out == b"in\n"


def test_other_key_is_refused_and_the_file_stays(target: Target, tmp_path: Path) -> None:
    unknown = fresh(target, tmp_path)
    trust.enrol(unknown, trust.scan(unknown))
    before = Path(unknown.known_hosts[0]).read_bytes()
    with pytest.raises(RefusedError) as caught:
        trust.enrol(unknown, [HostKey("ssh-ed25519", b"another")])
    assert caught.value.code == "KV-SSH-003"
    assert Path(unknown.known_hosts[0]).read_bytes() == before


def test_line_without_newline_is_not_joined(target: Target, tmp_path: Path) -> None:
    unknown = fresh(target, tmp_path)
    path = Path(unknown.known_hosts[0])
    path.parent.mkdir()
    path.write_text("# mine")
    trust.enrol(unknown, trust.scan(unknown))
    assert path.read_text().splitlines()[0] == "# mine"


def test_all_kinds_of_key_are_shown(tmp_path: Path, sshd: Sshd) -> None:
    more = tmp_path / "more"
    more.mkdir()
    for kind in ("rsa", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(more / kind)], check=True)
    with run_sshd(tmp_path / "server", f"HostKey {more / 'rsa'}", f"HostKey {more / 'ecdsa'}") as server:
        target = server.target(tmp_path / "state")
        assert {key.type for key in trust.scan(target)} == {"ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"}


def test_hung_peer_ends_the_scan(hung: Callable[..., Target]) -> None:
    with pytest.raises(KvctlError) as caught:
        trust.scan(hung(), timeout=1)
    assert caught.value.code in ("KV-SSH-007", "KV-SSH-001")
