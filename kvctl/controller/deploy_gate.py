"""What a deployment of engines is judged by: a prompt computed, stored sealed, forgotten, and restored from stores.

The scope is nobody's: its key is made here for this, its chunks are erased afterwards, and no tenant's is touched.
"""

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from kvctl.connector.handle import Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import KeyLease, LeaseFile
from kvctl.connector.probe import Asked
from kvctl.controller import settings as settings_file
from kvctl.controller.books import site_identity
from kvctl.controller.deploy import canary_lease
from kvctl.controller.deploy_steps import run_as
from kvctl.controller.site import Site
from kvctl.controller.stores import StoreAddress, ask
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, UnreachableError

SECONDS = 400.0
VOCABULARY = 1000  # every model has more tokens
SOCKET, LEASES = "/run/kvctl-engine/engine.sock", "/run/kvctl/leases"


@dataclass(frozen=True, slots=True)
class Gate:
    node: str
    target: Target
    python: str
    code: str
    holder: bytes  # the engine's public key
    model: str
    tokens: int


def judge(site: Site, gate: Gate) -> dict[str, Any]:
    """What the probe on the node saw.

    UnreachableError KV-DEP-016 when it could not be run, KvctlError KV-DEP-017 when a step went wrong, by its name:
    lease, tier, generate, store, forget, restore; and KV-DEP-018 when the restored context gave other tokens.
    """
    lease = canary_lease(site_identity(site.directory / "site.key"), gate.holder)
    try:
        seen = probe(gate, question(site, gate, lease))
    finally:
        erase(site, lease)
    if not seen["well"]:
        raise KvctlError(
            "KV-DEP-017", f"{gate.node} does not take back what it stored", where=f"step {seen['step']}",
            why=str(seen["why"])[:600], fix="journalctl -u kvctl-engine -u kvctl-leases on the node",
        )  # fmt: skip
    if not seen["same"]:
        raise KvctlError(
            "KV-DEP-018", f"{gate.node} gives other tokens for a restored context", where="step restore",
            why="its output after the restore is not the one that was computed",
            fix="in half precision near ties can fall either way: judge with arguments: {dtype: float32}",
        )  # fmt: skip
    return seen


def question(site: Site, gate: Gate, lease: KeyLease) -> bytes:
    scope, now = lease.scope, int(time.time())
    salt = cache_salt(lease.key.salt_key, scope.domain)
    handle = Handle(
        tenant=scope.tenant, domain=scope.domain, epoch=scope.epoch, salt_digest=salt_digest(salt),
        expires_at=now + int(SECONDS), chunk_expires_at=now + int(SECONDS),
    )  # fmt: skip
    held = LeaseFile(scope.tenant, scope.domain, scope.epoch.hex(), lease.key.root, lease.capability, lease.expires_at)
    signed = sign(handle, site_identity(site.directory / "site.key"))
    return msgspec.json.encode(
        Asked(
            msgspec.json.encode(held).decode(), signed, salt, gate.model, gate.tokens, VOCABULARY,
            secrets.token_hex(8),
        )
    )  # fmt: skip


def probe(gate: Gate, asked: bytes) -> dict[str, Any]:
    """Run it as the engine's user; the key travels on stdin. UnreachableError KV-DEP-016."""
    argv = [
        "env", f"PYTHONPATH={gate.code}", "PYTHONDONTWRITEBYTECODE=1", gate.python, "-P", "-m",
        "kvctl.connector.probe", "--socket", SOCKET, "--leases", LEASES,
    ]  # fmt: skip
    result = run_as(gate.target, "kvctl-engine", argv, stdin=asked, seconds=SECONDS)
    try:
        found: dict[str, Any] = json.loads(result.out)
    except ValueError as error:
        said = result.err.decode(errors="replace")
        raise UnreachableError(
            "KV-DEP-016", f"{gate.node} could not be judged", why=said.strip()[-400:] or f"exit code {result.rc}",
            fix="journalctl -u kvctl-engine on the node",
        ) from error  # fmt: skip
    return found


def erase(site: Site, lease: KeyLease) -> None:
    """Nobody's chunks are not to be counted, nor judged by residency."""
    about, scope = settings_file.read(site.directory, site=site.inventory.site.name), lease.scope
    for settings in about.stores.values():
        asked = {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex()}
        ask(StoreAddress.of(settings), "erase", asked)
