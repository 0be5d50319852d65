"""The options of KvctlTier, as `kv_connector_extra_config.secondary_tiers` holds them."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from kvctl.connector.placement import Copies, Node, PoolMap, verified_map
from kvctl.types.errors import RefusedError, UsageError

WHERE = "kv_connector_extra_config.secondary_tiers: KvctlTier"


class Role(StrEnum):
    BOTH = "both"
    PRODUCER = "producer"  # stores, never loads
    CONSUMER = "consumer"  # loads, never stores


class SingleTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site without a gateway: every request is of the scope of this lease."""

    lease: Path


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """ValueError for options that leave something open or contradict each other."""

    identity: Path  # Ed25519 private key of this engine, mode 0600
    leases: Path | None = None  # directory of key leases, one file a tenant and domain
    gateways: tuple[str, ...] = ()  # public keys whose handles count, hexadecimal
    single_tenant: SingleTenant | None = None
    pool: Path | None = None  # a signed pool map,
    controllers: tuple[str, ...] = ()  # by one of these public keys, hexadecimal
    stores: tuple[Node, ...] = ()  # or the nodes themselves
    stripe: int = 8
    copies: Copies = Copies()
    role: Role = Role.BOTH
    model: Path | None = None  # the model's directory, where the engine was given another name for it
    weights: str | None = None  # sha256: or revision: of its weights; none: they are read and digested
    tokenizer: str | None = None
    fingerprints: Path | None = None  # directory in which the engine's fingerprints are kept, for `kvctl fingerprint`
    deadline_ms: int = 250  # for the question which chunks are there
    store_deadline_ms: int = 10_000  # for storing what one step gave
    lease_ms: int = 10_000  # protection from eviction for chunks that are about to be loaded
    alpha: float = 1.0  # load when its predicted time is below alpha x the predicted recompute
    # Of the predicted recompute, at most waited for a store that does not deliver. A quarter may be lost in all: the
    # rest is for the steps between which the engine does not look, and for what the prediction is wrong by.
    max_wait_share: float = 0.2
    assumed_tokens_per_second: float = 20_000.0  # prefill, until it was measured
    workers: int = 4  # threads that load; half as many store
    connections: int = 4  # to each store
    prefetch_bytes: int = 256 << 20  # plaintext held for requests that wait in the queue; 0: no prefetch
    store_share: float = 0.5  # of the host tier's rows, at most held by chunks on their way to a store
    locality: str | None = None  # vLLM's own, passed through

    def __post_init__(self) -> None:
        if (self.pool is None) == (not self.stores):
            raise ValueError("give the stores either as `stores` or as `pool`, a signed map")
        if self.pool is not None and not self.controllers:
            raise ValueError("a `pool` map needs `controllers`: whose signature counts")
        if self.single_tenant is None and (not self.gateways or self.leases is None):
            raise ValueError("give `gateways` and `leases`, or `single_tenant` for an engine without a gateway")
        if self.single_tenant is not None and self.gateways:
            raise ValueError("`single_tenant` takes requests without a handle: with `gateways` it would undo them")
        for name in ("deadline_ms", "store_deadline_ms", "alpha", "assumed_tokens_per_second", "workers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` is above 0")
        if not 0 < self.max_wait_share <= 1 or not 0 < self.store_share <= 1 or self.prefetch_bytes < 0:
            raise ValueError("shares are above 0 and at most 1, `prefetch_bytes` at least 0")
        for key in (*self.gateways, *self.controllers):
            if len(bytes.fromhex(key)) != 32:
                raise ValueError(f"{key!r} is no public key of 64 hexadecimal digits")

    @property
    def loads(self) -> bool:
        return self.role is not Role.PRODUCER

    @property
    def stores_chunks(self) -> bool:
        return self.role is not Role.CONSUMER

    @property
    def trusted(self) -> tuple[bytes, ...]:
        """Public keys of the gateways."""
        return tuple(bytes.fromhex(key) for key in self.gateways)

    def pool_map(self) -> PoolMap:
        """The map in force now. UsageError KV-VLLM-006 when it cannot be read; KV-CONN-030 and 031 for its text."""
        if self.pool is None:
            return PoolMap(1, self.stores, self.stripe, self.copies)
        try:
            data = self.pool.read_bytes()
        except OSError as error:
            raise UsageError(
                "KV-VLLM-006",
                "the pool map cannot be read",
                where=str(self.pool),
                why=error.strerror or str(error),
                fix="give the path of the map that the controller signed, readable for the engine's user",
            ) from error
        trusted = [bytes.fromhex(key) for key in self.controllers]
        return verified_map(data, trusted, where=str(self.pool))


def as_path(kind: type, value: Any) -> Path:
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError(f"expected a path, got {value!r}")


def read_options(given: Mapping[str, Any]) -> Options:
    """UsageError KV-VLLM-001, naming the option that is wrong."""
    try:
        return msgspec.convert(dict(given), Options, dec_hook=as_path)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(
            "KV-VLLM-001",
            "the tier's options are not in order",
            where=WHERE,
            why=str(error),
            fix="see docs/vllm.md for every option and an example",
        ) from None


def check_policy(failure_policy: str) -> None:
    """RefusedError KV-VLLM-003 unless failed loads are recomputed."""
    if failure_policy != "recompute":
        raise RefusedError(
            "KV-VLLM-003",
            f"the engine answers a failed load with {failure_policy!r}",
            where="--kv-transfer-config: kv_load_failure_policy",
            why="a chunk that does not open must cost a recompute, never an answer",
            fix='set "kv_load_failure_policy": "recompute"',
        )
