"""Usage records: none lost without a sign, none served while the disk takes none."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from kvctl.daemon.log import Log
from kvctl.gateway import records as module
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Size, Usage
from kvctl.gateway.records import Place, Record, Records
from kvctl.types.errors import RefusedError, UsageError


def opened(folder: Path, stamp: str = "20300101000000", most: int = 1 << 20) -> Records:
    made = Records(Usage(directory=str(folder), sync_seconds=0.01, file_bytes=Size(most)), Log(io.StringIO()), stamp)
    made.open()
    return made


def add(records: Records, **fields) -> None:
    boot, counter = records.number()
    given = {
        "site": "s", "gateway": "g", "at": 1.5, "request": "r", "tenant": "acme", "domain": "user", "key": "k",
        "model": "m", "route": "chat", "engine": "e", "country": "DE", "sla": "gold", "subject": False, "status": 200,
    }  # fmt: skip
    records.add(Record(boot=boot, counter=counter, **(given | fields)))


def test_a_record_is_there_at_once_and_says_what_it_is(tmp_path: Path):
    records = opened(tmp_path)
    add(records, prompt=3, output=None)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    line = json.loads(path.read_text())
    assert (line["schema"], line["counter"], line["prompt"], line["output"]) == ("kvctl.usage/1", 1, 3, None)


def test_pages_go_on_where_the_last_one_ended_over_files_and_boots(tmp_path: Path):
    first = opened(tmp_path, "20300101000000", most=1000)
    for _ in range(7):
        add(first)
    first.close()
    second = opened(tmp_path, "20300101000001")
    for _ in range(3):
        add(second)
    assert len(list(tmp_path.iterdir())) > 3
    found, place = [], None
    while page := second.read(place, 4):
        found += page
        place = Place.parse(f"{page[-1]['boot']}:{page[-1]['counter']}")
    assert [(one["boot"], one["counter"]) for one in found] == [
        *((first.boot, number) for number in range(1, 8)),
        *((second.boot, number) for number in range(1, 4)),
    ]


def test_half_a_record_after_a_power_cut_is_left_out(tmp_path: Path):
    records = opened(tmp_path)
    add(records)
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"counter": 2, "bo')
    assert len(records.read(None, 10)) == 1


def test_only_what_is_safe_elsewhere_is_removed(tmp_path: Path):
    records = opened(tmp_path, most=1000)
    for _ in range(9):
        add(records)
    files = len(records.files())
    assert records.collected(Place(records.boot, 1)) == 0
    with pytest.raises(RefusedError, match="yet"):
        records.collected(Place(records.boot, 10))
    assert records.collected(Place(records.boot, 9)) == files - 1
    add(records)
    assert records.read(None, 10)[-1]["counter"] == 10
    with pytest.raises(UsageError):
        Place.parse("../../etc:1")


def test_while_the_disk_takes_none_nothing_is_served_and_nothing_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    records = opened(tmp_path)
    add(records)
    real = module.os.write
    full = True

    def write(descriptor: int, data: bytes) -> int:
        if full:
            return real(descriptor, data[: len(data) // 2])  # as a disk that fills up does
        return real(descriptor, data)

    monkeypatch.setattr(module.os, "write", write)
    add(records)
    add(records)
    with pytest.raises(Refused) as refused:
        records.check()
    assert (refused.value.status, refused.value.code) == (503, "KV-GATE-052")
    full = False

    async def later() -> None:
        syncing = asyncio.create_task(records.sync())
        async with asyncio.timeout(5):
            while records.waiting:
                await asyncio.sleep(0.005)
        syncing.cancel()

    asyncio.run(later())
    records.check()
    assert [one["counter"] for one in records.read(None, 10)] == [1, 2, 3]


def test_a_place_that_cannot_be_written_is_said_at_the_start(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written") as refused:
        opened(tmp_path / "file" / "usage")
    assert refused.value.code == "KV-GATE-050"
