"""What a user's SSH configuration and an inventory make of a node."""

import subprocess
from pathlib import Path

import pytest

from kvctl.fleet.inventory.model import Access, Inventory, Node, Role, Site
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import UsageError

from .conftest import keygen


def inventory(ssh_config: Path | None, *, address: str = "alias", **node: object) -> Inventory:
    return Inventory(
        site=Site(name="test"),
        access=Access(ssh_config=str(ssh_config) if ssh_config else ""),
        roles={"s": Role(kind="storage")},
        nodes=(Node.model_validate({"name": "n1", "address": address, "role": "s", **node}),),
    )


def made(tmp_path: Path, text: str, **node: object) -> Target:
    config = tmp_path / "user_config"
    config.write_text(text)
    return resolve(inventory(config, **node), tmp_path / "state")["n1"]


def effective(target: Target) -> dict[str, str]:
    """What OpenSSH itself reads from the rendered file."""
    done = subprocess.run(["ssh", "-F", target.config, "-T", "-G", "n1"], capture_output=True, text=True, check=True)
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}


def test_users_configuration_is_followed(tmp_path: Path) -> None:
    target = made(tmp_path, "Host alias\n  HostName 192.0.2.7\n  Port 2222\n  User ops\n")
    assert (target.host, target.port, target.user) == ("192.0.2.7", 2222, "ops")
    assert target.key_name == "[192.0.2.7]:2222"
    seen = effective(target)
    assert (seen["hostname"], seen["port"], seen["user"]) == ("192.0.2.7", "2222", "ops")


def test_inventory_wins_when_it_says_so(tmp_path: Path) -> None:
    target = made(tmp_path, "Host alias\n  HostName 192.0.2.7\n  Port 2222\n  User ops\n", port=22, user="root")
    assert (target.port, target.user) == (22, "root")


def test_root_is_the_default_when_neither_says(tmp_path: Path) -> None:
    assert made(tmp_path, "").user == "root"


@pytest.mark.parametrize("asked", ["no", "accept-new", "ask"])
def test_host_keys_are_strict_whatever_the_user_wrote(tmp_path: Path, asked: str) -> None:
    text = f"Host *\n  StrictHostKeyChecking {asked}\n  UserKnownHostsFile /dev/null\n  ForwardAgent yes\n"
    seen = effective(made(tmp_path, text))
    assert seen["stricthostkeychecking"] == "true"
    assert seen["batchmode"] == "yes"
    assert seen["forwardagent"] == "no"
    assert seen["controlmaster"] == "false"
    assert seen["userknownhostsfile"].startswith(str(tmp_path / "state"))


def test_users_known_hosts_count_and_kvctls_own_comes_first(tmp_path: Path) -> None:
    target = made(tmp_path, "Host *\n  UserKnownHostsFile ~/one /two\n")
    assert target.known_hosts[:3] == (str(tmp_path / "state/ssh/known_hosts"), str(Path.home() / "one"), "/two")


def test_identity_file_of_the_inventory_is_the_only_key(tmp_path: Path) -> None:
    key = keygen(tmp_path / "a key")
    base = inventory(None, address="192.0.2.1")
    access = Access(identity_file=str(key))
    target = resolve(base.model_copy(update={"access": access}), tmp_path / "state")["n1"]
    assert target.identity_files == (str(key),)
    assert not target.use_agent
    assert effective(target)["identitiesonly"] == "yes"


def test_missing_identity_file_is_an_error(tmp_path: Path) -> None:
    base = inventory(None).model_copy(update={"access": Access(identity_file=str(tmp_path / "none"))})
    with pytest.raises(UsageError) as caught:
        resolve(base, tmp_path / "state")
    assert caught.value.code == "KV-SSH-011"


def test_proxy_tokens_are_filled_in(tmp_path: Path) -> None:
    target = made(tmp_path, "Host alias\n  HostName 192.0.2.7\n  Port 24\n  ProxyCommand nc -X %% %h %p %r %n\n")
    assert target.proxy_command == "nc -X % 192.0.2.7 24 root alias"


def test_chain_of_jumps(tmp_path: Path) -> None:
    target = made(tmp_path, "Host alias\n  HostName 192.0.2.7\n  ProxyJump me@a:2200,b\n")
    assert "-J me@a:2200 " in target.proxy_command
    assert target.proxy_command.endswith("-W '[192.0.2.7]:22' -- b")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Host *\n  CertificateFile /etc/hostname\n", "certificatefile"),
        ("Host *\n  IdentityAgent /run/agent\n", "identityagent"),
        ("Host *\n  BindAddress 192.0.2.9\n", "bindaddress"),
        ("Host *\n  AddressFamily inet6\n", "addressfamily"),
    ],
)
def test_what_paramiko_cannot_do_goes_to_the_ssh_binary(tmp_path: Path, text: str, word: str) -> None:
    target = made(tmp_path, text)
    assert target.transport == "system"
    assert word in target.note
    assert word in effective(target) or word == "certificatefile"


def test_match_exec_needs_no_fallback(tmp_path: Path) -> None:
    target = made(tmp_path, 'Match exec "true"\n  Port 2022\n')
    assert (target.port, target.transport, target.note) == (2022, "paramiko", "")


def test_revoked_line_goes_to_the_ssh_binary(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("@revoked * ssh-ed25519 AAAA\n")
    target = made(tmp_path, f"Host *\n  UserKnownHostsFile {known}\n")
    assert target.transport == "system"
    assert "@revoked" in target.note


def test_bracketed_address_is_the_plain_one(tmp_path: Path) -> None:
    assert resolve(inventory(None, address="[2001:db8::1]"), tmp_path / "state")["n1"].host == "2001:db8::1"


def test_broken_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        made(tmp_path, "Host alias\n  Prot 22\n")
    assert "Prot" in caught.value.why or "prot" in caught.value.why


def test_rendered_file_is_private_and_stable(tmp_path: Path) -> None:
    one, two = made(tmp_path, "Host alias\n  Port 24\n"), made(tmp_path, "Host alias\n  Port 24\n")
    assert one.config == two.config
    assert Path(one.config).stat().st_mode & 0o777 == 0o600
