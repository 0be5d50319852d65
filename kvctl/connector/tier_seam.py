"""Everything of vLLM that the tier touches: imported here and nowhere else, and refused here when it is another's."""

from collections.abc import Collection

from kvctl.connector import tier_interface as interface

try:
    from vllm import __version__ as VERSION  # type: ignore[import-not-found]
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # type: ignore[import-not-found]
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (  # type: ignore[import-not-found]
        OffloadingConnectorStats,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import (  # type: ignore[import-not-found]
        OffloadingConnector,
    )
    from vllm.logger import init_logger  # type: ignore[import-not-found]
    from vllm.utils.hashing import get_hash_fn_by_name  # type: ignore[import-not-found]
    from vllm.v1.kv_offload.base import (  # type: ignore[import-not-found]
        LookupResult,
        Medium,
        OffloadingCounterMetadata,
        OffloadingGaugeMetadata,
        ReqContext,
        RequestOffloadingContext,
        ScheduleEndContext,
        get_offload_group_idx,
    )
    from vllm.v1.kv_offload.tiering.base import (  # type: ignore[import-not-found]
        JobResult,
        SecondaryTierManager,
        TransferJob,
    )
    from vllm.v1.request import Request  # type: ignore[import-not-found]
except ImportError as error:
    raise interface.refused("its version is not known", [str(error)]) from error

__all__ = [
    "JobResult",
    "KVConnectorRole",
    "LookupResult",
    "Medium",
    "OffloadingConnector",
    "OffloadingConnectorStats",
    "OffloadingCounterMetadata",
    "OffloadingGaugeMetadata",
    "RequestOffloadingContext",
    "SecondaryTierManager",
    "get_hash_fn_by_name",
    "get_offload_group_idx",
    "init_logger",
]


def problems(version: str = VERSION) -> Collection[str]:
    """In what this vLLM is another than the tier knows."""
    return [
        *interface.version_problems(version),
        *interface.call_problems(SecondaryTierManager, interface.TIER_CALLS),
        *interface.call_problems(OffloadingConnector, interface.CONNECTOR_CALLS),
        *interface.name_problems(TransferJob, interface.JOB),
        *interface.name_problems(JobResult, interface.JOB_RESULT),
        *interface.name_problems(ReqContext, interface.CONTEXT),
        *interface.name_problems(ScheduleEndContext, interface.STEP),
        *interface.name_problems(LookupResult, interface.ANSWERS),
        *interface.name_problems(Request, interface.REQUEST),
        *interface.name_problems(OffloadingConnectorStats, interface.STATS),
    ]


if found := problems():
    raise interface.refused(VERSION, found)
