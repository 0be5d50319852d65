"""A trace is read exactly, or refused with the line and the field."""

import json
from pathlib import Path

import pytest

from kvctl.sizing.trace import parse_trace, read_trace
from kvctl.types.errors import ExitCode, UsageError

GOOD = {"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8]}


def parse(*rows):
    return parse_trace([r if isinstance(r, bytes) else json.dumps(r).encode() for r in rows], "t.jsonl")


def refusal(*rows):
    with pytest.raises(UsageError) as caught:
        parse(*rows)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.fix
    return caught.value


def test_what_a_trace_says():
    trace = parse(GOOD, b"\n", GOOD | {"timestamp": 43_200_000, "hash_ids": [7, 9], "extra": 1})
    assert (len(trace.requests), trace.blocks, trace.unique) == (2, 4, 3)
    assert (trace.input_tokens, trace.output_tokens, trace.days) == (2000, 10, 0.5)
    assert trace.requests[1].blocks == (7, 9)


def test_a_trace_without_a_span_has_no_days():
    assert parse(GOOD, GOOD).days is None


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        (b"{", "KV-SIZE-002", ""),
        (b"\xff\xfe{}", "KV-SIZE-002", ""),
        (b"timestamp,input_length", "KV-SIZE-002", ""),
        (b"[]", "KV-SIZE-003", "object"),
        ({k: v for k, v in GOOD.items() if k != "hash_ids"}, "KV-SIZE-003", "hash_ids"),
        (GOOD | {"timestamp": 27.48}, "KV-SIZE-003", "$.timestamp"),
        (GOOD | {"hash_ids": [1, "x"]}, "KV-SIZE-003", "$.hash_ids[1]"),
        (GOOD | {"input_length": None}, "KV-SIZE-003", "$.input_length"),
        (GOOD | {"hash_ids": [1]}, "KV-SIZE-005", "1000 tokens are 2 blocks of 512"),
        (GOOD | {"hash_ids": [1, 1]}, "KV-SIZE-005", "twice"),
        (GOOD | {"input_length": 0, "hash_ids": []}, "KV-SIZE-005", "at least one token"),
        (GOOD | {"output_length": -1}, "KV-SIZE-005", "output_length"),
        (GOOD | {"timestamp": -5}, "KV-SIZE-005", "timestamp -5"),
    ],
)
def test_a_broken_line_is_named_with_its_field(line, code, why):
    error = refusal(GOOD, line)
    assert (error.code, error.where) == (code, "t.jsonl:2")
    assert why in error.why


def test_time_does_not_go_back():
    assert "ascending" in refusal(GOOD | {"timestamp": 9}, GOOD).why


def test_an_empty_trace_is_no_trace():
    assert refusal().code == "KV-SIZE-004"
    assert refusal(b"\n", b" \n").code == "KV-SIZE-004"


@pytest.mark.parametrize("name", ["absent.jsonl", ""])
def test_a_file_that_cannot_be_read(tmp_path: Path, name):
    with pytest.raises(UsageError) as caught:
        read_trace(tmp_path / name)
    assert caught.value.code == "KV-SIZE-001"
