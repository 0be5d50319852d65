import shutil
from pathlib import Path

import pytest

from kvctl.bench.store.cells import MIB, Cell, Op, Settings
from kvctl.bench.store.fio import Fio, taken

JOB = {
    "job_runtime": 2000,
    "usr_cpu": 5.0,
    "sys_cpu": 20.0,
    "read": {
        "total_ios": 500, "io_bytes": 1_048_576_000, "runtime": 1000,
        "lat_ns": {"percentile": {"50.000000": 2_000_000, "99.000000": 9_000_000}},
    },
    "write": {"total_ios": 10, "io_bytes": 20_971_520, "runtime": 100, "lat_ns": {}},
}  # fmt: skip


def test_a_read_has_its_figures_in_seconds_and_bytes() -> None:
    found = taken(JOB, Op.GET)
    assert (found.ops, found.bytes, found.wall) == (500, 1_048_576_000, 1.0)
    assert found.client_cpu == pytest.approx(0.5)
    assert (found.p50, found.p99) == pytest.approx((0.002, 0.009))
    assert found.server_cpu is None


def test_a_flushed_write_has_no_latency_as_a_whole() -> None:
    found = taken(JOB, Op.DURABLE)
    assert (found.ops, found.wall) == (10, 0.1)
    assert found.p50 is None


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: ./dev peers")
def test_fio_itself_reads_and_writes(tmp_path: Path) -> None:
    tool = Fio(Settings((MIB,), (2,), 1, tmp_path, sample_bytes=8 * MIB, cold_bytes=16 * MIB))
    tool.fill()
    assert (tmp_path / "fio" / "cold").stat().st_size == 16 * MIB
    read = tool.take(Cell(Op.GET, MIB, 2))
    assert (read.ops, read.bytes) == (8, 8 * MIB)
    assert read.p50 is not None
    written = tool.take(Cell(Op.DURABLE, MIB, 2))
    assert (written.ops, written.bytes) == (8, 8 * MIB)
    assert [path.name for path in (tmp_path / "fio").iterdir()] == ["cold"]
