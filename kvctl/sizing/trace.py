"""Request traces in Mooncake's format: JSON Lines with timestamp, input_length, output_length, hash_ids.

Source: github.com/kvcache-ai/Mooncake, FAST25-release/traces. `timestamp` is in whole milliseconds; `hash_ids` names
the prompt's blocks of `BLOCK_TOKENS` tokens, each name standing for the block and everything before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvctl.types.errors import UsageError

BLOCK_TOKENS = 512
DAY_MS = 86_400_000


class Row(msgspec.Struct, gc=False):
    timestamp: int
    input_length: int
    output_length: int
    hash_ids: list[int]


@dataclass(frozen=True, slots=True)
class Request:
    at_ms: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    requests: tuple[Request, ...]
    unique: int  # different blocks

    @property
    def blocks(self) -> int:
        return sum(len(r.blocks) for r in self.requests)

    @property
    def input_tokens(self) -> int:
        return sum(r.input_tokens for r in self.requests)

    @property
    def output_tokens(self) -> int:
        return sum(r.output_tokens for r in self.requests)

    @property
    def days(self) -> float | None:
        """Time from the first to the last request; None when all have one time."""
        span = self.requests[-1].at_ms - self.requests[0].at_ms
        return span / DAY_MS if span else None


def read_trace(path: Path) -> Trace:
    """Read a file. UsageError KV-SIZE-001 to 005, with the line and the field."""
    try:
        with path.open("rb") as lines:
            return parse_trace(lines, str(path))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            "KV-SIZE-001", "the trace cannot be read", where=str(path), why=why, fix="give the path of a readable file"
        ) from error


def parse_trace(lines: Iterable[bytes], name: str) -> Trace:
    decoder = msgspec.json.Decoder(Row)
    same: dict[int, int] = {}  # one int object a block: looking it up in a policy then compares identities
    requests: list[Request] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        row = _row(decoder, line, where)
        _judge(row, requests[-1].at_ms if requests else 0, where)
        blocks = tuple(same.setdefault(block, block) for block in row.hash_ids)
        requests.append(Request(row.timestamp, row.input_length, row.output_length, blocks))
    if not requests:
        raise UsageError(
            "KV-SIZE-004", "the trace has no request", where=name, fix="give a trace with a request a line"
        )
    return Trace(tuple(requests), len(same))


def _row(decoder: msgspec.json.Decoder[Row], line: bytes, where: str) -> Row:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise UsageError(
            "KV-SIZE-003",
            "a field of the trace is missing or wrong",
            where=where,
            why=str(error),
            fix="a line has whole numbers timestamp, input_length, output_length, and hash_ids, a list of them",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            "KV-SIZE-002",
            "a line of the trace is not JSON",
            where=where,
            why=str(error),
            fix="give a trace in Mooncake's format, as docs/sizing.md shows it",
        ) from error


def _judge(row: Row, before: int, where: str) -> None:
    """What has the right type and cannot be right: other units, a file out of order."""
    expected = -(-row.input_length // BLOCK_TOKENS)
    why = ""
    if row.input_length <= 0:
        why = f"input_length is {row.input_length}: a prompt has at least one token"
    elif row.output_length < 0:
        why = f"output_length is {row.output_length}"
    elif len(row.hash_ids) != expected:
        why = (
            f"hash_ids has {len(row.hash_ids)} blocks; {row.input_length} tokens are {expected} blocks of"
            f" {BLOCK_TOKENS}: another block size, or input_length is not in tokens"
        )
    elif len(set(row.hash_ids)) != len(row.hash_ids):
        why = "hash_ids names a block twice: names must stand for the block and everything before it"
    elif row.timestamp < before:
        why = f"timestamp {row.timestamp} lies before {before} of the request above: milliseconds, ascending"
    if why:
        raise UsageError(
            "KV-SIZE-005",
            "the units or the order of the trace are wrong",
            where=where,
            why=why,
            fix="convert it: timestamps in milliseconds, lengths in tokens, a name for each block of 512 tokens",
        )
