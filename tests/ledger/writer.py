"""A process that appends numbered events from several threads and says on standard output what was acknowledged.

`python -m tests.ledger.writer DIRECTORY KEYFILE THREADS`; each line is the index and the number of an entry, written
after `append` returned and never before.
"""

import json
import os
import sys
import threading
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kvctl.ledger import Log
from tests.ledger.site import ORIGIN, Key


def load(path):
    key = Key.__new__(Key)
    key.private = Ed25519PrivateKey.from_private_bytes(Path(path).read_bytes())
    key.public = key.private.public_key().public_bytes_raw()
    return key


def produce(log, source):
    seq = 0
    run = os.getpid()
    while True:
        count = seq % 5 + 1
        entries = [
            json.dumps({"source": f"{run}/{source}", "seq": seq + 1 + i, "pad": "p" * (seq % 90)}).encode()
            for i in range(count)
        ]
        first = log.append(entries)
        lines = "".join(f"{first + i} {run}/{source} {seq + 1 + i}\n" for i in range(count))
        os.write(1, lines.encode())
        seq += count


def main(directory, keyfile, threads):
    log = Log.open(Path(directory), ORIGIN, load(keyfile), publish_seconds=0.005)
    os.write(1, b"open\n")
    for number in range(int(threads)):
        threading.Thread(target=produce, args=(log, number)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
