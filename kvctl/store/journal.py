"""The journal of a move between tiers: JSON lines, each on disk before the step that it announces or confirms.

First line: the format and the two tiers. Then, by number of chunk: begin (whose chunk), copied (the target has it and
it was read back), removed or skipped (done with it). What began and is not done with is taken up by the next run.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.types.chunks import Scope, TierName
from kvctl.types.errors import LockedError, UsageError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Begun:
    """A chunk that a run took up; `copied` when the target has it for certain."""

    number: int
    scope: Scope
    key: bytes
    copied: bool = False


class Journal:
    """One run at a time. `open` is what earlier runs left undone.

    Raises LockedError KV-STORE-320 while another run has it, UsageError KV-STORE-321 for the journal of another move,
    KV-STORE-322 for a file that is none.
    """

    def __init__(self, path: Path, source: TierName, target: TierName) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
        self.open: dict[int, Begun] = {}
        self._next = 1
        try:
            self._lock()
            self._load({"kvctl-move": FORMAT, "source": str(source), "target": str(target)})
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                "KV-STORE-320",
                "this move is under way already",
                where=str(self._path),
                fix="wait for its end, or give a journal of its own to another set of chunks",
            ) from None

    def _load(self, head: dict[str, Any]) -> None:
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]  # a line that a power cut left half written announced nothing
        self._file.seek(len(whole))
        self._file.truncate()
        lines = whole.splitlines()
        if not lines:
            self._append(head)
            self._sync_directory()
            return
        for number, line in enumerate(lines, 1):
            try:
                self._replay(json.loads(line), head, first=number == 1)
            except (ValueError, KeyError, TypeError) as bad:
                raise UsageError(
                    "KV-STORE-322",
                    "this is not the journal of a move",
                    where=f"{self._path}:{number}",
                    fix="give the path of a new file",
                ) from bad

    def _replay(self, line: dict[str, Any], head: dict[str, Any], *, first: bool) -> None:
        if first:
            self._check_head(line, head)
            return
        number = int(line["n"])
        self._next = max(self._next, number + 1)
        match line["step"]:
            case "begin":
                scope = Scope(line["tenant"], line["domain"], bytes.fromhex(line["epoch"]))
                self.open[number] = Begun(number, scope, bytes.fromhex(line["key"]))
            case "copied":
                begun = self.open[number]
                self.open[number] = Begun(number, begun.scope, begun.key, copied=True)
            case "removed" | "skipped":
                self.open.pop(number)
            case other:
                raise ValueError(other)

    def _check_head(self, line: dict[str, Any], head: dict[str, Any]) -> None:
        if line.get("kvctl-move") != FORMAT:
            raise ValueError("no journal of this format")
        if line != head:
            raise UsageError(
                "KV-STORE-321",
                "this journal belongs to another move",
                where=str(self._path),
                why=f"it is of a move from {line.get('source')} to {line.get('target')}",
                fix="give the path of a new file, or finish that move first",
            )

    def begin(self, scope: Scope, key: bytes) -> Begun:
        begun = Begun(self._next, scope, key)
        self._next += 1
        self._append(
            {"n": begun.number, "step": "begin", "tenant": scope.tenant, "domain": scope.domain}
            | {"epoch": scope.epoch.hex(), "key": key.hex()}
        )
        self.open[begun.number] = begun
        return begun

    def copied(self, begun: Begun) -> None:
        self._append({"n": begun.number, "step": "copied"})

    def removed(self, begun: Begun) -> None:
        self._append({"n": begun.number, "step": "removed"})
        self.open.pop(begun.number)

    def skipped(self, begun: Begun, why: str) -> None:
        self._append({"n": begun.number, "step": "skipped", "why": why})
        self.open.pop(begun.number)

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[self._file.write(data) :]
        os.fdatasync(self._file.fileno())

    def _sync_directory(self) -> None:
        handle = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        self._file.close()


def taken(path: Path) -> set[tuple[Scope, bytes]]:
    """The chunks that a move has carried over for good, by its journal. UsageError KV-STORE-322 without one."""
    begun: dict[int, tuple[Scope, bytes]] = {}
    done: set[tuple[Scope, bytes]] = set()
    try:
        with path.open("rb") as file:
            for line in map(json.loads, (text for text in file if text.endswith(b"\n"))):
                if line.get("step") == "begin":
                    scope = Scope(line["tenant"], line["domain"], bytes.fromhex(line["epoch"]))
                    begun[line["n"]] = (scope, bytes.fromhex(line["key"]))
                elif line.get("step") == "removed":
                    done.add(begun[line["n"]])
    except (OSError, ValueError, KeyError, TypeError) as bad:
        raise UsageError(
            "KV-STORE-322", "this is not the journal of a move", where=str(path), why=str(bad),
            fix="name a move that this store has carried out",
        ) from bad  # fmt: skip
    return done
