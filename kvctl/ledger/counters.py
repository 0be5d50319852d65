"""Sources number their events 1, 2, 3, ...: a lost, doubled or reordered one shows as a step that is not 1."""

from collections.abc import Sequence

import msgspec

from kvctl.ledger.report import Problem


class Numbered(msgspec.Struct):
    """What of an entry is looked at; the rest of it is read past."""

    source: str
    seq: int


class Counters:
    """Follows the counter of every source through the entries of a log, in order."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self._decode = msgspec.json.Decoder(Numbered).decode
        self._seen_again: set[str] | None = None  # sources since entries were unreadable; None: none ever were

    def skip(self) -> None:
        """Entries could not be read: the next number of every source may be any higher one."""
        self._seen_again = set()

    def check(self, place: str, start: int, entries: Sequence[bytes]) -> list[Problem]:
        """The steps that are not 1 in entries `start` and on, which are in the file `place`."""
        found = []
        for index, entry in enumerate(entries, start):
            try:
                one = self._decode(entry)
            except msgspec.MsgspecError as error:
                found.append(Problem(place, f"entry {index} has no source and number: {error}", index))
                continue
            what = self._step(one)
            if what:
                found.append(Problem(place, f"entry {index}, source {one.source!r}: {what}", index))
        return found

    def _step(self, one: Numbered) -> str:
        due = self.last.get(one.source, 0) + 1
        if one.seq >= due:
            self.last[one.source] = one.seq
        if self._seen_again is not None and one.source not in self._seen_again:
            self._seen_again.add(one.source)
            return "" if one.seq >= due else f"number {one.seq} after {due - 1}"
        if one.seq == due:
            return ""
        if one.seq > due:
            return f"number {one.seq} where {due} is next: {one.seq - due} missing"
        return f"number {one.seq} where {due} is next: doubled or out of order"
