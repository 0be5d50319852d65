"""Who may ask this site's controller for leases: connectors, by their identity and their certificate."""

from dataclasses import dataclass
from pathlib import Path

from kvctl.connector.enrol import identity
from kvctl.connector.secretfile import write_secret
from kvctl.controller import settings as settings_file
from kvctl.controller.pki import Authority, Services, new_request

IDENTITY, KEY, CERTIFICATE, CA = "connector.key", "client.key", "client.crt", "ca.crt"


@dataclass(frozen=True, slots=True)
class ConnectorFiles:
    """What a connector's host needs, in one directory of mode 0700."""

    directory: Path
    name: str
    public: str  # 64 hexadecimal digits

    @property
    def identity(self) -> Path:
        return self.directory / IDENTITY


def connector(site_directory: Path, site: str, name: str, out: Path) -> ConnectorFiles:
    """Make and register a connector's identity and certificate. One that is in `out` already is kept.

    UsageError KV-CTL-021 for what cannot name one; KV-CONN-010 to 012 for files that cannot be read or written.
    """
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    public = identity(out / IDENTITY).public.hex()
    tls = site_directory / "tls"
    authority, services = Authority(tls, site), Services(tls)
    if not (out / KEY).exists() or name not in services.names():
        key, request = new_request(name)
        certificate = authority.service(name, request)
        services.add(name, certificate)
        write_secret(out / KEY, key)
        (out / CERTIFICATE).write_bytes((tls / "services" / f"{name}.crt").read_bytes())
    (out / CA).write_bytes(authority.certificate_path.read_bytes())
    settings_file.add_connector(site_directory, name, public)
    return ConnectorFiles(out, name, public)
