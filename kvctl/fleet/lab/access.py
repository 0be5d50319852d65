"""How to reach a lab host by hand."""

import shlex
from collections.abc import Sequence

from kvctl.fleet.lab import lifecycle, network, requirements
from kvctl.fleet.lab.layout import Layout


def ssh_argv(layout: Layout, name: str, command: Sequence[str] = ()) -> list[str]:
    """The command line that opens a session on a node: ssh inside the lab's network namespace, strict host keys."""
    requirements.require_root()
    node = lifecycle.require_node(layout, lifecycle.require_up(layout), name)
    options = {
        "IdentityFile": str(layout.identity),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(layout.known_hosts),
        "StrictHostKeyChecking": "yes",
        "LogLevel": "ERROR",
    }
    line = ["nsenter", f"--net={network.RUN / layout.name}", "ssh", "-F", "none"]
    for key, value in options.items():
        line += ["-o", f"{key}={value}"]
    # ssh joins the words with blanks and hands them to a shell
    return [*line, f"root@{node.address}", *([shlex.join(command)] if len(command) > 1 else command)]
