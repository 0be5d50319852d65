"""One sealed chunk written to a store and read back: what a deployment is judged by, and what an operator asks for.

`python -m kvctl.connector.canary --store ADDRESS --store-key HEX --identity FILE --lease FILE` prints what it saw as
JSON; exit code 0 when the chunk came back as it was.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from kvctl.connector.client import StoreClient
from kvctl.connector.failures import StoreError
from kvctl.connector.keys import Identity, KeyLease, load_lease
from kvctl.connector.naming import chunk_key
from kvctl.types.chunks import Ack, Meta
from kvctl.types.errors import KvctlError, UnreachableError

TENANT = "kvctl-canary"  # a scope that no tenant can have
SIZE = 1 << 20  # bytes of the chunk
LIFE = 60  # seconds until the store may forget it


@dataclass(frozen=True, slots=True)
class Canary:
    put: str  # the PUT's status
    durable_ms: float
    read: str  # hit, or why not
    read_ms: float

    @property
    def well(self) -> bool:
        return self.put in ("stored", "exists") and self.read == "hit"


def sing(client: StoreClient, lease: KeyLease, seconds: float = 10.0) -> Canary:
    """Write a chunk of random bytes durably, read it back and compare. UnreachableError KV-CONN-041."""
    key = chunk_key(lease.key.name_key, os.urandom(32), os.urandom(32), 0)
    data, back = os.urandom(SIZE), bytearray(SIZE)
    began = time.monotonic()
    try:
        put = client.put(lease, key, data, Meta(expires_at=int(time.time()) + LIFE), Ack.DURABLE, began + seconds)
        written = time.monotonic()
        (got,) = client.get_into(lease, [(key, memoryview(back))], written + seconds)
    except StoreError as error:
        raise UnreachableError("KV-CONN-041", "the store did not take or give a chunk", why=str(error)) from error
    read = "other bytes" if got.hit and back != data else str(got.status)
    return Canary(put.name.lower(), 1e3 * (written - began), read, 1e3 * (time.monotonic() - written))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvctl.connector.canary", description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--store-key", required=True)
    parser.add_argument("--identity", type=Path, required=True)
    parser.add_argument("--lease", type=Path, required=True)
    asked = parser.parse_args(argv)
    try:
        identity, lease = Identity.load(asked.identity), load_lease(asked.lease)
        client = StoreClient(asked.store, identity, bytes.fromhex(asked.store_key), connections=1)
        found = sing(client, lease)
    except KvctlError as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return int(error.exit_code)
    print(json.dumps(asdict(found) | {"well": found.well}))  # noqa: T201
    return 0 if found.well else 1


if __name__ == "__main__":
    sys.exit(main())
