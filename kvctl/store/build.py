"""From a configuration to a running store."""

import time
from pathlib import Path

from kvctl.store import tenants
from kvctl.store.api import Tier
from kvctl.store.buffers import BufferPool
from kvctl.store.config import BucketTier, Config, MountTier
from kvctl.store.deltas import Deltas
from kvctl.store.frozen import Frozen
from kvctl.store.guard import Guard
from kvctl.store.holds import Holds
from kvctl.store.leases import Leases
from kvctl.store.lineage import Lineage
from kvctl.store.mounts import known, remember
from kvctl.store.pushed import load
from kvctl.store.ram import RamTier
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.store.space import Rules, Space
from kvctl.store.store import Store
from kvctl.store.tenants import Served, TenantSet
from kvctl.types.chunks import TierName

RAM_SHARE = 0.75  # of the memory for chunks; the rest is for chunks on their way in and out


def build_store(config: Config) -> Store:
    """Open every tier. Raises KvctlError for one that cannot be opened; those opened before are closed again."""
    state = Path(config.state)
    lineage = Lineage(state / "lineage")
    holds = Holds(state / "holds.json", lineage.subjects_of)
    guard = Guard(holds, Frozen(state / "frozen.jsonl"), Deltas(config.limits.deltas), lineage)
    pool = BufferPool(config.ram)
    ram = RamTier(int(config.ram * RAM_SHARE), time.time)
    pool.on_pressure(ram.evict)
    tiers: list[Tier] = []
    try:
        for name in TierName:
            wanted = getattr(config.tiers, name)
            if wanted is not None:
                tiers.append(open_tier(config, name, wanted, pool, ram, guard))
        leases = Leases(time.monotonic)
        space = Space(tiers, leases, rules(config), config.policy.eviction, guard)
        space.push(Served(load(tenants.file(config.state), TenantSet)).quotas())
        return Store(tiers, pool, ram, leases, space, time.time, state / "moves", guard)
    except BaseException:
        for tier in tiers:
            tier.close()
        raise


def open_tier(
    config: Config, name: TierName, tier: MountTier | BucketTier, pool: BufferPool, ram: RamTier, guard: Guard
) -> Tier:
    if isinstance(tier, MountTier):
        before = known(Path(config.state))
        mounts = [
            MountConfig(Path(mount.path), mount.capacity, str(Path(mount.path)) in before) for mount in tier.mounts
        ]
        opened = SegmentsTier(name, mounts, pool, ram, time.time, guard=guard)
        remember(Path(config.state), {place.name for place in opened.stat().places if place.state == "ok"})
        return opened
    from kvctl.store.s3 import S3Tier, Settings  # a store without buckets loads no S3 client

    bucket = tier.s3
    settings = Settings(
        bucket.bucket,
        bucket.endpoint,
        bucket.prefix or config.node,
        Path(bucket.credentials) if bucket.credentials else None,
        bucket.region,
        Path(bucket.root_certificate) if bucket.root_certificate else None,
    )
    return S3Tier(settings, name, tier.capacity, Path(config.state) / name, pool, time.time, guard=guard)


def rules(config: Config) -> Rules:
    policy = config.policy
    return Rules(dict(config.quotas), config.default_quota, policy.second_touch_above, policy.high, policy.low)


def reconfigure(store: Store, config: Config) -> None:
    """Quotas, admission, fill marks and the room for deltas of a new configuration, from now on."""
    store.space.replace(rules(config))
    store.guard.deltas.resize(config.limits.deltas)
