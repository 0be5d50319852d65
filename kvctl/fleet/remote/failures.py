"""What can go wrong between the controller and a node: one maker per stable code."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvctl.types.errors import KvctlError, RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from kvctl.fleet.remote.target import Target

CODES = {
    "KV-SSH-001": "the node cannot be reached",
    "KV-SSH-002": "the node's host key is not known",
    "KV-SSH-003": "the node's host key changed",
    "KV-SSH-004": "the node refused the login",
    "KV-SSH-005": "sudo asks for a password on the node",
    "KV-SSH-006": "the node has no python3 of version 3.9 or newer",
    "KV-SSH-007": "the node did not answer in time",
    "KV-SSH-008": "the probe's answer is not understood",
    "KV-SSH-009": "the node's disk is full",
    "KV-SSH-010": "the network namespace to connect from does not exist",
    "KV-SSH-011": "the SSH configuration cannot be used",
    "KV-SSH-012": "a command on the node failed",
    "KV-RUN-010": "another run holds the controller's lock",
    "KV-RUN-011": "another run is at work on the node",
    "KV-RUN-012": "the run's journal cannot be written",
    "KV-RUN-013": "the run's directory cannot be read",
    "KV-RUN-020": "a step changed what is not its own",
    "KV-RUN-021": "the node is not what the plan saw",
    "KV-RUN-022": "a precondition cannot be read",
    "KV-RUN-023": "a step failed",
    "KV-RUN-024": "a step took too long",
    "KV-RUN-025": "the run was cancelled",
    "KV-RUN-026": "Ansible did not run",
}


def where(target: "Target") -> str:
    name = f"[{target.host}]:{target.port}" if target.port != 22 else target.host
    return f"node {target.node} ({target.user}@{name})"


def unreachable(target: "Target", why: str) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-001",
        f"{target.node} cannot be reached",
        where=where(target),
        why=why,
        fix=f"see that the node is up and that `ssh -F {target.config} {target.node}` connects",
    )


def host_key_unknown(target: "Target", files: Iterable[str]) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-002",
        f"the host key of {target.node} is not known",
        where=where(target),
        why=f"no line for {target.key_name} in {', '.join(files)}",
        fix=f"kvctl node trust {target.node}",
    )


def host_key_changed(target: "Target", offered: str, recorded: Iterable[str]) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-003",
        f"the host key of {target.node} changed",
        where=where(target),
        why=f"it offers {offered}; recorded: {', '.join(recorded) or 'another'}",
        fix=(
            "either the node was reinstalled or somebody answers in its place: compare the fingerprint on the node's "
            f"own console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub); when it is right, remove the old line "
            f"(ssh-keygen -R '{target.key_name}' -f {target.known_hosts[0]}) and run kvctl node trust {target.node}"
        ),
    )


def auth_refused(target: "Target", why: str) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-004",
        f"{target.node} refused the login of {target.user}",
        where=where(target),
        why=why,
        fix=f"kvctl node bootstrap {target.node}, or set identity_file or user in the inventory",
    )


def no_sudo(target: "Target", why: str) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-005",
        f"{target.user} cannot use sudo without a password on {target.node}",
        where=where(target),
        why=why,
        fix=f"kvctl node bootstrap {target.node} installs a NOPASSWD rule for {target.user}",
    )


def no_python(target: "Target", why: str) -> KvctlError:
    return KvctlError(
        "KV-SSH-006",
        f"{target.node} has no usable python3",
        where=where(target),
        why=why,
        fix="install python3, version 3.9 or newer, on the node",
    )


def timed_out(target: "Target", doing: str, seconds: float) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-007",
        f"{target.node} did not answer in time",
        where=where(target),
        why=f"{doing} took more than {seconds:.3g} s",
        fix="look at the node's load and console; --timeout gives it longer",
    )


def garbage(target: "Target", why: str) -> KvctlError:
    return KvctlError(
        "KV-SSH-008",
        f"the answer of {target.node} is not understood",
        where=where(target),
        why=why,
        fix=f"run `ssh -F {target.config} {target.node} true`: a login that prints text spoils the answer",
    )


def disk_full(target: "Target", why: str) -> KvctlError:
    return KvctlError(
        "KV-SSH-009",
        f"a file system of {target.node} is full",
        where=where(target),
        why=why,
        fix="free space on the node (df -h; df -i)",
    )


def no_namespace(name: str, why: str) -> UnreachableError:
    return UnreachableError(
        "KV-SSH-010",
        f"the network namespace {name} cannot be entered",
        where=f"access.netns, /run/netns/{name}",
        why=why,
        fix="kvctl lab up (as root), or correct access.netns in the inventory",
    )


def bad_ssh_config(what: str, why: str, *, place: str = "") -> UsageError:
    return UsageError("KV-SSH-011", what, where=place, why=why, fix="correct the inventory or the SSH configuration")


def command_failed(target: "Target", what: str, rc: int, err: str) -> KvctlError:
    return KvctlError(
        "KV-SSH-012", f"{what} failed on {target.node}", where=where(target), why=f"exit status {rc}: {tail(err)}"
    )


def key_conflict(target: "Target", offered: str, recorded: str, path: str) -> RefusedError:
    return RefusedError(
        "KV-SSH-003",
        f"{path} already holds another key of {target.node}",
        where=where(target),
        why=f"recorded {recorded}, offered {offered}",
        fix=(
            f"when the node was reinstalled and the fingerprint is right on its console: ssh-keygen -R "
            f"'{target.key_name}' -f {path}, then kvctl node trust {target.node}"
        ),
    )


def tail(text: str, limit: int = 400) -> str:
    """The last words of an output, on one line."""
    flat = " | ".join(line.strip() for line in text.splitlines() if line.strip())
    return flat if len(flat) <= limit else "..." + flat[-limit:]
