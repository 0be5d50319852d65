"""A large write beside the engine: `python -m kvctl.bench.ttft.writer`, told by one line of JSON what and how fast.

It seals and stores new chunks until its standard input ends, and then prints how many bytes in how many seconds. A line
"going" tells when it is under way.
"""

import hashlib
import json
import os
import selectors
import sys
import time
from pathlib import Path

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import Identity, load_lease
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Meta

BEGUN = 8  # chunks until it is under way
KEPT = 10  # seconds that the store is to keep one


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    lease = load_lease(Path(setup["lease"]))
    plain = memoryview(bytearray(os.urandom(1 << 16) * (setup["chunk"] >> 16)))
    seed, stored, waiting = os.urandom(16), 0, selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    identity, key = Identity.load(Path(setup["identity"])), bytes.fromhex(setup["store_key"])
    with StoreClient(setup["address"], identity, key, connections=1) as client:
        begun = time.monotonic()
        # The wait for the end is the pace: until so many bytes are due.
        while not waiting.select(max(begun + stored * len(plain) / setup["rate"] - time.monotonic(), 0)):
            name = hashlib.sha256(seed + stored.to_bytes(8, "little")).digest()
            # With an end, so that a write that runs for long fills no store: one that is full takes no more.
            status = client.put(lease, name, plain, Meta(expires_at=int(time.time()) + KEPT))
            if status is not PutStatus.STORED:
                raise SystemExit(f"the store did not take a chunk of the large write: {status.name}")
            stored += 1
            if stored == BEGUN:
                print("going", flush=True)  # noqa: T201
        print(json.dumps({"bytes": stored * len(plain), "seconds": time.monotonic() - begun}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
