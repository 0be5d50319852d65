"""The map of a site's stores that its engines follow: signed, with a version that grows when the stores change."""

from pathlib import Path

from kvctl.connector.keys import Identity
from kvctl.connector.placement import Copies, Node, PoolMap, sign_map, verified_map
from kvctl.connector.secretfile import write_secret
from kvctl.controller import settings as settings_file
from kvctl.controller.books import site_identity
from kvctl.controller.site import Site
from kvctl.controller.stores import StoreAddress, ask
from kvctl.types.errors import UsageError

FILE = "pool.json"


def current(site: Site, *, keep: bool = True) -> str:
    """The signed map as a file's text, made of what the stores say of themselves; the old one while it holds.

    `keep` false: nothing is written. UsageError KV-DEP-012 when no store is deployed; UnreachableError as of `ask`.
    """
    identity = site_identity(site.directory / "site.key")
    path = site.directory / FILE
    before = verified_map(path.read_bytes(), [identity.public], where=str(path)) if path.exists() else None
    wanted = renewed(before, nodes(site))
    return text(path, wanted, identity, before, keep=keep)


def renewed(before: PoolMap | None, found: tuple[Node, ...]) -> PoolMap:
    """The map in force, or the next one when these nodes are not its. Its stripe and copies stay."""
    if before is None:
        return PoolMap(1, found)
    if before.nodes == found:
        return before
    return PoolMap(before.version + 1, found, before.stripe, Copies(before.copies.private, before.copies.common))


def text(path: Path, wanted: PoolMap, identity: Identity, before: PoolMap | None, *, keep: bool) -> str:
    if wanted == before:
        return path.read_text()
    signed = sign_map(wanted, identity)
    if keep:
        write_secret(path, signed)
    return signed.decode()


def nodes(site: Site) -> tuple[Node, ...]:
    """By name; a store weighs as much as its tiers hold (GiB)."""
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    found = []
    for name, one in sorted(about.stores.items()):
        if one.endpoint:
            said = ask(StoreAddress.of(one), "stat")
            found.append(Node(name, (one.endpoint,), said["daemon"]["identity"], weight=capacity(said)))
    if not found:
        raise UsageError("KV-DEP-012", "no store is deployed", fix="kvctl deploy storage")
    return tuple(found)


def capacity(said: dict[str, object]) -> int:
    tiers = said.get("tiers")
    rows = tiers if isinstance(tiers, list) else []
    return max(1, sum(int(row.get("capacity") or 0) for row in rows if isinstance(row, dict)) >> 30)
