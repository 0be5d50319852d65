"""Plans: reviewed steps, each with preconditions that are read again before it runs."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Uncut(StrEnum):
    """What a step does to the node while it runs."""

    NO = "no"
    UNIT = "unit"  # must not be cut: runs as a transient unit on the node
    NETWORK = "network"  # a unit, and commit-confirmed


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a step's diff."""

    subject: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Step:
    """One role verb on one node. `args` is what the role receives; `preconditions` are stable identities."""

    id: str  # s01, unique in the plan
    node: str
    role: str
    verb: str  # apply
    args: dict[str, Any]
    preconditions: dict[str, str]  # "nic.psid:enp65s0f0np0" -> "MT_0000000359"; serial, PCI address, PSID only
    changes: tuple[Change, ...]
    because: tuple[str, ...]  # check ids
    uncut: Uncut = Uncut.NO
    reboot: bool = False
    cuts_ssh: bool = False
    destroys_data: tuple[str, ...] = ()  # drive serials


@dataclass(frozen=True, slots=True)
class Refusal:
    """A finding that kvctl will not repair by itself, and why."""

    node: str
    check: str
    subject: str
    code: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Plan:
    id: str  # p-<12 hex of hash>
    hash: str  # SHA-256 of the canonical JSON of everything but id, hash and created
    site: str
    created: str  # UTC, RFC 3339
    facts_at: dict[str, str]  # node -> when its facts were read
    nodes: tuple[str, ...] = ()  # the nodes that were planned for
    destroy: tuple[str, ...] = ()  # drive serials whose contents the operator gave up by name
    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    unreachable: tuple[str, ...] = ()
    desired: dict[str, dict[str, Any]] = field(default_factory=dict)  # node -> role -> args, what --converge applies
