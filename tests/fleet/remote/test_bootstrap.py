"""First access, on an sshd whose /etc and /home are this test's own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.bootstrap import Bootstrapped, bootstrap
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, UsageError

from .conftest import SSHD, keygen, run_sshd


@dataclass
class Bare:
    """A node with a user `ops` that has neither a key nor sudo rights. `etc` and `home` are the node's."""

    root: Target
    etc: Path
    home: Path

    @property
    def ops(self) -> Target:
        return replace(self.root, user="ops")


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    if SSHD is None or os.getuid() != 0 or shutil.which("visudo", path="/usr/sbin:/sbin") is None:
        pytest.skip("needs root, sshd and visudo: run as root with openssh-server and sudo installed")
    etc, home = tmp_path / "etc", tmp_path / "home"
    shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("alternatives", "ssl", "*.lock"))
    home.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    wrapper = tmp_path / "bind"
    wrapper.write_text(f'#!/bin/sh\nmount --bind {etc} /etc && mount --bind {home} /home && exec "$@"\n')
    wrapper.chmod(0o755)
    enter = ["unshare", "--mount", str(wrapper)]
    subprocess.run([*enter, "useradd", "-m", "-p", "*", "-s", "/bin/sh", "ops"], check=True, capture_output=True)
    with run_sshd(
        tmp_path / "sshd",
        f"AuthorizedKeysFile .ssh/authorized_keys {tmp_path / 'sshd' / 'authorized_keys'}",
        prefix=enter,
    ) as server:
        (home / "ops").chmod(0o755)
        target = server.target(tmp_path / "state")
        yield Bare(replace(target, user="root"), etc, home)


def test_key_and_sudo_are_installed_once(bare: Bare, tmp_path: Path) -> None:
    public = keygen(tmp_path / "new").with_suffix(".pub").read_text()
    way = bare.root
    assert bootstrap(bare.ops, public, login=way) == Bootstrapped(key_added=True, sudo_added=True)
    assert bootstrap(bare.ops, public, login=way) == Bootstrapped(key_added=False, sudo_added=False)
    rule = bare.etc / "sudoers.d" / "kvctl-ops"
    assert rule.read_text() == "ops ALL=(ALL:ALL) NOPASSWD: ALL\n"
    assert rule.stat().st_mode & 0o777 == 0o440
    assert [path.name for path in rule.parent.iterdir() if path.name.startswith(".kvctl")] == []
    assert (bare.home / "ops/.ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    entered = replace(bare.ops, identity_files=(str(tmp_path / "new"),))
    with ssh.connect(entered, timeout=10) as session:
        result = session.run(ssh.as_root(entered, "id -u"), timeout=10)
    assert result.out == b"0\n", result


def test_sudo_without_a_rule_is_named(bare: Bare, tmp_path: Path) -> None:
    public = keygen(tmp_path / "new").with_suffix(".pub").read_text()
    bootstrap(bare.ops, public, login=bare.root)
    (bare.etc / "sudoers.d" / "kvctl-ops").unlink()
    entered = replace(bare.ops, identity_files=(str(tmp_path / "new"),))
    with pytest.raises(KvctlError) as caught:
        bootstrap(entered, public)
    assert caught.value.code == "KV-SSH-005"


@pytest.mark.parametrize("text", ["", "ssh-ed25519", "ssh-ed25519 AAAA\nssh-rsa BBBB", "-----BEGIN KEY-----"])
def test_what_is_no_public_key_is_refused(target: Target, text: str) -> None:
    with pytest.raises(UsageError):
        bootstrap(target, text)
