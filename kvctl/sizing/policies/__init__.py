"""Eviction policies: which key leaves next. The simulator and the store run the same ones."""

from collections.abc import Callable, Mapping
from typing import Any

from kvctl.sizing.policies.arc import ARC
from kvctl.sizing.policies.cost_aware import CostAware
from kvctl.sizing.policies.entry import Entry, Policy
from kvctl.sizing.policies.lfu import LFU
from kvctl.sizing.policies.queues import FIFO, LRU
from kvctl.sizing.policies.s3fifo import S3FIFO
from kvctl.sizing.policies.sieve import SIEVE

POLICIES: Mapping[str, Callable[[], Policy[Any]]] = {
    "lru": LRU,
    "fifo": FIFO,
    "lfu": LFU,
    "sieve": SIEVE,
    "s3fifo": S3FIFO,
    "arc": ARC,
    "cost-aware": CostAware,
}

__all__ = ["ARC", "FIFO", "LFU", "LRU", "POLICIES", "S3FIFO", "SIEVE", "CostAware", "Entry", "Policy"]
