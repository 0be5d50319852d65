"""The data log of a site: what stores and gateways counted, tenant by tenant, beside the control log.

It fails open. An entry says which of its source's own numbers it covers; numbers that no entry could take are named by
the next one that could, so that what is lost is a counted gap on record.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kvctl.connector.secretfile import write_secret
from kvctl.controller.clock import now
from kvctl.ledger.log import Log
from kvctl.ledger.note import Signer
from kvctl.types.errors import KvctlError

log = logging.getLogger(__name__)
FOLDER, COVERED = Path("ledger/data"), Path("ledger/data.covered")
KEPT_EVERY = 4096  # entries until it is written down again how far each source is: what an opening reads at most


class Covered(msgspec.Struct, frozen=True):
    """How far a source is in the log: the number of its newest entry there, and its own counter's."""

    seq: int
    boot: str
    next: int


class Kept(msgspec.Struct, frozen=True):
    size: int
    sources: dict[str, Covered]


class Entry(msgspec.Struct, frozen=True):
    """What of an entry is read again."""

    source: str
    seq: int
    data: dict[str, Any]


class DataLog:
    """Opened when it is first needed, by the process that has the books. Every method may be called from any thread."""

    def __init__(self, directory: Path, site: str, signer: Signer) -> None:
        self.directory, self.origin = directory / FOLDER, f"kvctl.{site}/data"
        self.refused = 0  # batches that this process could not put there
        self.trouble: KvctlError | None = None  # why, while that is so
        self._file, self._signer = directory / COVERED, signer
        self._lock = threading.RLock()
        self._log: Log | None = None
        self._sources: dict[str, Covered] = {}
        self._kept = 0

    def count(
        self, source: str, kind: str, span: tuple[str, int, int], tenants: Mapping[str | None, Mapping[str, Any]],
        *, cause: str = "not recorded", lasting: bool = False,
    ) -> bool:  # fmt: skip
        """One entry a tenant of what a source told. False, and counted, when they could not be written.

        `span`: the run of the source's counter, the number before the first and the last. `cause`: why numbers are
        missing before it, if they are. `lasting`: the source keeps what it counted: a new run misses nothing.
        """
        if not tenants:
            return True
        try:
            with self._lock:
                opened = self.open()
                made = [
                    *self._missing(source, span, cause, lasting),
                    *((kind, tenant, data) for tenant, data in tenants.items()),
                ]
                seq = self._sources[source].seq if source in self._sources else 0
                boot, start, stop = span
                about = {"boot": boot, "from": start + 1, "to": stop}
                opened.append([
                    entry(source, seq + place, one, tenant, {**about, **data})
                    for place, (one, tenant, data) in enumerate(made, 1)
                ])  # fmt: skip
                self._sources[source] = Covered(seq + len(made), boot, stop)
                if opened.size - self._kept >= KEPT_EVERY:
                    self._keep(opened)
        except KvctlError as error:
            self.refused, self.trouble = self.refused + 1, error
            log.warning("the data log did not take %s of %s: %s %s", kind, source, error.code, error.what)
            return False
        self.trouble = None
        return True

    def _missing(
        self, source: str, span: tuple[str, int, int], cause: str, lasting: bool
    ) -> Iterator[tuple[str, None, dict[str, Any]]]:
        known = self._sources.get(source)
        boot, start, _ = span
        if known is None or (known.boot, known.next) == (boot, start):
            return
        if lasting and known.boot != boot:
            known = Covered(known.seq, boot, 0)
            if start == 0:
                return
        same = known.boot == boot
        if same and start < known.next:  # the tables were put back, and take in again what they do not have
            yield "counts.again", None, {"boot": boot, "from": start + 1, "to": known.next}
        else:
            gap = {"boot": known.boot, "from": known.next + 1, "to": start if same else None, "cause": cause}
            yield "counts.gap", None, gap

    def open(self) -> Log:
        """The log, and how far each source is in it. Raises as Log.open does."""
        with self._lock:
            if self._log is None:
                opened = Log.open(self.directory, self.origin, self._signer)
                try:
                    self._sources = self._read(opened)
                except BaseException:
                    opened.close()
                    raise
                self._log = opened
            return self._log

    def gaps(self) -> list[dict[str, Any]]:
        """What sources told and no entry could take, as the log says it. `to`: null when nobody knows."""
        opened, found = self.open(), []
        for index, leaf in enumerate(opened.read(0, opened.size)):
            if b'"kind":"counts.gap"' in leaf:
                one = json.loads(leaf)
                found.append({"idx": index, "source": one["source"], "at": one["at"], **one["data"]})
        return found

    def _read(self, opened: Log) -> dict[str, Covered]:
        kept = Kept(0, {})
        if self._file.exists():
            try:
                kept = msgspec.json.decode(self._file.read_bytes(), type=Kept)
            except msgspec.MsgspecError:
                log.warning("%s cannot be read: the whole data log is read instead", self._file)
        if kept.size > opened.size:  # of another log, which this one might grow past
            kept = Kept(0, {})
            self._file.unlink()
        sources, decode = dict(kept.sources), msgspec.json.Decoder(Entry).decode
        for index, leaf in enumerate(opened.read(kept.size, opened.size), kept.size):
            try:
                one = decode(leaf)
            except msgspec.MsgspecError as error:
                raise KvctlError(
                    "KV-CTL-074", f"entry {index} of the data log cannot be read", where=str(self.directory),
                    why=str(error), fix="kvctl audit verify names what was changed",
                ) from error  # fmt: skip
            known = sources.get(one.source, Covered(0, "", 0))
            boot, to = one.data.get("boot"), one.data.get("to")
            known = known if boot is None or to is None else Covered(0, str(boot), int(to))
            sources[one.source] = Covered(one.seq, known.boot, known.next)
        self._kept = kept.size
        return sources

    def _keep(self, opened: Log) -> None:
        try:
            write_secret(self._file, msgspec.json.encode(Kept(opened.size, self._sources)))
            self._kept = opened.size
        except KvctlError as error:  # the next opening reads more
            log.warning("%s was not written: %s", self._file, error.why)

    @property
    def there(self) -> bool:
        return self.directory.is_dir()

    def close(self) -> None:
        with self._lock:
            if self._log is not None:
                self._keep(self._log)
                self._log.close()
                self._log = None


def entry(source: str, seq: int, kind: str, tenant: str | None, data: Mapping[str, Any]) -> bytes:
    """One leaf, as in the control log, without an actor: nobody asked for it."""
    document = {
        "v": 1, "nonce": secrets.token_hex(16), "source": source, "seq": seq, "at": now(), "kind": kind,
        "tenant": tenant, "data": dict(data),
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def of_deltas(deltas: Sequence[Mapping[str, Any]]) -> dict[str | None, dict[str, Any]]:
    """What a store's deltas say of each tenant: chunks that came, that went and why, and their bytes."""
    found: dict[str | None, dict[str, Any]] = defaultdict(
        lambda: {"put": 0, "put_bytes": 0, "removed": Counter(), "removed_bytes": 0, "scopes": Counter(), "seen": 0}
    )
    for delta in deltas:
        told = found[delta["tenant"]]
        if delta["op"] == "removed_scope":
            told["scopes"][delta["why"]] += 1
        elif delta["op"] == "removed":
            told["removed"][delta["why"]] += 1
            told["removed_bytes"] += delta["length"]
        elif delta["op"] == "put":
            told["put"] += 1
            told["put_bytes"] += delta["length"]
        else:
            told["seen"] += 1
    return dict(found)


def of_records(records: Sequence[Mapping[str, Any]]) -> dict[str | None, dict[str, Any]]:
    """What a gateway's metering records say of each tenant. `unmetered`: requests of whose tokens not all are known."""
    found: dict[str | None, dict[str, Any]] = {}
    for record in records:
        told = found.setdefault(record["tenant"], Counter(requests=0, prompt=0, cached=0, output=0))
        told["requests"] += record["requests"]
        for name in ("prompt", "cached", "output"):
            told[name] += record.get(name) or 0
        told["anonymous"] += 0 if record["subject"] else record["requests"]
        unknown = record.get("partial") or record.get("prompt") is None or record.get("output") is None
        told["unmetered"] += record["requests"] if unknown else 0
    return found
