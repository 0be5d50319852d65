"""Services that come with a certificate of the site's CA: gateways and connectors. Forgetting one ends its access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding

from kvctl.controller.pki import Authority, Services, fingerprint
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import Nothing, ServiceAdd, ServiceNamed

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service


def add(ctl: Controller, who: Principal, p: ServiceAdd) -> dict[str, Any]:
    """Sign a service's request. One with that name loses its present certificate."""
    known = services(ctl)
    known.check(p.name)
    certificate = Authority(ctl.directory / "tls", ctl.site).service(p.name, p.request.encode())
    found = {"name": p.name, "certificate_sha256": fingerprint(certificate)}
    replaces = p.name in known.names()
    if p.dry_run:
        return {"schema": "kvctl.service.add/1", "would": {"add": p.name, "replace": replaces}}
    ctl.books.commit(who, [Event("service.added", {**found, "replaces": replaces})])
    known.add(p.name, certificate)
    authority = (ctl.directory / "tls" / "ca.crt").read_text()
    return {
        "schema": "kvctl.service.add/1", **found, "certificate": certificate.public_bytes(Encoding.PEM).decode(),
        "ca": authority, "expires_at": ends(certificate),
    }  # fmt: skip


def ls(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    known = services(ctl)
    found = [
        {"name": name, "certificate_sha256": fingerprint(one), "expires_at": ends(one)}
        for name in known.names()
        for one in [known.certificate(name)]
    ]
    return {"schema": "kvctl.service.ls/1", "services": found}


def remove(ctl: Controller, who: Principal, p: ServiceNamed) -> dict[str, Any]:
    """From its next request on, the service is nobody."""
    known = services(ctl)
    if p.name not in known.names():
        raise UsageError("KV-CTL-023", f"there is no service {p.name!r}", fix="kvctl controller services lists them")
    if p.dry_run:
        return {"schema": "kvctl.service.remove/1", "would": {"remove": p.name}}
    known.remove(p.name)
    ctl.books.commit(who, [Event("service.removed", {"name": p.name})])
    return {"schema": "kvctl.service.remove/1", "name": p.name}


def services(ctl: Controller) -> Services:
    return Services(ctl.directory / "tls")


def ends(certificate: Any) -> str:
    return str(certificate.not_valid_after_utc.isoformat(timespec="seconds").replace("+00:00", "Z"))


SERVICES: dict[str, Service] = {"service.add": add, "service.ls": ls, "service.remove": remove}
