"""Where a lab keeps its files, and what its namespaces, cgroups and networks are called."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kvctl.types.errors import UsageError

DEFAULT_NAME = "kvctl-lab"
RAIL = "enp65s0f0np0"
MAX_NAME = 12  # a node's namespace name is also its machine name and must stay short


@dataclass(frozen=True, slots=True)
class Layout:
    """One lab. Two labs with different names and directories can exist side by side."""

    name: str
    directory: Path
    cache: Path

    @property
    def state_file(self) -> Path:
        return self.directory / "lab.json"

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory.yaml"

    @property
    def serving(self) -> Path:
        """What the engines of its GPU hosts are to run."""
        return self.directory / "serving.yaml"

    @property
    def identity(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def images(self) -> Path:
        return self.directory / "images"

    def node_dir(self, node: str) -> Path:
        return self.directory / "nodes" / node

    def hardware(self, node: str) -> Path:
        return self.node_dir(node) / "hw"

    def machine(self, node: str) -> str:
        """The name of a node's network namespace, cgroup and container."""
        return f"{self.name}-{node}"

    def node_of(self, machine: str) -> str | None:
        """The node that a namespace or cgroup belongs to; None when it is not this lab's."""
        found = re.fullmatch(rf"{re.escape(self.name)}-([a-z]+[0-9]+)", machine)
        return found[1] if found else None

    def subnets(self) -> tuple[str, str]:
        """The first two octets of the management network and of rail 0."""
        if self.name == DEFAULT_NAME:
            return "10.77", "10.78"
        octet = 80 + 2 * (int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 80)
        return f"10.{octet}", f"10.{octet + 1}"


def from_environment(environ: Mapping[str, str] | None = None) -> Layout:
    """The lab that KVCTL_LAB_NAME, KVCTL_LAB_DIR and KVCTL_LAB_CACHE name."""
    env = os.environ if environ is None else environ
    name = env.get("KVCTL_LAB_NAME") or DEFAULT_NAME
    if not name.replace("-", "").isalnum() or name != name.lower() or len(name) > MAX_NAME or name.startswith("-"):
        raise UsageError(
            "KV-LAB-003",
            f"the lab name {name!r} cannot be used",
            where="KVCTL_LAB_NAME",
            fix=f"use lower-case letters, digits and dashes, at most {MAX_NAME} characters",
        )
    directory = Path(env.get("KVCTL_LAB_DIR") or f"/var/lib/{name}")
    cache = Path(env.get("KVCTL_LAB_CACHE") or "/var/cache/kvctl/lab")
    return Layout(name, directory.absolute(), cache.absolute())
