"""The tier inside vLLM 0.32 and 0.33: a connector that tells the tier about requests, and the tier itself.

    --prefix-caching-hash-algo sha256_cbor --kv-transfer-config '{"kv_connector": "KvctlConnector",
      "kv_connector_module_path": "kvctl.connector.vllm_tier", "kv_role": "kv_both",
      "kv_load_failure_policy": "recompute", "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec",
      "cpu_bytes_to_use": ..., "blocks_per_chunk": ..., "secondary_tiers": [{"type": "KvctlTier",
      "module_path": "kvctl.connector.vllm_tier", ...}]}}'

vLLM's own OffloadingConnector tells a tier neither a request's cache_salt nor its hashes before they are looked up.
KvctlConnector is that connector, and tells. Everything here runs in the scheduler's process; an exception would end the
engine, so none leaves a method: it is logged, counted, and a miss.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, ClassVar, TypeVar

from kvctl.connector.engine import check_engine
from kvctl.connector.fingerprint import Fingerprint
from kvctl.connector.handle import PARAMETER
from kvctl.connector.tier_adapters import Adapters
from kvctl.connector.tier_counts import METRICS
from kvctl.connector.tier_fingerprint import adapter_settings, of_engine
from kvctl.connector.tier_grants import Bearer
from kvctl.connector.tier_jobs import Done
from kvctl.connector.tier_options import Options, check_policy, read_options
from kvctl.connector.tier_prints import tell
from kvctl.connector.tier_restore import Answer, Chunk, Shape, Spot
from kvctl.connector.tier_seam import (
    JobResult,
    KVConnectorRole,
    LookupResult,
    Medium,
    OffloadingConnector,
    OffloadingConnectorStats,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    RequestOffloadingContext,
    SecondaryTierManager,
    get_hash_fn_by_name,
    get_offload_group_idx,
    init_logger,
)
from kvctl.connector.tier_service import Tier
from kvctl.types.errors import RefusedError

log = init_logger("vllm.kvctl")
T = TypeVar("T")
ROOT_SEED = "vllm-none-hash"  # vllm.v1.core.kv_cache_utils.DEFAULT_NONE_HASH_SEED
ANSWERS = {Answer.HIT: LookupResult.HIT, Answer.MISS: LookupResult.MISS, Answer.RETRY: LookupResult.RETRY}


class KvctlConnector(OffloadingConnector):  # type: ignore[misc]
    """OffloadingConnector, which also tells its KvctlTier about requests."""

    building: ClassVar[tuple[Any, Any] | None] = None  # VllmConfig and KVCacheConfig of the one under construction

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        self._tier: KvctlTier | None = None
        KvctlConnector.building = (vllm_config, kv_cache_config)
        try:
            super().__init__(vllm_config, role, kv_cache_config)
        finally:
            KvctlConnector.building = None
        if role == KVConnectorRole.SCHEDULER:
            tiers = [tier for tier in self.scheduler.manager.secondary_tiers if isinstance(tier, KvctlTier)]
            if len(tiers) != 1:
                raise _one_tier(len(tiers))
            self._tier = tiers[0]

    def on_new_request(self, request: Any) -> None:
        if self._tier is not None:
            self._tier.announce(request)
        super().on_new_request(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        found, later = super().get_num_new_matched_tokens(request, num_computed_tokens)
        if self._tier is not None and found is not None:
            self._tier.matched(request.request_id, num_computed_tokens + found)
        return found, later

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        if self._tier is not None:
            self._tier.ended(request)
        return super().request_finished_all_groups(request, block_ids)  # type: ignore[no-any-return]

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        if self._tier is not None:
            self._tier.ended(request)
        return super().request_finished(request, block_ids)  # type: ignore[no-any-return]


def _one_tier(found: int) -> RefusedError:
    return RefusedError(
        "KV-VLLM-007",
        f"the engine has {found} tiers of kvctl",
        where="kv_connector_extra_config.secondary_tiers",
        why="a request's chunks belong to one pool of stores",
        fix='give exactly one tier of "type": "KvctlTier"',
    )


class KvctlTier(SecondaryTierManager):  # type: ignore[misc]
    """A pool of kvctl's stores behind the engine's host tier. Options: `kvctl.connector.tier_options.Options`."""

    medium = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        **given: Any,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        options = read_options(given)
        vllm, cache = _configs()
        check_engine(
            vllm.cache_config.prefix_caching_hash_algo,
            os.environ,
            vllm.parallel_config.nnodes,
            world_size=vllm.parallel_config.world_size,
            local_world_size=vllm.parallel_config.local_world_size,
        )
        check_policy(vllm.kv_transfer_config.kv_load_failure_policy)
        self._rows = primary_kv_view.cast("B")
        self._row = self.block_size_bytes
        print_ = fingerprint(vllm, cache, offloading_spec.config, self._row, options)
        tell(print_, "the model", options.fingerprints)
        self._shape = shape(print_, offloading_spec.config)
        told = partial(tell, folder=options.fingerprints)
        adapters = Adapters(print_, self._shape, adapter_settings(vllm), time.time_ns(), told)
        self._tier = Tier(options, self._shape, primary_kv_view.nbytes // self._row, adapters)
        self._requests: dict[str, Any] = {}  # of vLLM, until their first token
        self._warn_if_small(vllm.model_config.max_model_len, primary_kv_view.nbytes // self._row)
        self._tier.start()

    def _warn_if_small(self, longest: int, rows: int) -> None:
        needed = sum(-(-longest // tokens) for tokens in self._shape.tokens.values())
        if rows < needed:
            log.warning(
                "KV-VLLM-021: the host tier has %d rows, the longest context needs %d: what does not fit is a miss."
                " Raise cpu_bytes_to_use to the number of restores at one time x %d bytes",
                rows,
                needed,
                needed * self._row,
            )

    def announce(self, request: Any) -> None:
        self._safely(lambda: self._announce(request), None)

    def _announce(self, request: Any) -> None:
        given = request.kv_transfer_params
        handle = given.get(PARAMETER) if isinstance(given, dict) else None
        adapter = request.lora_request
        bearer = Bearer(handle, request.cache_salt, None if adapter is None else str(adapter.lora_path))
        self._tier.announce(request.request_id, request.num_prompt_tokens, request.block_hashes, bearer)
        self._requests[request.request_id] = request

    def matched(self, name: str, tokens: int) -> None:
        self._safely(lambda: self._tier.matched(name, tokens), None)

    def ended(self, request: Any) -> None:
        """A request leaves the scheduler, after its last token or before its first."""
        self._safely(lambda: self._see(request.request_id), None)

    def lookup(self, key: Any, req_context: Any) -> Any:
        return self._safely(lambda: self._lookup(key, req_context), LookupResult.MISS)

    def _lookup(self, key: Any, context: Any) -> Any:
        spot = self._spot(key, context)
        return LookupResult.MISS if spot is None else ANSWERS[self._tier.lookup(context.req_id, spot)]

    def submit_store(self, job_metadata: Any) -> None:
        self._submit(job_metadata, self._tier.store)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(job_metadata, self._tier.load)

    def _submit(self, job: Any, begin: Callable[[int, str, list[Chunk]], None]) -> None:
        try:
            begin(job.job_id, job.req_context.req_id, self._chunks(job))
        except Exception:  # noqa: BLE001  it would end the engine
            self._told()
            self._tier.refuse(job.job_id)

    def _chunks(self, job: Any) -> list[Chunk]:
        """A chunk that is no whole one of its request's chain is left out: it answered MISS, and is not stored."""
        found = []
        for key, row in zip(job.keys, job.chunk_ids, strict=True):
            spot = self._spot(key, job.req_context)
            if spot is not None:
                begin = int(row) * self._row
                found.append(Chunk(bytes(key), spot, self._rows[begin : begin + self._row]))
        if job.is_promotion and len(found) < len(job.keys):
            raise ValueError("the engine wants a chunk that the tier did not offer")
        return found

    def _spot(self, key: Any, context: Any) -> Spot | None:
        end = context.get_offload_key_position(key)
        group = get_offload_group_idx(key)
        tokens = self._shape.tokens.get(group)
        if end is None or tokens is None or end % tokens:
            return None
        return Spot(group, end // tokens - 1)

    def get_finished_jobs(self) -> Iterable[Any]:
        none: list[Done] = []
        done = self._safely(self._tier.finished, none)
        return [JobResult(job.number, job.success, job.keys, job.seconds, job.size) for job in done]

    def on_new_request(self, req_context: Any) -> Any:
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        self._safely(lambda: self._finish(req_context.req_id), None)

    def _finish(self, name: str) -> None:
        self._requests.pop(name, None)
        self._tier.finish(name)

    def on_schedule_end(self, context: Any) -> None:
        self._safely(lambda: self._watch(context.new_req_ids), None)

    def _watch(self, new: Collection[str]) -> None:
        for name in self._tier.unmeasured():
            self._see(name)
        for name in new:
            self._tier.scheduled(name)

    def _see(self, name: str) -> None:
        """Whether a request that is being computed has come to its first token."""
        request = self._requests.get(name)
        if request is not None and request.num_output_tokens:
            self._tier.produced(name)
            del self._requests[name]

    def drain_jobs(self) -> None:
        self._safely(self._tier.drain, None)

    def shutdown(self) -> None:
        self._tier.close()
        self._rows.release()

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        return {
            name: (OffloadingGaugeMetadata if metric.gauge else OffloadingCounterMetadata)(metric.text, metric.labels)
            for name, metric in METRICS.items()
        }

    def get_stats(self) -> Any:
        return self._safely(self._stats, None)

    def _stats(self) -> Any:
        counted, gauges = self._tier.stats()
        stats = OffloadingConnectorStats()
        for (name, labels), number in counted.items():
            stats.increase_counter(name, number, labels)
        for (name, labels), number in gauges.items():
            stats.set_gauge(name, number, labels)
        return stats

    def _safely(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception:  # noqa: BLE001  it would end the engine
            self._told()
            return otherwise

    def _told(self) -> None:
        log.exception("KV-VLLM-020: the tier's own error; to the engine it is a miss")
        self._tier.counts.add("kvctl_tier_defects")


def _configs() -> tuple[Any, Any]:
    found = KvctlConnector.building
    if found is None:
        raise RefusedError(
            "KV-VLLM-002",
            "the tier runs under another connector than its own",
            where="--kv-transfer-config: kv_connector",
            why="only KvctlConnector tells the tier a request's salt, without which a handle proves nothing",
            fix='set "kv_connector": "KvctlConnector", "kv_connector_module_path": "kvctl.connector.vllm_tier"',
        )
    return found


def fingerprint(vllm: Any, cache: Any, offload: Any, row: int, options: Options) -> Fingerprint:
    root = get_hash_fn_by_name(vllm.cache_config.prefix_caching_hash_algo)(ROOT_SEED)
    return of_engine(
        vllm,
        cache,
        offload,
        row_bytes=row,
        hash_root=root,
        model=options.model,
        weights=options.weights,
        tokenizer=options.tokenizer,
    )


def shape(print_: Fingerprint, offload: Any) -> Shape:
    tokens = {group.group_id: group.tokens_per_block * offload.cache.blocks_per_chunk for group in offload.groups}
    hashes = {group: count // offload.cache.tokens_per_hash for group, count in tokens.items()}
    return Shape(print_.digest(), print_.row_bytes, tokens, hashes)
