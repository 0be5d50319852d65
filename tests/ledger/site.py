"""A log as the product writes it: numbered JSON events, a key, and a copy of a directory to damage."""

import json
import shutil
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kvctl.ledger import Log

ORIGIN = "kvctl.example.org/par1/control"


class Key:
    """What the ledger asks of an identity."""

    def __init__(self):
        self.private = Ed25519PrivateKey.generate()
        self.public = self.private.public_key().public_bytes_raw()

    def sign(self, text):
        return self.private.sign(text)


def events(count, first=0, sources=3):
    """Entries `first` to `first + count` of a log that several sources write to in turn."""
    return [
        json.dumps(
            {"v": 1, "source": f"node{i % sources}", "seq": i // sources + 1, "kind": "block.read", "n": "x" * (i % 50)}
        ).encode()
        for i in range(first, first + count)
    ]


def write(directory, key, entries, step=1000):
    """A closed log of these entries, appended `step` at a time; its root."""
    with Log.open(directory, ORIGIN, key, publish_seconds=None) as log:
        for at in range(0, len(entries), step):
            log.append(entries[at : at + step])
        return log.root()


def copy(directory, target):
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(directory, target))
