"""vLLM's tiered offloading where there is no GPU: `spec_name` CpuTieringSpec, `spec_module_path` this module.

vLLM refuses to build its copy worker on a machine without a GPU. This one copies between the engine's own memory and
the host tier with plain copies, and leaves all else as it is: manager, host tier, and the tiers behind it. For tests,
and for sites that compute on CPUs. vLLM 0.32 and 0.33.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found]
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult  # type: ignore[import-not-found]
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion  # type: ignore[import-not-found]
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # type: ignore[import-not-found]


@dataclass(frozen=True, slots=True)
class Pages:
    """One cache tensor: its blocks in the engine, its columns of a row in the host tier, and bytes of a block in it."""

    blocks: Any  # int8, (blocks, bytes)
    rows: Any  # int8, (chunks, blocks of a chunk x bytes)
    size: int


class CopyWorker(OffloadingWorker):  # type: ignore[misc]
    """Copies when it is told to, so a job is over when it was submitted."""

    def __init__(self, kv_caches: Any, blocks_per_chunk: int, region: Any) -> None:
        if len(kv_caches.group_data_refs) != 1:
            raise ValueError("a model with several groups of KV cache is not copied on a CPU")
        self._blocks_per_chunk = blocks_per_chunk
        self._region = region
        self._done: list[Any] = []
        self._pages = [
            Pages(
                cache.tensor.view(torch.int8).view(-1, cache.page_size_bytes),
                region.create_next_worker_view(cache.page_size_bytes * blocks_per_chunk),
                cache.page_size_bytes,
            )
            for cache in kv_caches.tensors
        ]

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        return self._copy(job_id, src_spec, dst_spec, store=True)

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any, expedited: bool = False) -> bool:
        return self._copy(job_id, dst_spec, src_spec, store=False)

    def _copy(self, job_id: int, engine: Any, host: Any, *, store: bool) -> bool:
        begun = time.monotonic()
        # The first block may lie inside its chunk, when the chunks before it are in the engine already.
        first = int(engine.block_indices[0]) % self._blocks_per_chunk
        copied = 0
        for at, block in enumerate(engine.block_ids, first):
            chunk, part = divmod(at, self._blocks_per_chunk)
            row = int(host.block_ids[chunk])
            for pages in self._pages:
                there = pages.rows[row, part * pages.size : (part + 1) * pages.size]
                here = pages.blocks[int(block)]
                there.copy_(here) if store else here.copy_(there)
                copied += pages.size
        self._done.append(TransferResult(job_id, True, copied, time.monotonic() - begun))
        return True

    def get_finished(self) -> list[Any]:
        done, self._done = self._done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        """Nothing is ever under way."""

    def shutdown(self) -> None:
        self._pages.clear()  # the region's memory is not unmapped while views of it are left
        self._region.cleanup()


class CpuTieringSpec(TieringOffloadingSpec):  # type: ignore[misc]
    _copies: CopyWorker | None = None

    def get_worker(self, kv_caches: Any) -> Any:
        if self._copies is None:
            region = SharedOffloadRegion(
                engine_id=self._engine_id,
                num_chunks=self.num_chunks,
                rank=self.config.parallel.rank,
                kv_bytes_per_chunk=self.kv_bytes_per_chunk,
                cpu_page_size=self.cpu_page_size_per_worker,
            )
            self._copies = CopyWorker(kv_caches, self.blocks_per_chunk, region)
        return self._copies
