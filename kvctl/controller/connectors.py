"""Connectors of deployed daemons: their certificates, and the list of them that every store has."""

from collections.abc import Mapping
from typing import Any

import yaml
from cryptography import x509

from kvctl.controller import settings as settings_file
from kvctl.controller.acts import must
from kvctl.controller.books import site_identity
from kvctl.controller.deploy_steps import Enrolled, Work, authority_of, plan_of
from kvctl.controller.pki import Services, fingerprint, lasts, requested_key
from kvctl.controller.site import Site
from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import RefusedError
from kvctl.types.plans import Change, Plan

CONFIG = "/etc/kvctl/kvstored.yaml"
SECONDS = 30.0
WRITTEN = "# Written by kvctl deploy storage.\n"


def certified(site: Site, name: str, enrolled: Enrolled) -> tuple[str, str]:
    """The service's certificate for the key that it made, and the site's CA, PEM; the one it has while it is good."""
    authority, services = authority_of(site), Services(site.directory / "tls")
    request = enrolled.request.encode()
    if name not in services.names() or not good(services.certificate(name), request):
        made = authority.service(name, request)
        about = {"name": name, "identity": enrolled.identity, "certificate_sha256": fingerprint(made)}
        must(site.ledger, "deploy.enrolled", about)
        services.add(name, made)
    found = (site.directory / "tls" / "services" / f"{name}.crt").read_text()
    return found, authority.certificate_path.read_text()


def good(certificate: x509.Certificate, request: bytes) -> bool:
    return certificate.public_key() == requested_key(request) and lasts(certificate)


def enrol_connector(site: Site, name: str, enrolled: Enrolled) -> tuple[str, str]:
    """The same, and from then on the connector may have leases. RefusedError KV-DEP-025 for a key that another has."""
    check_own(site, name, enrolled.identity)
    found = certified(site, name, enrolled)
    settings_file.add_connector(site.directory, name, enrolled.identity)
    return found


def check_own(site: Site, name: str, identity: str) -> None:
    """Stores take no configuration in which two have one key."""
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    known = {"kvctld": site_identity(site.directory / "site.key").public.hex(), **about.connectors}
    for other, key in known.items():
        if key == identity and other != name:
            raise RefusedError(
                "KV-DEP-025", f"{name} has the key of {other}", why="a connector's key is its own: was a disk copied?",
                fix="remove the key file on one of the nodes, and deploy to it again",
            )  # fmt: skip


def forget(site: Site, name: str, section: str) -> None:
    """A service that is not known any more: no lease, no snapshot, no certificate that counts."""
    must(site.ledger, "deploy.forgotten", {"name": name, "from": section})
    settings_file.remove(site.directory, section, name)
    Services(site.directory / "tls").remove(name)


def tell_stores(site: Site) -> Plan | None:
    """A plan that makes the registered connectors known to the stores that lack some; None when none does.

    Stores that are not nodes of the inventory are left to whoever runs them. UnreachableError as SSH gives it.
    """
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    controller = site_identity(site.directory / "site.key").public.hex()
    connectors = {"kvctld": controller, **about.connectors}
    names = [node.name for node in site.inventory.nodes if node.name in about.stores]
    targets = resolve(site.inventory, site.directory, nodes=names)
    work = []
    for name in names:
        before = config_of(targets[name])
        after = with_connectors(before, connectors)
        if after != before:
            work.append(Work(name, {"config": after}, changes(before, connectors), {}))
    return plan_of(site, "kvstored", "connectors", "deploy.serving", work) if work else None


def config_of(target: Target) -> str:
    """A store's configuration, as its node has it. KvctlError when it has none."""
    command = ssh.as_root(target, f"cat {CONFIG}")
    with ssh.connect(target, timeout=SECONDS) as session:
        result = session.run(ssh.bounded(command, SECONDS), timeout=SECONDS)
    if result.rc:
        raise ssh.explain(target, "read the store's configuration", result)
    return result.out.decode()


def with_connectors(text: str, connectors: Mapping[str, str]) -> str:
    """The configuration with this list; the very same text when it has it."""
    document: dict[str, Any] = yaml.safe_load(text)
    wanted = dict(sorted(connectors.items()))
    if document.get("connectors") == wanted:
        return text
    document["connectors"] = wanted
    return WRITTEN + yaml.safe_dump(document, sort_keys=False)


def changes(text: str, connectors: Mapping[str, str]) -> tuple[Change, ...]:
    before = yaml.safe_load(text).get("connectors") or {}
    names = sorted(before.keys() | connectors.keys())
    return tuple(
        Change(name, "connector", str(before.get(name, ""))[:16], connectors.get(name, "")[:16])
        for name in names
        if before.get(name) != connectors.get(name)
    )
