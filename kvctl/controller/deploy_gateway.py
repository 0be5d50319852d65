"""Deploy: a gateway in front of each GPU node's engine, judged by a token that a client's key brings through it.

One gateway a node, on the engine's unix socket: whoever reaches an engine reaches every tenant's cache, so nothing else
does. What is in front of several nodes' gateways is a load balancer's business.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kvctl.controller import settings as settings_file
from kvctl.controller.books import site_identity
from kvctl.controller.bundle import Bundle, bundle
from kvctl.controller.connectors import certified
from kvctl.controller.deploy_serving import GATE_KEY, SOCKET
from kvctl.controller.deploy_steps import Enrolled, Keys, Work, authority_of, enrol, machine, plan_of
from kvctl.controller.observe import observe
from kvctl.controller.provision import OnEvent, provision
from kvctl.controller.serving_spec import Spec
from kvctl.controller.settings import EngineSettings
from kvctl.controller.site import Site
from kvctl.controller.stores import TlsConnection
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import KvctlError, UnreachableError
from kvctl.types.facts import NodeFacts
from kvctl.types.plans import Change, Plan

ROLE, BECAUSE = "kvgated", "deploy.gateway"
PORT, ADMIN_PORT = 8443, 8444
FOLDER = "/etc/kvctl-gateway"
SECONDS = 120.0
NOWHERE = "ZZ"  # ISO 3166: of a site that says no country


@dataclass(frozen=True, slots=True)
class WantedGateway:
    """What one node is to run."""

    node: Node
    facts: NodeFacts
    bundle: Bundle
    spec: Spec

    @property
    def name(self) -> str:
        return f"{self.node.name}-gateway"

    def args(self, **more: Any) -> dict[str, Any]:
        about = {"bundle": str(self.bundle.path), "sha256": self.bundle.sha256, "name": self.bundle.name}
        return {**about, **more}

    def row(self) -> dict[str, Any]:
        return {
            "node": self.node.name,
            "address": f"https://{self.node.address}:{PORT}",
            "model": self.spec.model.name,
            "slots": self.spec.slots,
            "bundle": self.bundle.name,
        }


def wanted(
    site: Site, nodes: Sequence[Node], spec: Spec, wheels: Path | None
) -> tuple[list[WantedGateway], dict[str, str]]:
    """Read the nodes; what each is to run, and why some cannot be deployed to."""
    seen = observe(site, nodes)
    problems = {one.node: one.why for one in seen.unreachable}
    found: list[WantedGateway] = []
    for node in nodes:
        if node.name not in seen.facts:
            continue
        facts = seen.facts[node.name]
        python, arch = facts.host.python.or_none(), facts.host.arch.or_none()
        if not python or not arch:
            problems[node.name] = "its Python version or machine type is unknown"
            continue
        short = ".".join(python.split(".")[:2])
        found.append(
            WantedGateway(node, facts, bundle("gateway", short, arch, site.directory / "bundles", wheels), spec)
        )
    return found, problems


def install_plan(site: Site, nodes: Sequence[WantedGateway]) -> Plan:
    return plan_of(site, ROLE, "install", BECAUSE, (
        Work(one.node.name, one.args(), (Change(one.bundle.name, "archive", "", one.bundle.sha256[:16]),),
             machine(one.facts))
        for one in nodes
    ))  # fmt: skip


def apply_plan(site: Site, nodes: Sequence[WantedGateway], enrolled: Mapping[str, Enrolled], endpoint: str) -> Plan:
    """Certificates, configuration and units of each node. Nothing in it is secret."""
    controller = site_identity(site.directory / "site.key").public.hex()
    work = []
    for one in nodes:
        mine = enrolled[one.node.name]
        client, ca = certified(site, one.name, mine)
        server = authority_of(site).daemon(one.name, mine.request.encode(), [one.node.address, "localhost"])
        args = one.args(
            controller=endpoint, trusted=controller, client_certificate=client, certificate=server, ca=ca,
            config=config(one, site, controller), admin=f"tcp:{one.node.address}:{ADMIN_PORT}",
        )  # fmt: skip
        changes = (Change(one.name, "engine", "", one.spec.model.name),)
        work.append(Work(one.node.name, args, changes, machine(one.facts)))
    return plan_of(site, ROLE, "apply", BECAUSE, work)


def config(one: WantedGateway, site: Site, controller: str) -> str:
    """kvgated's configuration for this node (docs/kvgated.md)."""
    about = site.inventory.site
    document = {
        "schema": 1,
        "gateway": one.name,
        "site": about.name,
        "listen": [f"tcp:{one.node.address}:{PORT}", "unix:/run/kvctl-gateway/gate.sock"],
        "tls": {"certificate": f"{FOLDER}/gate.crt", "key": f"{FOLDER}/gate-tls.key"},
        "admin": "/run/kvctl-gateway/admin.sock",
        "identity": GATE_KEY,
        "snapshot": {"path": "/run/kvctl-snapshot/snapshot", "controllers": {about.name: controller}},
        "engines": [
            {
                "name": one.node.name, "url": f"unix:{SOCKET}", "models": [one.spec.model.name],
                "country": about.country or NOWHERE, "slots": one.spec.slots,
            }
        ],
        "usage": {"directory": "/var/lib/kvctl-gateway/usage"},
    }  # fmt: skip
    return "# Written by kvctl deploy gateway.\n" + yaml.safe_dump(document, sort_keys=False)


def deploy_gateway(
    site: Site, nodes: Sequence[WantedGateway], endpoint: str, api_key: str, *, on_event: OnEvent,
    say: Callable[[str], None], concurrency: int = 8,
) -> dict[str, Any]:  # fmt: skip
    """Deploy gateways, make them known to the controller and judge each with a tenant's API key.

    The runs, and what was seen. A run that did not end well stops the deployment there; `kvctl run resume` goes on.
    KV-DEP-019 and KV-DEP-020 when no token came through.
    """
    runs = [provision(site, install_plan(site, nodes), converge=False, on_event=on_event, concurrency=concurrency)]
    if runs[-1]["exit_code"]:
        return {"runs": runs, "gateways": []}
    targets = resolve(site.inventory, site.directory, nodes=[one.node.name for one in nodes])
    enrolled = {
        one.node.name: enrol(targets[one.node.name], "python3", f"/opt/kvctl/{one.bundle.name}", keys_of(one))
        for one in nodes
    }
    plan = apply_plan(site, nodes, enrolled, endpoint)
    register(site, nodes, targets)  # before they ask for their snapshot
    runs.append(provision(site, plan, converge=False, on_event=on_event, concurrency=concurrency))
    if runs[-1]["exit_code"]:
        return {"runs": runs, "gateways": []}
    judged = []
    for one in nodes:
        seen = judge(site, one, targets[one.node.name], api_key)
        say(f"{one.node.name}: kvgated at https://{one.node.address}:{PORT}; {seen['tokens']} tokens came through")
        judged.append(seen)
    return {"runs": runs, "gateways": judged}


def keys_of(one: WantedGateway) -> Keys:
    return Keys("kvctl-gateway", GATE_KEY, f"{FOLDER}/gate-tls.key", one.name, (one.node.address, "localhost"))


def register(site: Site, nodes: Sequence[WantedGateway], targets: Mapping[str, Target]) -> None:
    """Write the gateways into the controller's settings: who gets snapshots, and where admin verbs are asked."""
    authority = authority_of(site)
    certificate, key = authority.client("kvctld")
    for one in nodes:
        found = EngineSettings(
            admin=f"https://{one.node.address}:{ADMIN_PORT}", certificate=str(certificate), key=str(key),
            ca=str(authority.certificate_path), netns=targets[one.node.name].netns,
        )  # fmt: skip
        settings_file.add_gateway(site.directory, one.name, found)


def judge(site: Site, one: WantedGateway, target: Target, api_key: str) -> dict[str, Any]:
    """A completion through the gateway, as a client asks for one.

    UnreachableError KV-DEP-019 when nobody answers, KvctlError KV-DEP-020 for what is no completion.
    """
    context = ssl.create_default_context(cafile=authority_of(site).certificate_path)
    connection = TlsConnection(one.node.address, PORT, SECONDS, context, target.netns)
    body = {"model": one.spec.model.name, "prompt": "kvctl", "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api_key}", "x-kvctl-subject": "kvctl"}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            "KV-DEP-019", f"the gateway of {one.node.name} does not answer", where="step generate",
            why=str(error) or repr(error), fix="journalctl -u kvgated on the node",
        ) from error  # fmt: skip
    finally:
        connection.close()
    return {"gateway": one.name, "address": f"https://{one.node.address}:{PORT}", **completed(one, answer.status, data)}


def completed(one: WantedGateway, status: int, data: bytes) -> dict[str, Any]:
    """What the answer says of tokens. KvctlError KV-DEP-020."""
    try:
        if status != http.client.OK:
            raise ValueError(f"status {status}")
        usage = json.loads(data)["usage"]
        tokens = int(usage["completion_tokens"])
        if tokens < 1:
            raise ValueError("no token")
    except (ValueError, KeyError, TypeError) as error:
        raise KvctlError(
            "KV-DEP-020", f"no token came through the gateway of {one.node.name}", where="step generate",
            why=f"{error}: {data[:300].decode(errors='replace')}", fix="journalctl -u kvgated -u kvctl-snapshot there",
        ) from error  # fmt: skip
    return {"tokens": tokens, "prompt_tokens": int(usage["prompt_tokens"])}
