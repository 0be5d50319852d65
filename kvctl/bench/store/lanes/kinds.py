"""Which lane a setup names."""

from kvctl.bench.store.jobs import Setup
from kvctl.bench.store.lanes.http import HttpWay
from kvctl.bench.store.lanes.kvstored import KvstoredWay
from kvctl.bench.store.lanes.lane import Way
from kvctl.bench.store.lanes.mooncake import MooncakeWay
from kvctl.bench.store.lanes.redis import RedisWay
from kvctl.bench.store.lanes.s3 import S3Way
from kvctl.bench.store.lanes.streams import MemoryWay, RawWay
from kvctl.connector.seal import Sealer


def way(setup: Setup) -> Way:
    """KeyError for a lane that there is none of."""
    sealer = Sealer(bytes.fromhex(setup.epoch), bytes.fromhex(setup.seal_key))
    match setup.lane:
        case "raw":
            return RawWay(setup)
        case "memory":
            return MemoryWay(setup)
        case "kvstored":
            return KvstoredWay(setup)
        case "redis":
            return RedisWay(setup, sealer)
        case "http":
            return HttpWay(setup, sealer)
        case "s3":
            return S3Way(setup, sealer)
        case "mooncake":
            return MooncakeWay(setup, sealer)
    raise KeyError(setup.lane)
