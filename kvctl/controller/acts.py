"""Changes of the fleet on record: that one was begun, before anything changes, and how it ended.

Whoever begins one holds a locked file of it until its end is in the control log. A file that nobody holds is of a
command that died, or that could not reach the log at its end: the next change, or kvctld, records that end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kvctl.controller import runs
from kvctl.fleet.remote import journal
from kvctl.types.errors import KvctlError, LockedError, RefusedError

FOLDER = "acts"
Ending = tuple[dict[str, Any], str]  # what the event says, and its outcome
UNSURE = ("KV-CTL-035", "KV-STATE-")  # codes: an answer that got lost, and tables that did not take what the log has
NAMED = 500  # node names in one event: an entry of the log has 64 KiB, a name at most 64 bytes


class Ledger(Protocol):
    """The control log of a site, as those see it who change its fleet."""

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        """Durable when it returns; KvctlError when it cannot be."""

    def note(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> bool:
        """The same of what has happened already: False, and said to whoever watches, when it cannot be recorded."""


class Scene(Protocol):
    """Whose state has the files of changes under way, and in whose log they go: a site's."""

    @property
    def directory(self) -> Path: ...

    @property
    def ledger(self) -> Ledger: ...


class NoLedger:
    """Of a site that is only read."""

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        raise KvctlError("KV-CTL-071", f"nobody keeps a record: {kind} is refused")

    def note(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> bool:
        self.record(kind, data, outcome)
        return False


@dataclass(slots=True)
class Act:
    """A change under way. Whoever makes it says here how it ends; a run's journal says that of a run."""

    outcome: str = "ok"  # ok | refused | failed
    how: dict[str, Any] = field(default_factory=dict)


def new_id() -> str:
    return secrets.token_hex(6)


def must(ledger: Ledger, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
    """Record what is about to be done. An error KV-CTL-070, of the kind of what kept it from being recorded."""
    try:
        ledger.record(kind, data, outcome)
    except KvctlError as error:
        raise type(error)(
            "KV-CTL-070", f"could not record {kind}: nothing was changed", where=error.where,
            why=": ".join(part for part in (error.code, error.what, error.why) if part),
            fix=error.fix or "kvctl controller status tells how the controller stands",
        ) from error  # fmt: skip


@contextlib.contextmanager
def acting(site: Scene, noun: str, ident: str, data: Mapping[str, Any], *, begun: str = "started") -> Iterator[Act]:
    """`<noun>.<begun>` is in the log before the block, `<noun>.ended` when it is over.

    `data` names the nodes under "nodes". An error KV-CTL-070 before the block when that cannot be recorded; LockedError
    KV-CTL-072 while another command is at the same one.
    """
    take_up(site.directory, site.ledger)
    with held(site.directory, noun, ident) as path:
        try:
            for kind, part in parts(noun, begun, {noun: ident, **data}):
                must(site.ledger, kind, part)
        except BaseException as error:
            if not perhaps(error):
                path.unlink()
            raise
        act = Act()
        try:
            yield act
        except BaseException as error:
            act.outcome = "refused" if isinstance(error, RefusedError | LockedError) else "failed"
            act.how.setdefault("why", error.code if isinstance(error, KvctlError) else type(error).__name__)
            raise
        finally:
            end(site, path, noun, ident, act)


def perhaps(error: BaseException) -> bool:
    """Whether the log may have an event all the same that could not be recorded: its end is then recorded, too."""
    cause = error.__cause__
    return not isinstance(error, KvctlError) or (isinstance(cause, KvctlError) and cause.code.startswith(UNSURE))


def parts(noun: str, begun: str, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events that begin a change: names of more nodes than one event holds come first."""
    nodes: Sequence[str] = data["nodes"]
    for start in range(NAMED, len(nodes), NAMED):
        yield f"{noun}.nodes", {noun: data[noun], "nodes": list(nodes[start : start + NAMED])}
    yield f"{noun}.{begun}", {**data, "nodes": list(nodes[:NAMED]), "nodes_total": len(nodes)}


def end(site: Scene, path: Path, noun: str, ident: str, act: Act) -> None:
    told: Ending | None = (act.how, act.outcome)
    if noun == "run":
        told = of_run(site.directory, ident, otherwise=told)
    if told is not None and site.ledger.note(f"{noun}.ended", {noun: ident, **told[0]}, told[1]):
        path.unlink()


def take_up(directory: Path, ledger: Ledger) -> int:
    """Record the end of every change that nobody holds any more; how many those were. KV-CTL-070 as `must` does."""
    done = 0
    for path in sorted((directory / FOLDER).glob("*.json")):
        fd = lock(path, os.O_RDWR)
        if fd is None:
            continue
        try:
            done += finish(directory, ledger, path)
        finally:
            os.close(fd)
    return done


def finish(directory: Path, ledger: Ledger, path: Path) -> bool:
    try:
        noun, ident = json.loads(path.read_text())
    except ValueError:  # its writer died before it began anything
        path.unlink()
        return False
    told: Ending | None = ({"why": "whoever began it ended without saying how"}, "failed")
    if noun == "run":
        told = of_run(directory, ident, otherwise=told)
    if told is None:
        return False
    must(ledger, f"{noun}.ended", {noun: ident, **told[0]}, told[1])
    path.unlink()
    return True


def of_run(directory: Path, run: str, *, otherwise: Ending | None) -> Ending | None:
    """How a run ended, as its journal says; `otherwise` when it has none; None while its supervisor is at work."""
    folder = directory / "runs" / run
    if not (folder / journal.FILE).is_file():
        return otherwise if journal.live_holder(folder) is None else None
    try:
        view = journal.load(folder)
    except KvctlError as error:
        return {"why": error.code}, "failed"
    if view.state is journal.RunState.RUNNING:
        return None
    row, code = runs.row(view), int(runs.exit_code(view))
    stayed = [{"node": n.name, "state": n.state} for n in view.nodes.values() if n.state != "returned"]
    told = {
        **{name: row[name] for name in ("plan", "state", "steps", "done", "failed", "not_done", "changed")},
        "exit_code": code, "returned": len(view.nodes) - len(stayed), "stayed": stayed[:NAMED],
        "stayed_total": len(stayed), "journal_sha256": hashlib.sha256((folder / journal.FILE).read_bytes()).hexdigest(),
    }  # fmt: skip
    return told, "failed" if code else "ok"


@contextlib.contextmanager
def held(directory: Path, noun: str, ident: str) -> Iterator[Path]:
    folder = directory / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{noun}-{ident}.json"
    fd = lock(path, os.O_RDWR | os.O_CREAT)
    if fd is None:
        raise LockedError("KV-CTL-072", f"another command is at {noun} {ident}", fix="wait for it to end")
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps([noun, ident]).encode(), 0)
        os.fsync(fd)
        yield path
    finally:
        os.close(fd)


def lock(path: Path, flags: int) -> int | None:
    """The file, open and locked until it is closed; None when somebody holds it, or removed it meanwhile."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(fd).st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None
