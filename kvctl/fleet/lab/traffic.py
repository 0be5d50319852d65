"""Tenants that write: leases from the controller, sealed chunks to the lab's stores, from inside the lab's network."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvctl.fleet.lab.layout import Layout
from kvctl.fleet.lab.writer import Order
from kvctl.types.errors import KvctlError

SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """One tenant's: users by name with their pseudonyms, hexadecimal; "" is a prompt registered as common."""

    tenant: str
    users: dict[str, str]
    chunks: int
    size: int
    model: str
    expires_at: int = 0


def send(layout: Layout, stores: dict[str, str], identity: Path, lease: Path, wanted: Traffic) -> dict[str, Any]:
    """Write it and read it back; counts by status, and bytes. KV-LAB-040 when the writer failed."""
    order = Order(
        stores, str(identity), str(lease), wanted.model, wanted.users, wanted.chunks, wanted.size, wanted.expires_at
    )
    done = subprocess.run(
        argv(layout), input=msgspec.json.encode(order), capture_output=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise KvctlError(
            "KV-LAB-040", f"nothing was written for {wanted.tenant}", why=done.stderr.decode("utf-8", "replace")[-400:]
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return {"tenant": wanted.tenant, **found}


def argv(layout: Layout) -> Sequence[str]:
    return ("nsenter", f"--net=/run/netns/{layout.name}", "--", sys.executable, "-m", "kvctl.fleet.lab.writer")
