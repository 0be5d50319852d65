"""Deploy: GPU nodes get an engine with kvctl's tier and fresh leases, and are judged by a chunk that comes back.

First packages and users; then each node makes its keys, and only what is public comes back; the stores learn who
connects; then configuration, certificates and units. All of it are plans, carried out and journalled as any other.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from kvctl.controller import pool_map
from kvctl.controller.books import site_identity
from kvctl.controller.bundle import Bundle, bundle
from kvctl.controller.connectors import enrol_connector, tell_stores
from kvctl.controller.deploy_gate import Gate, judge
from kvctl.controller.deploy_steps import Enrolled, Keys, Work, enrol, machine, nodes_of_kind, plan_of
from kvctl.controller.engine_view import Seen, Source, look
from kvctl.controller.observe import observe
from kvctl.controller.pki import checked_name
from kvctl.controller.provision import OnEvent, provision
from kvctl.controller.serving_spec import Spec
from kvctl.controller.site import Site
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import UsageError
from kvctl.types.facts import NodeFacts
from kvctl.types.plans import Change, Plan

ROLE, BECAUSE = "vllm", "deploy.serving"
SHM_SLACK = 1 << 30  # of /dev/shm, beside the host tier: what workers tell each other
SOCKET = "/run/kvctl-engine/engine.sock"
GATE_KEY = "/etc/kvctl-gateway/gate.key"
SPECS = {
    "cuda": {"spec_name": "TieringOffloadingSpec"},
    "cpu": {"spec_name": "CpuTieringSpec", "spec_module_path": "kvctl.connector.cpu_tiering"},
}


@dataclass(frozen=True, slots=True)
class Pin:
    """A model's digests, as `kvctl model pin` recorded them."""

    weights: str
    tokenizer: str
    config: str


@dataclass(frozen=True, slots=True)
class WantedEngine:
    """What one GPU node is to run."""

    node: Node
    facts: NodeFacts
    bundle: Bundle
    spec: Spec
    source: Source
    seen: Seen | None  # None: the archive is not there yet
    pin: Pin

    def args(self, **more: Any) -> dict[str, Any]:
        about: dict[str, Any] = {
            "bundle": str(self.bundle.path), "sha256": self.bundle.sha256, "name": self.bundle.name,
            "home": self.source.home,
        }  # fmt: skip
        if self.source.archive is not None:
            about |= {
                "archive": str(self.source.archive), "archive_sha256": self.source.sha256,
                "archive_bytes": self.source.size,
            }  # fmt: skip
        return about | more

    def row(self) -> dict[str, Any]:
        return {
            "node": self.node.name,
            "engine": self.source.home,
            "vllm": self.seen.vllm if self.seen else "not there yet",
            "model": self.spec.model.name,
            "packages": self.seen.packages[:23] if self.seen else self.source.sha256[:16],
            "bundle": self.bundle.name,
        }


def gpu_nodes(site: Site, names: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes to deploy to; UsageError KV-DEP-013 for one that is no GPU node, KV-CTL-021 for too long a name."""
    found, wrong = nodes_of_kind(site, names, "gpu")
    if wrong:
        raise UsageError("KV-DEP-013", f"no GPU node: {', '.join(wrong)}", fix="name nodes whose role is gpu")
    for node in found:
        checked_name(f"{node.name}-gateway")  # the longest name that a certificate of it has
    return found


def pin_of(models: Sequence[Mapping[str, Any]], name: str) -> Pin:
    """UsageError KV-DEP-014 for a model that is not pinned. `models`: what `model.ls` gives."""
    for one in models:
        if one["name"] == name:
            return Pin(one["weights"], one["tokenizer"], one["config"])
    raise UsageError(
        "KV-DEP-014", f"the model {name} is not pinned", why="an engine serves nothing else than what was pinned",
        fix=f"kvctl model pin DIRECTORY --name {name}",
    )  # fmt: skip


def wanted(site: Site, nodes: Sequence[Node], spec: Spec, pin: Pin) -> tuple[list[WantedEngine], dict[str, str]]:
    """Read the nodes; what each is to run, and why some cannot be deployed to. UsageError KV-DEP-011, KV-DEP-015."""
    source = Source.of(spec.engine)
    seen = observe(site, nodes)
    targets = resolve(site.inventory, site.directory, nodes=[node.name for node in nodes])
    problems = {one.node: one.why for one in seen.unreachable}
    code = bundle("engine", "", "", site.directory / "bundles")
    found: list[WantedEngine] = []
    for node in nodes:
        if node.name in seen.facts:
            view, why = look(targets[node.name], source, spec.packages)
            if why:
                problems[node.name] = why
            else:
                found.append(WantedEngine(node, seen.facts[node.name], code, spec, source, view, pin))
    check_alike(found)
    return found, problems


def check_alike(found: Sequence[WantedEngine]) -> None:
    """UsageError KV-DEP-011: what one engine stored another could not read, or would read wrongly."""
    kinds = {one.seen.packages: one.node.name for one in found if one.seen is not None}
    if len(kinds) > 1:
        raise UsageError(
            "KV-DEP-011", "the nodes have different engines",
            why=", ".join(f"{node}: {digest[:23]}" for digest, node in sorted(kinds.items(), key=lambda kind: kind[1])),
            fix="give all of them one image, or deploy to them apart with --limit",
        )  # fmt: skip


def step(one: WantedEngine, args: dict[str, Any], *changes: Change) -> Work:
    return Work(one.node.name, args, changes, machine(one.facts))


def install_plan(site: Site, nodes: Sequence[WantedEngine]) -> Plan:
    work = [step(one, one.args(), Change(one.bundle.name, "archive", "", one.bundle.sha256[:16])) for one in nodes]
    return plan_of(site, ROLE, "install", BECAUSE, work)


def connector_name(node: Node) -> str:
    return f"{node.name}-engine"


def keys_of(node: Node) -> Keys:
    folder = "/etc/kvctl-engine"
    return Keys("kvctl-engine", f"{folder}/connector.key", f"{folder}/client.key", connector_name(node))


def transfer(one: WantedEngine, site: str, trusted: Sequence[str], controller: str) -> dict[str, Any]:
    """vLLM's kv-transfer-config: the tier, who may say what a request uses, and whose map of the stores counts."""
    tier = {
        "type": "KvctlTier", "module_path": "kvctl.connector.vllm_tier",
        "identity": "/etc/kvctl-engine/connector.key", "leases": "/run/kvctl/leases", "gateways": list(trusted),
        "pool": "/etc/kvctl-engine/pool.json", "controllers": [controller], "weights": one.pin.weights,
        "tokenizer": one.pin.tokenizer, **one.spec.tier,
    }  # fmt: skip
    chunk = {} if one.spec.blocks_per_chunk is None else {"blocks_per_chunk": one.spec.blocks_per_chunk}
    return {
        "engine_id": f"{site}-{one.node.name}", "kv_connector": "KvctlConnector",
        "kv_connector_module_path": "kvctl.connector.vllm_tier", "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            **SPECS[one.spec.device], "cpu_bytes_to_use": int(one.spec.host_tier), **chunk, "secondary_tiers": [tier]
        },
    }  # fmt: skip


def options(one: WantedEngine, site: str, trusted: Sequence[str], controller: str) -> str:
    """What `vllm serve --config` reads."""
    document = {
        **one.spec.arguments,
        "model": one.spec.model.directory,
        "served-model-name": one.spec.model.name,
        "uds": SOCKET,
        "shutdown-timeout": 30,
        "enable-prompt-tokens-details": True,
        "prefix-caching-hash-algo": "sha256_cbor",
        "kv-transfer-config": json.dumps(transfer(one, site, trusted, controller), sort_keys=True),
    }
    return "# Written by kvctl deploy serving.\n" + yaml.safe_dump(document, sort_keys=False, width=1 << 20)


def apply_plan(
    site: Site, nodes: Sequence[WantedEngine], enrolled: Mapping[str, tuple[Enrolled, Enrolled]], endpoint: str,
    pool: str,
) -> Plan:  # fmt: skip
    """Configuration, certificates and units of each node. Nothing in it is secret. `enrolled`: engine and gateway."""
    controller, name = site_identity(site.directory / "site.key").public.hex(), site.inventory.site.name
    work = []
    for one in nodes:
        engine, gateway = enrolled[one.node.name]
        certificate, ca = enrol_connector(site, connector_name(one.node), engine)
        # The controller's own key beside the gateway's: with it a deployment is judged.
        text = options(one, name, (gateway.identity, controller), controller)
        args = one.args(
            controller=endpoint, certificate=certificate, ca=ca, config=text, pool=pool,
            environment=dict(one.spec.environment), model=one.spec.model.directory, weights=one.pin.weights,
            tokenizer=one.pin.tokenizer, model_config=one.pin.config, device=one.spec.device,
            shm_bytes=int(one.spec.host_tier) + SHM_SLACK, start_seconds=one.spec.start_seconds,
        )  # fmt: skip
        digest = hashlib.sha256(text.encode()).hexdigest()
        work.append(step(one, args, Change(one.spec.model.name, "weights", "", one.pin.weights[:23]),
                         Change("vllm.yaml", "configuration", "", digest[:16])))  # fmt: skip
    return plan_of(site, ROLE, "apply", BECAUSE, work)


def deploy_serving(
    site: Site, nodes: Sequence[WantedEngine], endpoint: str, *, on_event: OnEvent, say: Callable[[str], None],
    concurrency: int = 8,
) -> dict[str, Any]:  # fmt: skip
    """Deploy engines, make them known to controller and stores, and judge each. The runs, and what was seen.

    A run that did not end well stops the deployment there; `kvctl run resume` goes on. KV-DEP-016 and KV-DEP-017 when
    an engine does not take back what it stored.
    """
    runs: list[dict[str, Any]] = []

    def carried_out(plan: Plan) -> bool:
        runs.append(provision(site, plan, converge=False, on_event=on_event, concurrency=concurrency))
        return not runs[-1]["exit_code"]

    pool = pool_map.current(site)
    if not carried_out(install_plan(site, nodes)):
        return {"runs": runs, "engines": []}
    targets = resolve(site.inventory, site.directory, nodes=[one.node.name for one in nodes])
    enrolled = {one.node.name: keys_made(one, targets[one.node.name]) for one in nodes}
    plan = apply_plan(site, nodes, enrolled, endpoint, pool)
    if (stores := tell_stores(site)) is not None and not carried_out(stores):
        return {"runs": runs, "engines": []}
    if not carried_out(plan):
        return {"runs": runs, "engines": []}
    judged = []
    for one in nodes:
        engine, _ = enrolled[one.node.name]
        seen = judge(site, gate_of(one, targets[one.node.name], engine))
        judged.append({"engine": one.node.name, "vllm": one.seen.vllm if one.seen else None, **seen})
        say(
            f"{one.node.name}: a prompt computed in {seen['computed_s']:.2f} s; forgotten, and restored from stores "
            f"in {seen['restored_s']:.2f} s, {seen['restored_bytes'] / (1 << 20):.1f} MiB"
        )
    return {"runs": runs, "engines": judged}


def keys_made(one: WantedEngine, target: Target) -> tuple[Enrolled, Enrolled]:
    """The engine's keys, and the identity of the gateway that is to stand beside it."""
    python, code = f"{one.source.home}/bin/python", f"/opt/kvctl/{one.bundle.name}"
    return enrol(target, python, code, keys_of(one.node)), enrol(target, python, code, Keys("kvctl-gateway", GATE_KEY))


def gate_of(one: WantedEngine, target: Target, engine: Enrolled) -> Gate:
    return Gate(
        node=one.node.name, target=target, python=f"{one.source.home}/bin/python", code=f"/opt/kvctl/{one.bundle.name}",
        holder=bytes.fromhex(engine.identity), model=one.spec.model.name, tokens=one.spec.probe_tokens,
    )  # fmt: skip


def described(spec: Spec, engine: str | None) -> Spec:
    """The description, with another engine than it names when one is given."""
    return msgspec.structs.replace(spec, engine=engine) if engine else spec
