"""The daemon's log: JSON lines, limited where peers cause them, and never a reason to stop."""

import io
import json
import logging
from typing import Any

from kvctl.daemon.log import BURST, WINDOW, Log


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_event_and_fields():
    stream = io.StringIO()
    Log(stream, Clock()).info("ready", node="storage1", sessions=3)
    assert lines(stream) == [{"time": 1000.0, "level": "info", "event": "ready", "node": "storage1", "sessions": 3}]


def test_whatever_a_peer_puts_into_a_text_stays_on_one_line():
    stream = io.StringIO()
    Log(stream, Clock()).warning("refused", why="a\nb\x00\ud800" + "c" * 10_000)
    assert len(stream.getvalue().splitlines()) == 1
    assert len(stream.getvalue()) < 3000


def test_a_flood_of_refusals_is_counted_instead_of_written():
    stream, clock = io.StringIO(), Clock()
    log = Log(stream, clock)
    for _ in range(1000):
        log.refused("connection refused", "bad_proof")
    log.refused("connection refused", "timeout")
    assert len(lines(stream)) == BURST + 1
    clock.now += WINDOW
    log.refused("connection refused", "bad_proof")
    assert lines(stream)[-1]["left_out"] == 1000 - BURST


def test_a_clock_that_is_set_back_does_not_silence_it():
    stream, clock = io.StringIO(), Clock()
    log = Log(stream, clock)
    for _ in range(100):
        log.refused("x", "y")
    clock.now = 10.0
    log.refused("x", "y")
    assert lines(stream)[-1]["time"] == 10.0


def test_a_stream_that_takes_nothing_is_counted():
    stream = io.StringIO()
    stream.close()
    log = Log(stream, Clock())
    log.info("ready")
    assert log.lost == 1


def test_modules_that_log_are_heard_with_their_traces():
    stream = io.StringIO()
    Log(stream, Clock()).attach("kvstored_test_log")
    logger = logging.getLogger("kvstored_test_log.mount")
    try:
        raise OSError("no medium")
    except OSError:
        logger.exception("mount %s failed", "/srv/a")
    (line,) = lines(stream)
    assert (line["level"], line["from"], line["what"]) == ("error", "mount", "mount /srv/a failed")
    assert line["trace"].endswith("OSError: no medium")
