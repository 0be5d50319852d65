"""What every deployment does: steps of one role, keys that nodes make for themselves, commands as a daemon's user."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvctl.controller.clock import now
from kvctl.controller.pki import Authority
from kvctl.controller.site import Site
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.plan.build import plan_hash
from kvctl.fleet.plan.preconditions import read
from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError
from kvctl.types.facts import NodeFacts
from kvctl.types.plans import Change, Plan, Step

ENROL_SECONDS = 60.0
KEY_BYTES = 32  # Ed25519


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What came back from a node: public only."""

    identity: str  # 64 hexadecimal digits
    request: str  # PEM signing request; "" when no TLS key was asked for


@dataclass(frozen=True, slots=True)
class Work:
    """What a step does on one node. `known`: what must be as it was read, as in Step.preconditions."""

    node: str
    args: Mapping[str, Any]
    changes: tuple[Change, ...]
    known: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Keys:
    """Where a daemon's keys are on its node, and who they belong to."""

    user: str
    identity: str
    tls_key: str = ""
    name: str = ""
    addresses: tuple[str, ...] = ()


def plan_of(site: Site, role: str, verb: str, because: str, work: Iterable[Work]) -> Plan:
    """A plan of one step a node."""
    made = tuple(
        Step(
            id=f"s{number:02d}", node=one.node, role=role, verb=verb, args=dict(one.args), changes=one.changes,
            because=(because,), preconditions=dict(one.known),
        )
        for number, one in enumerate(work, 1)
    )  # fmt: skip
    names = tuple(step.node for step in made)
    plan = Plan("", "", site.inventory.site.name, now(), {n: now() for n in names}, names, steps=made)
    digest = plan_hash(plan)
    return replace(plan, hash=digest, id=f"p-{digest[:12]}")


def machine(facts: NodeFacts, more: Sequence[str] = ()) -> dict[str, str]:
    """Preconditions: this very machine, and these keys of `preconditions.read`."""
    return {key: value for key, value in read(facts, ["host.machine_id", *more]).items() if value}


def authority_of(site: Site) -> Authority:
    return Authority(site.directory / "tls", site.inventory.site.name)


def run_as(target: Target, user: str, argv: Sequence[str], *, stdin: bytes = b"", seconds: float) -> ssh.Result:
    """A command on the node as this user. UnreachableError as SSH gives it; the result says how it ended."""
    command = ssh.as_root(target, f"runuser -u {user} -- {shlex.join(argv)}")
    with ssh.connect(target, timeout=ENROL_SECONDS) as session:
        return session.run(ssh.bounded(command, seconds), stdin=stdin, timeout=seconds + 10)


def enrol(target: Target, python: str, code: str, keys: Keys) -> Enrolled:
    """Have the node make its keys, and take what is public. UnreachableError, KvctlError as SSH gives them.

    `code`: the directory that holds kvctl on the node.
    """
    argv = [
        "env", f"PYTHONPATH={code}", "PYTHONDONTWRITEBYTECODE=1", python, "-P", "-m", "kvctl.connector.enrol",
        "--identity", keys.identity,
    ]  # fmt: skip
    if keys.tls_key:
        argv += ["--tls-key", keys.tls_key, "--name", keys.name]
        argv += [text for address in keys.addresses for text in ("--san", address)]
    result = run_as(target, keys.user, argv, seconds=ENROL_SECONDS)
    if result.rc:
        raise ssh.explain(target, f"make the keys of {keys.user}", result)
    return enrolled(target.node, keys.user, result.out)


def enrolled(node: str, user: str, out: bytes) -> Enrolled:
    """What a node said. KvctlError KV-DEP-024: one wrong word of it in their configuration would stop all stores."""
    try:
        said = json.loads(out)
        identity, request = bytes.fromhex(said["identity"]), said.get("request", "")
        if len(identity) != KEY_BYTES or not isinstance(request, str):
            raise ValueError("it names no key")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KvctlError(
            "KV-DEP-024", f"{node} does not say which keys it made for {user}",
            why=f"{error or type(error).__name__}: {out[:200].decode(errors='replace')!r}",
            fix="see what its shell or its Python prints on their own",
        ) from error  # fmt: skip
    return Enrolled(identity.hex(), request)


def nodes_of_kind(site: Site, names: tuple[str, ...], kind: str) -> tuple[tuple[Node, ...], list[str]]:
    """Nodes of these names whose role is of this kind, and the names whose role is not."""
    chosen = site.select(names)
    kinds = {node.name: site.inventory.role_of(node).kind for node in chosen}
    wrong = [name for name in names if kinds[name] != kind]
    return tuple(node for node in chosen if kinds[node.name] == kind), wrong
