"""The certificates that the controller keeps of its site, for `kvctl check`."""

from collections.abc import Iterator
from pathlib import Path

from kvctl.controller.site import Site
from kvctl.fleet.checks.readings import Certificate

OWN = {"server": "server", "kvctld": "client", "ca": "ca"}  # file -> what it is for
ROLES = ("engine", "gateway")


def kept(site: Site) -> tuple[Certificate, ...]:
    """Every one below `tls/`; none where no controller ever made any."""
    folder = site.directory / "tls"
    return tuple(_all(site, folder)) if folder.is_dir() else ()


def _all(site: Site, folder: Path) -> Iterator[Certificate]:
    for name, use in OWN.items():
        if (folder / f"{name}.crt").exists():
            yield _read(folder / f"{name}.crt", name, use, "")
    for path in sorted(folder.glob("services/*.crt")):
        yield _of(site, path, "service")
    for path in sorted(folder.glob("daemons/*.crt")):
        yield _of(site, path, "store")


def _of(site: Site, path: Path, use: str) -> Certificate:
    """Whose it is: deployments name them `NODE-engine` and `NODE-gateway`, a store's `NODE`."""
    node, _, role = path.stem.rpartition("-")
    if role in ROLES and site.inventory.node(node):
        return _read(path, path.stem, role, node)
    known = path.stem if site.inventory.node(path.stem) else ""
    return _read(path, path.stem, use if known or use == "service" else "service", known)


def _read(path: Path, name: str, use: str, node: str) -> Certificate:
    from cryptography import x509

    try:
        ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.date()
    except (OSError, ValueError) as error:
        return Certificate(name, use, node, None, f"{path}: {error}")
    return Certificate(name, use, node, ends)
