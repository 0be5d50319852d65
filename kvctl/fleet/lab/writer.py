"""A connector without an engine: writes sealed chunks of made-up conversations to a lab's stores, and reads them back.

Runs in the lab's network namespace, told on stdin what to write (see `Order`); says on stdout what became of it. The
chunks' contents are random bytes; keys, sealing, capability and protocol are those of every connector.
"""

import hashlib
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvctl.connector.client import StoreClient
from kvctl.connector.failures import StoreRefused
from kvctl.connector.keys import Identity, KeyLease, load_lease
from kvctl.connector.naming import chunk_key
from kvctl.types.chunks import MODEL_BYTES, NO_SUBJECT, Ack, Kind, Meta

CONNECTIONS = 2


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stores: dict[str, str]  # endpoint -> the store's public key, hexadecimal digits
    identity: str  # file
    lease: str  # file
    model: str
    conversations: dict[
        str, str
    ]  # a conversation's name -> its subject's pseudonym, hexadecimal; "" for a common prompt
    chunks: int  # of each conversation
    size: int  # bytes of a chunk
    expires_at: int = 0  # Unix seconds; 0: never


@dataclass(frozen=True, slots=True)
class Written:
    statuses: Counter[str]
    read: Counter[str]
    bytes: int


def write(order: Order) -> Written:
    """Every conversation in turn, its chunks over the stores in turn."""
    identity, lease = Identity.load(order.identity), load_lease(order.lease)
    clients = [
        StoreClient(endpoint, identity, bytes.fromhex(key), connections=CONNECTIONS)
        for endpoint, key in order.stores.items()
    ]
    fingerprint = hashlib.sha256(order.model.encode()).digest()
    statuses: Counter[str] = Counter()
    read: Counter[str] = Counter()
    total = 0
    for name, subject in order.conversations.items():
        for position, key in enumerate(keys(lease, fingerprint, name, order.chunks)):
            client = clients[position % len(clients)]
            meta = Meta(
                order.expires_at, bytes.fromhex(subject) if subject else NO_SUBJECT, fingerprint[:MODEL_BYTES],
                Kind.PRIVATE if subject else Kind.COMMON, position,
            )  # fmt: skip
            try:
                status = client.put(lease, key, os.urandom(order.size), meta, Ack.DURABLE)
                (got,) = client.get_into(lease, [(key, memoryview(bytearray(order.size)))])
            except StoreRefused as refused:  # such as where the tenant's policy does not let its bytes be
                statuses[f"refused ({refused.refusal.name.lower()})"] += 1
                continue
            statuses[status.name.lower()] += 1
            read[str(got.status)] += 1
            total += order.size
    return Written(statuses, read, total)


def keys(lease: KeyLease, fingerprint: bytes, conversation: str, count: int) -> list[bytes]:
    """Chunk keys of a chain of blocks, as an engine's chained hashes give them."""
    found, block = [], b""
    for number in range(count):
        block = hashlib.sha256(block + f"{conversation} {number}".encode()).digest()
        found.append(chunk_key(lease.key.name_key, fingerprint, block, 0))
    return found


def main() -> int:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if not Path(order.lease).exists():
        print(f"no lease at {order.lease}", file=sys.stderr)  # noqa: T201
        return 2
    done = write(order)
    print(json.dumps({"put": done.statuses, "get": done.read, "bytes": done.bytes}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
