"""A lab's engine and gateway as its controller sees them: keys, leases, the snapshot, and the stores they use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from kvctl.controller.settings import ControllerSettings
    from kvctl.fleet.lab.layout import Layout
    from kvctl.fleet.lab.serving import Files

ENGINE = "lab1"
GATEWAY_KEY = "gateway.key"


def serve(settings: ControllerSettings, layout: Layout, connector: Path, endpoint: str, tenant: str) -> Files:
    """Start an engine and a gateway for a tenant and wait until both answer. What runs already is kept.

    UsageError KV-LAB-057 without a connector, KV-LAB-041 without the tenant; what a lease was refused for;
    KV-LAB-053 when one of the processes does not come up.
    """
    from kvctl.fleet.lab import serving, serving_engine

    files = serving.Files.of(layout)
    if len(serving.running(files)) == len(serving.NAMES):
        return files
    serving.stop(files)
    home = serving_engine.engine_home()
    if not connector.exists():
        raise UsageError("KV-LAB-057", "the lab has no connector's keys", fix="kvctl lab connector, then start kvctld")
    for directory in (files.directory, files.leases):
        directory.mkdir(mode=0o700, parents=True)
    serving_engine.tiny_model(home, files.model)
    made = plan(settings, layout, files, home, connector, endpoint, tenant)
    first_leases(files, made)
    try:
        serving.start(files, made)
    except BaseException:
        end_processes(files)
        raise
    return files


def end_processes(files: Files) -> None:
    """Keeps the logs, which say why."""
    from kvctl.fleet.lab import serving

    kept = {name: files.log(name).read_bytes() for name in serving.NAMES if files.log(name).exists()}
    serving.stop(files)
    files.directory.mkdir(mode=0o700)
    for name, log in kept.items():
        files.log(name).write_bytes(log)


def plan(
    settings: ControllerSettings, layout: Layout, files: Files, home: Path, connector: Path, endpoint: str, tenant: str
) -> Any:
    from kvctl.connector.enrol import identity
    from kvctl.controller.enrolment import CA, CERTIFICATE, IDENTITY, KEY
    from kvctl.fleet.lab import serving, serving_engine

    gateway = identity(files.directory / GATEWAY_KEY)
    tier = {
        "type": "KvctlTier", "module_path": "kvctl.connector.vllm_tier", "identity": str(connector / IDENTITY),
        "leases": str(files.leases), "gateways": [gateway.public.hex()], "stores": store_nodes(settings),
        "assumed_tokens_per_second": 1000,
    }  # fmt: skip
    engine_id = f"{layout.name}-{ENGINE}"
    inside = ["nsenter", f"--net=/run/netns/{layout.name}", "--"]
    return serving.Plan(
        engine=[*inside, *serving_engine.argv(home, files.model, files.engine, engine_id, tier)],
        gateway=gateway_argv(settings, files), engine_id=engine_id, holder=identity(connector / IDENTITY).public.hex(),
        endpoint=endpoint, certificate=str(connector / CERTIFICATE), key=str(connector / KEY),
        ca=str(connector / CA), tenant=tenant, domains=domains(settings, tenant),
    )  # fmt: skip


def store_nodes(settings: ControllerSettings) -> list[dict[str, Any]]:
    """The deployed stores as the tier's option takes them. UsageError KV-LAB-058 when there is none."""
    from kvctl.client.traffic import stores

    public = stores(settings)
    found = [
        {"name": name, "addresses": [one.endpoint], "public_key": public[one.endpoint]}
        for name, one in settings.stores.items()
        if one.endpoint
    ]
    if not found:
        raise UsageError("KV-LAB-058", "no store is deployed", fix="kvctl deploy storage")
    return found


def site_key(settings: ControllerSettings) -> bytes:
    from kvctl.connector.keys import Identity

    return Identity.load(settings.directory / "site.key").public


def domains(settings: ControllerSettings, tenant: str) -> list[str]:
    """The tenant's trust domains, as the gateway's snapshot says."""
    from kvctl.connector.snapshotfile import read_snapshot

    snapshot = read_snapshot(settings.directory / "snapshot.json", [site_key(settings)], now=time.time())
    for view in snapshot.tenants:
        if view.name == tenant:
            return [domain.name for domain in view.domains]
    raise UsageError("KV-LAB-041", f"there is no tenant {tenant}", fix=f"kvctl tenant create {tenant} ...")


def gateway_argv(settings: ControllerSettings, files: Files) -> list[str]:
    import sys

    import yaml

    from kvctl.fleet.lab.serving_engine import MODEL

    usage = files.directory / "usage"
    usage.mkdir(mode=0o700)
    config = {
        "schema": 1, "gateway": "labgate", "site": settings.site, "listen": [f"unix:{files.gateway}"],
        "admin": str(files.admin), "identity": str(files.directory / GATEWAY_KEY),
        "snapshot": {
            "path": str(settings.directory / "snapshot.json"), "controllers": {settings.site: site_key(settings).hex()}
        },
        "engines": [{
            "name": ENGINE, "url": f"unix:{files.engine}", "models": [MODEL], "country": settings.country or "ZZ",
        }],
        "limits": {"queue_seconds": 300}, "usage": {"directory": str(usage)},
    }  # fmt: skip
    path = files.directory / "gateway.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return [sys.executable, "-m", "kvctl.gateway.main", "--config", str(path)]


def first_leases(files: Files, made: Any) -> None:
    """The leases once, here, so that a refusal is told to whoever asked."""
    from kvctl.fleet.lab.serving_supervisor import renewer

    for error in renewer(files, made).renew().values():
        raise error


def demonstrate(files: Files, key: str, tokens: int) -> Any:
    """One context computed and restored; see kvctl.fleet.lab.serving_demo.Shown."""
    from kvctl.fleet.lab.serving import Sockets
    from kvctl.fleet.lab.serving_demo import show

    return show(Sockets(files.engine, files.gateway), key, tokens)


def stop(layout: Layout) -> bool:
    """End engine and gateway of a lab and remove their files; False when there were none."""
    from kvctl.fleet.lab import serving

    return serving.stop(serving.Files.of(layout))
