"""OpenSSH client configuration files that kvctl writes (ssh_config(5))."""

import getpass
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kvctl.fleet.remote import failures

if TYPE_CHECKING:
    from kvctl.fleet.remote.target import Target

_STRICT = """\
  StrictHostKeyChecking yes
  BatchMode yes
  CheckHostIP no
  UpdateHostKeys no
  VerifyHostKeyDNS no
  ControlMaster no
  ControlPath none
  ForwardAgent no
  ForwardX11 no
  PermitLocalCommand no
  ClearAllForwardings yes
  ServerAliveInterval 15
  ServerAliveCountMax 3
"""

# Settings of the user's own configuration that the rendered file keeps when they are not OpenSSH's defaults.
_KEPT = (
    "addressfamily",
    "bindaddress",
    "bindinterface",
    "certificatefile",
    "ciphers",
    "gssapiauthentication",
    "hostbasedauthentication",
    "hostkeyalgorithms",
    "identityagent",
    "kexalgorithms",
    "knownhostscommand",
    "macs",
    "pkcs11provider",
    "preferredauthentications",
    "proxyusefdpass",
    "pubkeyacceptedalgorithms",
    "requiredrsasize",
    "revokedhostkeys",
    "securitykeyprovider",
)


def wrapper(ssh_config: str) -> str:
    """What `ssh -G` reads: the user's configuration, or the inventory's, then kvctl's default user."""
    return f"{_includes(ssh_config)}Match all\n  User root\n"


def jump(ssh_config: str, known_hosts: str) -> str:
    """What an ssh to a jump host reads: strict, else the user's configuration."""
    files = " ".join(quoted(path) for path in (known_hosts, "~/.ssh/known_hosts", "~/.ssh/known_hosts2"))
    # ClearAllForwardings would cancel the -W that a jump is made of
    strict = _STRICT.replace("  ClearAllForwardings yes\n", "")
    return f"Host *\n{strict}  UserKnownHostsFile {files}\n{_includes(ssh_config)}"


def render(made: Iterable[tuple["Target", str]]) -> str:
    """One Host block a node, and strict defaults for all."""
    parts = ["# Written by kvctl from the inventory; changes are lost.\n"]
    timeout = 10.0
    for target, kept in made:
        timeout = target.connect_timeout
        lines = [
            f"Host {target.node}",
            f"  HostName {target.host.replace('%', '%%')}",
            f"  Port {target.port}",
            f"  User {target.user}",
        ]
        lines += [f"  IdentityFile {quoted(path.replace('%', '%%'))}" for path in target.identity_files]
        if not target.use_agent:
            lines.append("  IdentitiesOnly yes")
        lines.append(f"  HostKeyAlias {target.key_name}")
        lines.append("  UserKnownHostsFile " + " ".join(quoted(p.replace("%", "%%")) for p in target.known_hosts))
        lines.append("  GlobalKnownHostsFile /dev/null")
        if target.proxy_command:
            lines.append(f"  ProxyCommand {target.proxy_command.replace('%', '%%')}")
        parts.append("\n".join(lines) + "\n" + kept)
    parts.append(f"Host *\n{_STRICT}  ConnectTimeout {max(1, round(timeout))}\n")
    return "\n".join(parts)


def pass_through(options: Mapping[str, list[str]], defaults: Mapping[str, list[str]]) -> str:
    """The user's settings that differ from OpenSSH's own and that bear on getting in."""
    lines = []
    for name in _KEPT:
        values = options.get(name, [])
        if values and values != defaults.get(name, []):
            lines += [f"  {name} {value}\n" for value in values]
    return "".join(lines)


def write(directory: Path, stem: str, text: str) -> str:
    """Write `text` as a 0600 file named by its content, so that two commands never disturb each other."""
    path = directory.resolve() / f"ssh-{stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not path.exists():
        fd, temporary = tempfile.mkstemp(dir=directory, prefix=".ssh-")
        with os.fdopen(fd, "w", encoding="utf-8") as out:
            out.write(text)
        Path(temporary).replace(path)
    return str(path)


def quoted(value: str) -> str:
    if '"' in value or "\n" in value:
        raise failures.bad_ssh_config(f"{value!r} cannot stand in an SSH configuration", "it has a quote or a newline")
    return f'"{value}"' if re.search(r"[\s#=]", value) or not value else value


def fill(text: str, tokens: Mapping[str, str]) -> str:
    """Replace ssh_config(5) percent tokens."""

    def one(match: re.Match[str]) -> str:
        token = match.group(1)
        if token not in tokens:
            raise failures.bad_ssh_config(f"%{token} in {text!r} is not supported", "kvctl cannot fill it in")
        return tokens[token]

    return re.sub(r"%(.)", one, text)


def expand(path: str, tokens: Mapping[str, str]) -> str:
    """An absolute path from one of `ssh -G`'s: tilde, ${VARIABLES} and tokens filled in."""
    more = {**tokens, "d": str(Path.home()), "u": getpass.getuser(), "i": str(os.getuid()), "l": os.uname().nodename}
    text = fill(os.path.expandvars(path.strip('"')), more)
    return str(Path(text).expanduser().absolute())


def jump_parts(spec: str) -> tuple[str, str, str]:
    """[user@]host[:port] of a ProxyJump entry as (user@host, host, port)."""
    text = spec.removeprefix("ssh://")
    user, at, rest = text.rpartition("@")
    bracketed = re.fullmatch(r"\[(.+)\](?::(\d+))?", rest)
    if bracketed:
        host, port = bracketed.group(1), bracketed.group(2) or ""
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    else:
        host, port = rest, ""
    return f"{user}{at}{host}", host, port


def _includes(ssh_config: str) -> str:
    if ssh_config:
        path = Path(ssh_config).expanduser().absolute()
        if not path.is_file():
            raise failures.bad_ssh_config(f"{ssh_config} does not exist", "it is not a file", place="access.ssh_config")
        return f"Include {quoted(str(path))}\n"
    # an -F file replaces both of OpenSSH's own, so both are named; a missing Include is no error
    return "Include ~/.ssh/config\nInclude /etc/ssh/ssh_config\n"
