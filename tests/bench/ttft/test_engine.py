"""The size of a chunk, and what an engine's log says."""

from kvctl.bench.ttft.engine import BYTES_PER_TOKEN, ROW, Engine, errors


def test_a_chunk_is_six_mebibytes():
    assert (BYTES_PER_TOKEN, ROW) == (6144, 6 << 20)


def test_the_errors_of_a_log_are_told_once(tmp_path):
    log = tmp_path / "engine.log"
    line = "(EngineCore pid=1) ERROR 11-30 10:00:00 [core.py:1] AssertionError: rows are pinned\n"
    log.write_text("Error: \n" + line + "INFO fine\n" + line + "torch.OutOfMemoryError: no room\n")
    assert errors(log) == ["AssertionError: rows are pinned", "torch.OutOfMemoryError: no room"]


def test_a_warning_that_names_an_error_is_none(tmp_path):
    log = tmp_path / "engine.log"
    log.write_text(
        "(APIServer pid=1) WARNING 11-30 10:00:00 [a.py:1] limits like `OSError: [Errno 24] Too many files`\n"
    )
    assert errors(log) == []


METRICS = """\
kvctl_tier_failed_chunks_total{engine="0",reason="late"} 3.0
kvctl_tier_failed_chunks_created{engine="0",reason="late"} 1.7e+09
kvctl_tier_misses_total{engine="0",reason="slower"} 2.0
kvctl_tier_unstored_chunks_total{engine="0",reason="pressure"} 4.0
"""


def test_reasons_are_of_what_was_not_loaded(monkeypatch):
    monkeypatch.setattr(Engine, "ask", lambda self, method, path: (200, METRICS))
    assert Engine(None, None, 0.0).reasons() == {"late": 3, "slower": 2}
