"""What a client makes of an engine's stream, and of its log."""

import pytest

from kvctl.bench.ttft.engine import BYTES_PER_TOKEN, ROW, errors, read
from kvctl.types.errors import KvctlError


def event(text):
    return b"data: " + text.encode() + b"\n"


STREAM = [
    event('{"choices": [{"token_ids": [7]}]}'),
    b"\n",
    event('{"choices": [{"token_ids": [8, 9]}]}'),
    event('{"choices": [], "usage": {"prompt_tokens": 1024, "prompt_tokens_details": {"cached_tokens": 1024}}}'),
    b"data: [DONE]\n",
]


def test_an_answer_has_its_tokens_and_what_was_not_computed():
    found = read(STREAM, 0.0)
    assert (found.output, found.prompt, found.cached, len(found.gaps)) == ((7, 8, 9), 1024, 1024, 1)


@pytest.mark.parametrize("stream", [[], STREAM[:-2], [event('{"error": {"message": "no"}}')]])
def test_a_stream_that_breaks_off_is_no_answer(stream):
    with pytest.raises(KvctlError, match="KV-BENCH-031"):
        read(stream, 0.0)


def test_a_chunk_is_six_mebibytes():
    assert (BYTES_PER_TOKEN, ROW) == (6144, 6 << 20)


def test_the_errors_of_a_log_are_told_once(tmp_path):
    log = tmp_path / "engine.log"
    line = "(EngineCore pid=1) ERROR 11-30 10:00:00 [core.py:1] AssertionError: rows are pinned\n"
    log.write_text("Error: \n" + line + "INFO fine\n" + line + "torch.OutOfMemoryError: no room\n")
    assert errors(log) == ["AssertionError: rows are pinned", "torch.OutOfMemoryError: no room"]
