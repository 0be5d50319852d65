"""fio: what the disk gives at most, at a chunk's size and the same number of operations in flight."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from kvctl.bench.store.cells import Cell, Op, Settings
from kvctl.bench.store.contestants import needed
from kvctl.bench.store.jobs import Taken
from kvctl.bench.store.processes import failed

NANO = 1e-9


class Fio:
    """Runs one job a sample. Reads are of one file, as large as the set read cold; writes make new files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = settings.directory / "fio"
        self._directory.mkdir()
        self._program = needed("fio")

    def fill(self) -> None:
        """Lay the file of the reads out, with data on the disk: a hole would be read from nowhere."""
        self._run("fill", rw="write", bs="1M", size=str(self._settings.cold_bytes), filename="cold", end_fsync="1")

    def take(self, cell: Cell) -> Taken:
        found = self._read(cell) if cell.op is Op.GET else self._write(cell)
        return taken(found, cell.op)

    def _read(self, cell: Cell) -> Mapping[str, Any]:
        """O_DIRECT, random, two reads in flight for each connection: kvstored reads one chunk ahead."""
        return self._run(
            "read", rw="randread", bs=str(cell.size), size=str(self._settings.cold_bytes // cell.size * cell.size),
            io_size=str(self._settings.limit(cell) * cell.size), filename="cold", ioengine="libaio",
            iodepth=str(2 * cell.connections), runtime=str(self._settings.seconds),
        )  # fmt: skip

    def _write(self, cell: Cell) -> Mapping[str, Any]:
        """O_DIRECT writes, each flushed before the next; one job for each connection, into a file of its own."""
        each = max(self._settings.limit(cell) // cell.connections, 1) * cell.size
        return self._run(
            "write", rw="write", bs=str(cell.size), size=str(each), fdatasync="1", ioengine="psync",
            numjobs=str(cell.connections), unlink="1", runtime=str(self._settings.seconds),
        )  # fmt: skip

    def _run(self, name: str, **options: str) -> Mapping[str, Any]:
        given = [f"--{key}={value}" for key, value in options.items()]
        argv = [
            self._program, f"--name={name}", f"--directory={self._directory}", "--direct=1", "--group_reporting",
            "--output-format=json",
            "--clat_percentiles=0",
            "--lat_percentiles=1", "--thread", "--randrepeat=0", *given,
        ]  # fmt: skip
        done = subprocess.run(argv, cwd=self._directory, capture_output=True, text=True, check=False)
        try:
            found: Mapping[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
        except (ValueError, LookupError) as error:
            raise failed("fio", " ".join(argv)[:400], (done.stderr or done.stdout)[-800:]) from error
        if done.returncode or found["error"]:
            raise failed("fio", " ".join(argv)[:400], done.stderr[-800:] or f"error {found['error']}")
        return found


def taken(job: Mapping[str, Any], op: Op) -> Taken:
    """A sample from fio's own figures (fio(1), JSON output): times in ns or ms, CPU in percent of the runtime.

    A durable write is two steps, of which fio gives the latencies apart: those of the whole are not known.
    """
    side = job["read" if op is Op.GET else "write"]
    wall = side["runtime"] / 1000
    ranks = side["lat_ns"].get("percentile", {}) if op is Op.GET else {}
    share = (job["usr_cpu"] + job["sys_cpu"]) / 100
    return Taken(
        ops=side["total_ios"],
        bytes=side["io_bytes"],
        wall=wall,
        client_cpu=share * job["job_runtime"] / 1000,
        server_cpu=None,
        seal_cpu=0.0,
        p50=known(ranks.get("50.000000")),
        p99=known(ranks.get("99.000000")),
    )


def known(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds * NANO
