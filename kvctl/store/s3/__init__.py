"""The object and archive tiers: sealed chunks in any S3-compatible cluster."""

from kvctl.store.s3.bucket import Settings
from kvctl.store.s3.tier import S3Tier

__all__ = ["S3Tier", "Settings"]
