"""A snapshot that could not be taken is taken once it can be, though its file has not changed."""

import asyncio
import time
from pathlib import Path

from tests.gateway.site import ACME, OTHER, Site, change, run, until

SUSPENDED = change(ACME, state="suspended")


def refusals(site: Site) -> list[str]:
    return [line["code"] for line in site.lines() if line["event"] == "snapshot refused"]


def test_a_file_that_others_could_read_is_taken_once_they_cannot(tmp_path: Path):
    async def work(site: Site):
        path = tmp_path / "snapshot"
        site.publish(SUSPENDED, OTHER)
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o644)
        copy.replace(path)
        await until(lambda: refusals(site) == ["KV-CONN-011"])
        assert (await site.chat())[0] == 200
        path.chmod(0o600)
        number = site.number
        await until(lambda: site.gateway.watch.directory.snapshot.number == number)
        assert (await site.chat())[0] == 403

    run(tmp_path, work)


def test_a_snapshot_that_only_a_wrong_clock_refused_is_taken_when_it_is_right(tmp_path: Path):
    async def work(site: Site):
        watch = site.gateway.watch
        watch.clock = lambda: time.time() + 7200
        site.publish(SUSPENDED, OTHER)
        await until(lambda: refusals(site) == ["KV-GATE-013"])
        watch.clock = time.time
        number = site.number
        await until(lambda: watch.directory.snapshot.number == number)
        assert (await site.chat())[0] == 403

    run(tmp_path, work)


def test_what_stays_refused_is_said_once(tmp_path: Path):
    async def work(site: Site):
        watch = site.gateway.watch
        watch.clock = lambda: time.time() + 7200
        site.publish(SUSPENDED)
        await until(lambda: refusals(site) == ["KV-GATE-013"])
        await asyncio.sleep(1.5)
        assert refusals(site) == ["KV-GATE-013"]
        assert watch.metrics.value("kvgated_snapshot_refused_total", code="KV-GATE-013") == 1

    run(tmp_path, work)
