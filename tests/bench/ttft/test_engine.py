"""The size of a chunk, and what an engine's log says."""

from kvctl.bench.ttft.engine import BYTES_PER_TOKEN, ROW, errors


def test_a_chunk_is_six_mebibytes():
    assert (BYTES_PER_TOKEN, ROW) == (6144, 6 << 20)


def test_the_errors_of_a_log_are_told_once(tmp_path):
    log = tmp_path / "engine.log"
    line = "(EngineCore pid=1) ERROR 11-30 10:00:00 [core.py:1] AssertionError: rows are pinned\n"
    log.write_text("Error: \n" + line + "INFO fine\n" + line + "torch.OutOfMemoryError: no room\n")
    assert errors(log) == ["AssertionError: rows are pinned", "torch.OutOfMemoryError: no room"]
