"""What goes on beside requests: probing an endpoint that failed, deleting objects of doomed rows, noting recency."""

import logging
from collections import defaultdict
from threading import Thread

from obstore.exceptions import BaseError

from kvctl.store.s3.bucket import reason
from kvctl.store.s3.objects import VERSIONED, Objects
from kvctl.store.s3.rows import State

log = logging.getLogger(__name__)

VERSIONED_SECONDS = 60.0  # each probe of such a bucket leaves versions in it


def probe(objects: Objects) -> str:
    """Find out what the endpoint does now, and enter it as the bucket's state."""
    try:
        version = objects.bucket.probe()
    except (BaseError, OSError) as error:
        can_read = objects.bucket.can_read()
        objects.health.enter("read-only" if can_read else "failed", reason(error))
    else:
        objects.health.enter("failed" if version else "ok", VERSIONED if version else "")
    return objects.health.state


def abandon(objects: Objects) -> None:
    """At start, before any write: what an earlier run was writing when it ended is doomed; nobody was told of it."""
    after = b""
    while names := objects.index.unsettled(after=after):
        after = b"".join(names[-1])
        for digest, keys in by_scope(names).items():
            objects.index.mark(digest, keys, State.DOOMED)


def sweep(objects: Objects) -> None:
    """Delete what is doomed. Raises BaseError or OSError when the endpoint does not serve it."""
    after = b""
    while names := objects.index.unsettled(after=after):
        after = b"".join(names[-1])
        for digest, keys in by_scope(names).items():
            objects.purge(digest, keys)


def by_scope(names: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for digest, key in names:
        found[digest].append(key)
    return found


class Upkeep:
    """One thread; `stop` ends it."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._stopping = False
        self._thread = Thread(target=self._run, name="s3-upkeep", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        trouble = self._objects.health.trouble
        while not self._stopping:
            trouble.wait(self._pause())
            trouble.clear()
            if not self._stopping:
                self._once()

    def _pause(self) -> float:
        health, settings = self._objects.health, self._objects.bucket.settings
        if health.state == "ok":
            return settings.sweep_seconds
        return VERSIONED_SECONDS if health.why == VERSIONED else settings.probe_seconds

    def _once(self) -> None:
        try:
            self._objects.note_recency()
            if self._objects.health.state == "ok" or probe(self._objects) == "ok":
                sweep(self._objects)
        except (BaseError, OSError) as error:
            self._objects.health.write_failed(reason(error))
        except Exception:  # without this thread a failed endpoint would stay failed for ever
            log.exception("upkeep of the object tier failed")

    def stop(self) -> None:
        self._stopping = True
        self._objects.health.trouble.set()
        self._thread.join()
