"""First access to a node: a public key for the login user, and sudo without a password for it."""

import re
import shlex
from dataclasses import dataclass

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.ssh import bounded, connect, explain
from kvctl.fleet.remote.target import Target

_KEY = re.compile(r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( [^\n\r]*)?$")
_USER = re.compile(r"^[a-z_][a-z0-9_-]{0,31}$")

# visudo looks at the new rule before it is where sudo reads it: a broken file there would lock everybody out of sudo.
_SCRIPT = """
set -eu
umask 077
user=$1 key=$2 sudo=$3
home=$(getent passwd "$user" | cut -d: -f6)
[ -n "$home" ] || { echo "there is no user $user" >&2; exit 10; }
group=$(id -g "$user")
mkdir -p "$home/.ssh"
touch "$home/.ssh/authorized_keys"
if grep -qxF -- "$key" "$home/.ssh/authorized_keys"; then
  echo key=present
else
  [ -z "$(tail -c 1 "$home/.ssh/authorized_keys")" ] || echo >> "$home/.ssh/authorized_keys"
  printf '%s\\n' "$key" >> "$home/.ssh/authorized_keys"
  echo key=added
fi
chmod 700 "$home/.ssh"
chmod 600 "$home/.ssh/authorized_keys"
chown "$user:$group" "$home/.ssh" "$home/.ssh/authorized_keys"
if [ "$sudo" = yes ]; then
  command -v visudo >/dev/null || { echo "visudo: not found; install sudo" >&2; exit 11; }
  rule="$user ALL=(ALL:ALL) NOPASSWD: ALL"
  file=/etc/sudoers.d/kvctl-$user
  if [ "$(cat "$file" 2>/dev/null || true)" = "$rule" ]; then
    echo sudo=present
  else
    new=$(mktemp /etc/sudoers.d/.kvctl.XXXXXX)
    trap 'rm -f "$new"' EXIT
    printf '%s\\n' "$rule" > "$new"
    chmod 440 "$new"
    visudo -cf "$new" >/dev/null
    mv -f "$new" "$file"
    echo sudo=added
  fi
fi
"""


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What was not there before."""

    key_added: bool
    sudo_added: bool


def bootstrap(
    target: Target, public_key: str, *, login: Target | None = None, password: str | None = None, timeout: float = 30.0
) -> Bootstrapped:
    """Install `public_key` (one OpenSSH line) for `target.user`, with sudo for users other than root.

    `login` is how to get in today (default: as `target`); `password` is for it and for its sudo, and goes over the
    encrypted channel's stdin alone. The host key must be enrolled. Nothing changes on a second call.
    """
    way = login or target
    line = public_key.strip()
    if not _KEY.match(line):
        raise failures.bad_ssh_config("the public key is not one OpenSSH public key line", repr(line[:40]))
    if not _USER.match(target.user):
        raise failures.bad_ssh_config(f"{target.user!r} is no user name", "it has characters no user name has")
    sudo = "no" if target.user == "root" else "yes"
    command = bounded(f"sh -s -- {target.user} {shlex.quote(line)} {sudo}", timeout)
    stdin = _SCRIPT.encode()
    if way.user != "root" and password is not None:
        command = f"LC_ALL=C sudo -S -p '' -- {command}"
        stdin = password.encode() + b"\n" + stdin
    elif way.user != "root":
        command = f"LC_ALL=C sudo -n -- {command}"
    with connect(way, timeout=timeout, password=password) as session:
        result = session.run(command, stdin=stdin, timeout=timeout)
    if result.rc != 0:
        raise explain(way, "bootstrap", result)
    said = result.out.decode("utf-8", "replace").split()
    return Bootstrapped("key=added" in said, "sudo=added" in said)
