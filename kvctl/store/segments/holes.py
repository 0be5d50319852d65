"""What of a mount's segments is to be given back, and who still reads there."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from threading import Condition, Lock

from kvctl.store.segments.health import Health
from kvctl.store.segments.layout import Place
from kvctl.store.segments.segment_log import SegmentLog

log = logging.getLogger(__name__)


class Holes:
    """Freed ranges on their way to being holes, and pins that hold them off.

    A range comes here when the commit that freed it is durable; the index notes it until a later commit that knows it
    to be punched, durably. A pin is taken before the index is asked again, so a pinned record is never punched.
    """

    def __init__(self, segments: SegmentLog, health: Health) -> None:
        self._log = segments
        self._health = health
        self._changed = Condition()
        self._one = Lock()  # one punches at a time: who waits for it knows that earlier ranges are done, too
        self._pins: dict[Place, int] = {}
        self._waiting: dict[Place, int] = {}
        self._punched: list[Place] = []

    @property
    def due(self) -> bool:
        return bool(self._waiting or self._punched)

    def pin(self, place: Place) -> None:
        """Keep a record from being punched, and its segment's file, until `unpin`."""
        with self._changed:
            self._pins[place] = self._pins.get(place, 0) + 1

    def unpin(self, place: Place) -> None:
        with self._changed:
            self._pins[place] -= 1
            if not self._pins[place]:
                del self._pins[place]
            self._changed.notify_all()

    def pinned_segments(self) -> set[int]:
        with self._changed:
            return {place.segment for place in self._pins}

    def wait_unpinned(self, places: Iterable[Place]) -> None:
        """Return when none of the places is being read."""
        wanted = set(places)
        with self._changed:
            while not wanted.isdisjoint(self._pins):
                self._changed.wait()

    def add(self, freed: Mapping[Place, int]) -> None:
        with self._changed:
            self._waiting.update(freed)

    def punch(self) -> None:
        """Give back what waits. What fails is tried again at the next call."""
        with self._one:
            with self._changed:
                work, self._waiting = self._waiting, {}
            for place, size in work.items():
                self._punch(place, size)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Nothing is punched inside: a segment's descriptor can be closed."""
        with self._one:
            yield

    def punched(self) -> list[Place]:
        """What is punched, and durably so after the next sync of the log."""
        with self._changed:
            return list(self._punched)

    def forget(self, count: int) -> None:
        """A commit has told the index of the first `count` of `punched`."""
        with self._changed:
            del self._punched[:count]

    def _punch(self, place: Place, size: int) -> None:
        self.wait_unpinned([place])
        try:
            self._log.punch(place, size)
        except FileNotFoundError:
            log.debug("segment %d is gone, with its holes", place.segment)
        except OSError as failed:
            self._health.write_failed(failed)
            self.add({place: size})
            return
        with self._changed:
            self._punched.append(place)
