import sys
from pathlib import Path

import pytest

from kvctl.bench.store.cells import MIB, Settings
from kvctl.bench.store.scale import Sizes, measure_scale


@pytest.mark.skipif(sys.platform != "linux", reason="process clocks are of Linux")
def test_a_filled_store_is_reopened_asked_and_compared(tmp_path: Path) -> None:
    settings = Settings((MIB,), (2,), 2, tmp_path)
    found = measure_scale(settings, Sizes(chunks=2000, requests=5, small=4 * MIB, factor=2, gets=32))
    assert len(found.has_times) == 5
    assert 0 < found.has_p50 <= found.has_p99
    assert found.reopen_seconds > 0
    assert found.reopen_killed_seconds > 0
    assert len(found.p99s) == 2
    assert found.p99_ratio == found.p99_large / found.p99_small
