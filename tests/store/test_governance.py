"""What a controller asks of a running kvstored: deltas, removals, probes, holds, tenants, moves."""

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.connector import wire
from kvctl.connector.capability import ALL, Operation
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import StoreRefused
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Kind, Meta, Scope
from tests.store.daemon import SCOPE, Daemon

OTHER = Scope("globex", "users", b"o" * 16)
ALICE, BOB = b"a" * 16, b"b" * 16
MODEL = b"m" * 16
SIZE = 50_000
SEALED = SIZE + 104


def tier(folder: Path, name: str) -> dict[str, Any]:
    (folder / name).mkdir(exist_ok=True)
    return {"mounts": [{"path": f"{folder}/{name}", "capacity": "256MiB"}]}


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Site:
    """A kvstored with two tiers, a connector, and the controller's side."""

    def __init__(self, folder: Path, **sections: object) -> None:
        self.daemon = Daemon(
            folder, module="kvctl.store.main", tiers={one: tier(folder, one) for one in ("flash", "disk")}, **sections
        )
        self.data: dict[tuple[Scope, int], bytes] = {}
        self.roots = {scope: RootKey(scope, os.urandom(32)) for scope in (SCOPE, OTHER)}
        self.start()

    def start(self) -> None:
        self.daemon.events.clear()
        self.daemon.start()
        self.client = StoreClient(self.daemon.unix, self.daemon.connector, self.daemon.identity.public)

    def kill(self) -> None:
        self.client.close()
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def lease(self, scope: Scope = SCOPE) -> KeyLease:
        return KeyLease(self.roots[scope], self.daemon.token(scope=scope), 2**40)

    def put(self, number: int, scope: Scope = SCOPE, **meta: Any) -> PutStatus:
        data = self.data.setdefault((scope, number), os.urandom(SIZE))
        return self.client.put(self.lease(scope), name(number), data, Meta(**meta), Ack.DURABLE)

    def get(self, number: int, scope: Scope = SCOPE) -> Got:
        target = bytearray(SIZE)
        (result,) = self.client.get_into(self.lease(scope), [(name(number), memoryview(target))])
        assert not result.hit or target == self.data[scope, number]
        return result.status

    def readable(self, *numbers: int, scope: Scope = SCOPE) -> list[int]:
        there = self.client.has(self.lease(scope), [name(number) for number in numbers])
        found = [number for number, one in zip(numbers, there, strict=True) if one]
        assert [number for number in numbers if self.get(number, scope) is Got.HIT] == found
        return found

    def ok(self, method: str, path: str, body: object = None) -> Any:
        status, told = self.daemon.admin(method, path, body)
        assert status == 200, told
        return told

    def post(self, verb: str, **body: object) -> Any:
        return self.ok("POST", f"/v1/{verb}", body)

    def deltas(self, boot: str | None = None, after: int = 0, **more: int) -> Any:
        query = "".join(f"&{key}={value}" for key, value in more.items()) + (f"&boot={boot}" if boot else "")
        return self.ok("GET", f"/v1/deltas?after={after}{query}")

    def start_of_deltas(self) -> tuple[str, int]:
        told = self.deltas()
        return told["boot"], told["next"]

    def chunks(self) -> list[dict[str, Any]]:
        return list(self.ok("GET", "/v1/ls?limit=10000")["chunks"])

    def places(self, *numbers: int, scope: Scope = SCOPE) -> list[dict[str, str]]:
        told = self.post("probe", **self.named(*numbers, scope=scope))
        assert told["not_reached"] == []
        return [row["places"] for row in told["keys"]]

    @staticmethod
    def named(*numbers: int, scope: Scope = SCOPE) -> dict[str, object]:
        keys = [name(number).hex() for number in numbers]
        return {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex(), "keys": keys}

    def hold(self, version: int, *holds: dict[str, object]) -> Any:
        rows = [{"id": f"h{at}", **one} for at, one in enumerate(holds)]
        return self.post("holds", version=version, holds=rows)

    def until(self, condition: Any, seconds: float = 15.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.client.close()
    assert made.daemon.stop() == 0
    assert not [event for event in made.daemon.events if event["level"] == "error"]


def mirror(rows: list[dict[str, Any]], known: dict[tuple[str, ...], int] | None = None) -> dict[tuple[str, ...], int]:
    """What a controller makes of deltas: (tenant, domain, epoch, key, tier) -> length."""
    held = dict(known or {})
    for row in rows:
        scope = (row["tenant"], row["domain"], row["epoch"])
        if row["op"] == "put":
            held[(*scope, row["key"], row["tier"])] = row["length"]
        elif row["op"] == "removed":
            held.pop((*scope, row["key"], row["tier"]), None)
        elif row["op"] == "removed_scope":
            held = {one: length for one, length in held.items() if one[:3] != scope}
    return held


def listed(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], int]:
    return {(row["tenant"], row["domain"], row["epoch"], row["key"], row["tier"]): row["length"] for row in rows}


# Deltas


def test_deltas_say_what_came_and_what_went_and_why(site: Site):
    boot, at = site.start_of_deltas()
    end = int(time.time()) + 3600
    site.put(1, subject=ALICE, model=MODEL, position=7, expires_at=end, kind=Kind.COMMON)
    told = site.deltas(boot, at)
    assert (told["gap"], told["next"], told["first"]) == (False, at + 1, 1)
    (row,) = told["deltas"]
    assert row | {"at": 0, "stored_at": 0} == {
        "n": at + 1, "op": "put", "tier": "flash", "tenant": "acme", "domain": "users", "epoch": SCOPE.epoch.hex(),
        "key": name(1).hex(), "length": SEALED, "subject": ALICE.hex(), "model": MODEL.hex(), "kind": "common",
        "position": 7, "stored_at": 0, "expires_at": end, "at": 0, "why": None,
    }  # fmt: skip
    assert abs(row["at"] - time.time()) < 60
    assert abs(row["stored_at"] - time.time()) < 60
    site.post("remove", **site.named(1), why="retention")
    (gone,) = site.deltas(boot, told["next"])["deltas"]
    assert (gone["op"], gone["why"], gone["key"], gone["subject"]) == ("removed", "removed", name(1).hex(), ALICE.hex())


def test_a_mirror_made_of_deltas_is_what_is_listed(site: Site):
    boot, at = site.start_of_deltas()
    for number in range(12):
        site.put(number, scope=(SCOPE, OTHER)[number % 2], subject=ALICE if number % 3 else BOB)
    site.post("move", id="m1", source="flash", target="disk", tenant="acme")
    site.post("erase", tenant="acme", subject=BOB.hex())
    site.post("remove", **site.named(1, 3, scope=OTHER), why="erased")
    site.put(20)
    site.put(1, scope=OTHER)
    told = site.deltas(boot, at, limit=10_000)
    assert [row["n"] for row in told["deltas"]] == list(range(at + 1, told["next"] + 1))
    assert mirror(told["deltas"]) == listed(site.chunks())
    assert {row["why"] for row in told["deltas"]} == {None, "moved", "erased"}
    site.post("erase", tenant="acme", domain="users", epoch=SCOPE.epoch.hex())
    more = site.deltas(boot, told["next"])
    assert [row["op"] for row in more["deltas"]] == ["removed_scope"]
    assert mirror(more["deltas"], mirror(told["deltas"])) == listed(site.chunks())


def test_who_knows_another_run_or_too_little_is_told_of_a_gap(tmp_path: Path):
    site = Site(tmp_path, limits={"deltas": 16})
    assert site.deltas()["gap"]
    boot, at = site.start_of_deltas()
    for number in range(20):
        site.put(number)
    told = site.deltas(boot, at)
    assert (told["gap"], told["deltas"], told["next"], told["first"]) == (True, [], at + 20, at + 5)
    assert len(site.deltas(boot, at + 4)["deltas"]) == 16
    assert site.deltas(boot, at + 21)["gap"]
    site.restart()
    told = site.deltas(boot, at + 20)
    assert told["gap"]
    assert told["boot"] != boot
    assert len(listed(site.chunks())) == 20
    site.client.close()
    assert site.daemon.stop() == 0


def test_a_reader_who_waits_is_woken_by_a_change_and_by_the_end(site: Site):
    boot, at = site.start_of_deltas()
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(site.deltas(boot, at, wait_ms=12_000)))
    asking.start()
    site.put(1)
    asking.join(10)
    assert [row["key"] for row in answers[0]["deltas"]] == [name(1).hex()]
    assert site.deltas(boot, at + 1, wait_ms=100)["deltas"] == []
    last = threading.Thread(target=lambda: answers.append(site.deltas(boot, at + 1, wait_ms=12_000)))
    last.start()
    site.until(lambda: site.daemon.metric("process_threads") > 0)
    site.client.close()
    assert site.daemon.stop() == 0
    last.join(10)
    assert not last.is_alive()


# Listing


def test_a_listing_names_subjects_and_one_tenant_at_a_time(site: Site):
    site.put(1, subject=ALICE)
    site.put(2)
    site.put(3, scope=OTHER)
    rows = {row["key"]: row for row in site.chunks()}
    assert (rows[name(1).hex()]["subject"], rows[name(2).hex()]["subject"]) == (ALICE.hex(), None)
    assert [row["key"] for row in site.ok("GET", "/v1/ls?tenant=globex")["chunks"]] == [name(3).hex()]
    assert site.ok("GET", "/v1/ls?tenant=globex&domain=none")["chunks"] == []
    assert site.daemon.admin("GET", "/v1/ls?limit=10001")[0] == 400


# Removal and probes


def test_removal_by_name_is_everywhere_and_lasts(site: Site):
    for number in range(6):
        site.put(number)
    site.post("move", id="m1", source="flash", target="disk", least_position=0, model="00" * 16, tenant="acme")
    for number in range(6, 10):
        site.put(number)
    assert site.readable(*range(10)) == list(range(10))
    assert site.places(0, 6, 99) == [{"disk": "live", "ram": "live"}, {"flash": "live", "ram": "live"}, {}]
    done = site.post("remove", **site.named(0, 1, 6, 7, 99), why="erased")
    assert done == {"removed": 4, "bytes": 4 * SEALED, "held": [], "absent": 1, "not_reached": []}
    assert site.places(0, 1, 6, 7) == [{}] * 4
    site.restart()
    assert site.readable(*range(10)) == [2, 3, 4, 5, 8, 9]
    assert site.places(0, 1, 6, 7) == [{}] * 4
    again = site.post("remove", **site.named(0, 1, 6, 7), why="expired")
    assert (again["removed"], again["absent"]) == (0, 4)


def test_what_was_removed_by_name_is_in_no_file(site: Site):
    numbers = [int.from_bytes(os.urandom(32), "big") for _ in range(2)]
    site.put(numbers[0], subject=ALICE)
    site.put(numbers[1], subject=BOB)
    site.ok("POST", "/v1/flush", {})
    for value in (ALICE, BOB, *map(name, numbers)):
        assert traces(site, value)
    site.post("remove", **site.named(numbers[0]), why="retention")
    assert not traces(site, ALICE)
    assert not traces(site, name(numbers[0]))
    assert traces(site, BOB)


def traces(site: Site, value: bytes) -> list[str]:
    files = [one for root in ("flash", "disk") for one in (site.daemon.folder / root).rglob("*") if one.is_file()]
    return [str(one) for one in files if any(value in data for data in extents(one))]


def extents(path: Path) -> Iterator[bytes]:
    """What a file holds between its holes."""
    with path.open("rb") as file:
        end = 0
        while (start := next_data(file.fileno(), end)) is not None:
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            yield os.pread(file.fileno(), end - start, start)


def next_data(fd: int, at: int) -> int | None:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # there is none behind it
            raise
        return None


def test_a_quota_has_room_again_after_a_removal(tmp_path: Path):
    site = Site(tmp_path, quotas={"acme": 2 * SEALED})
    assert [site.put(number) for number in (1, 2, 3)][-1] is PutStatus.QUOTA
    site.post("remove", **site.named(1), why="retention")
    assert site.put(3) is PutStatus.STORED
    site.client.close()
    assert site.daemon.stop() == 0


# Holds


def test_holds_are_replaced_whole_and_never_by_an_older_set(site: Site):
    assert site.hold(3, {"tenant": "acme"})["holds"] == {"version": 3, "count": 1}
    assert site.hold(3, {"tenant": "acme"})["holds"] == {"version": 3, "count": 1}
    for version in (2, 3):
        status, error = site.daemon.admin("POST", "/v1/holds", {"version": version, "holds": []})
        assert (status, error["code"]) == (409, "KV-STORE-024")
    site.restart()
    assert site.ok("GET", "/v1/governance")["holds"] == {"version": 3, "count": 1}
    assert site.hold(4)["holds"] == {"version": 4, "count": 0}


def test_no_verb_removes_what_is_held(site: Site):
    for number in range(4):
        site.put(number, subject=ALICE if number < 2 else BOB, model=MODEL)
    site.hold(1, {"tenant": "acme", "subject": ALICE.hex()})
    done = site.post("remove", **site.named(0, 2), why="retention")
    assert (done["removed"], done["held"]) == (1, [name(0).hex()])
    assert site.readable(0, 1, 2, 3) == [0, 1, 3]  # held, and not asked to be erased: still read
    moved = site.post("move", id="m1", source="flash", target="disk")
    assert (moved["moved"], moved["skipped"]) == (1, {"held": 2})
    gone = site.post("erase", tenant="acme", subject=ALICE.hex())
    assert gone["held"] == 2
    assert sum(gone["removed"].values()) - gone["removed"]["ram"] == 0
    gone = site.post("erase", tenant="acme", domain="users", epoch=SCOPE.epoch.hex())
    assert (gone["held"], gone["removed"]["disk"]) == (2, 1)
    assert len(site.chunks()) == 2


@pytest.mark.parametrize("by", ["subject", "scope", "keys"])
def test_what_was_erased_under_a_hold_is_kept_and_read_by_nobody(site: Site, by: str):
    site.put(1, subject=ALICE)
    site.put(2, subject=ALICE, model=MODEL)
    site.hold(1, {"tenant": "acme", "domain": "users", "model": MODEL.hex()})

    def erase() -> Any:
        if by == "keys":
            return site.post("remove", **site.named(1, 2), why="erased")
        what = {"subject": ALICE.hex()} if by == "subject" else {"domain": "users", "epoch": SCOPE.epoch.hex()}
        return site.post("erase", tenant="acme", **what)

    assert erase()["held"] == ([name(2).hex()] if by == "keys" else 1)
    for _ in range(2):
        assert site.readable(1, 2) == []
        assert site.put(2, subject=ALICE) is PutStatus.EXISTS  # not written over
        assert site.readable(2) == []
        assert site.client.touch(site.lease(), [name(2)]) == 0
        assert site.places(1, 2)[1]["flash"] == "live"
        assert [row["frozen"] for row in site.post("probe", **site.named(1, 2))["keys"]] == [False, True]
        assert site.ok("GET", "/v1/governance")["frozen"] == 1
        site.restart()
    site.hold(2)
    assert site.readable(2) == []  # the erasure stands: it is carried out now
    assert not erase()["held"]
    assert site.places(1, 2) == [{}, {}]
    assert site.put(2, subject=BOB) is PutStatus.STORED
    assert site.readable(2) == [2]
    site.restart()
    assert site.readable(2) == [2]


def test_held_chunks_outlive_their_end_and_are_misses(site: Site):
    site.hold(1, {"tenant": "acme", "subject": ALICE.hex()})
    end = int(time.time()) + 2
    boot, at = site.start_of_deltas()
    site.put(1, subject=ALICE, expires_at=end)
    site.put(2, subject=BOB, expires_at=end)
    site.until(lambda: site.places(2) == [{}])
    assert site.places(1)[0]["flash"] == "expired"
    assert site.readable(1, 2) == []
    assert site.put(1, subject=ALICE) is PutStatus.EXISTS  # a PUT does not write over it
    assert site.places(1)[0]["flash"] == "expired"
    why = [(row["key"], row["why"]) for row in site.deltas(boot, at)["deltas"] if row["op"] == "removed"]
    assert why == [(name(2).hex(), "expired")]
    site.restart()
    assert site.places(1)[0]["flash"] == "expired"
    site.hold(2)
    site.until(lambda: site.places(1) == [{}])
    assert site.daemon.metric('kvstored_store_events{of="expired"}') == 1
    assert site.put(1, subject=ALICE) is PutStatus.STORED


def test_eviction_passes_over_held_chunks_and_a_store_full_of_them_says_so(tmp_path: Path):
    mount = {"path": f"{tmp_path}/flash", "capacity": "8MiB"}
    (tmp_path / "flash").mkdir()
    site = Site.__new__(Site)
    site.daemon = Daemon(tmp_path, module="kvctl.store.main", tiers={"flash": {"mounts": [mount]}},
                         policy={"second_touch_above": 1.0})  # fmt: skip
    site.data, site.roots = {}, {scope: RootKey(scope, os.urandom(32)) for scope in (SCOPE, OTHER)}
    site.start()
    site.hold(1, {"tenant": "acme", "subject": ALICE.hex()}, {"tenant": "globex"})
    for number in range(40):
        assert site.put(number, subject=ALICE) is PutStatus.STORED
    for number in range(40, 400):
        site.until(lambda number=number: site.put(number, subject=BOB) is PutStatus.STORED)
    assert site.readable(*range(40)) == list(range(40))
    statuses = [site.put(number, scope=OTHER) for number in range(400)]
    assert statuses[0] is PutStatus.STORED
    assert statuses[-1] is PutStatus.FULL
    assert site.readable(*range(40)) == list(range(40))
    stored = [number for number, status in enumerate(statuses) if status is PutStatus.STORED]
    assert site.readable(*stored, scope=OTHER) == stored
    site.hold(2)
    site.until(lambda: site.put(999) is PutStatus.STORED)
    site.client.close()
    assert site.daemon.stop() == 0


def test_held_chunks_move_when_that_is_said(site: Site):
    site.put(1, subject=ALICE)
    site.put(2, subject=ALICE)
    site.hold(1, {"tenant": "acme"})
    site.post("erase", tenant="acme", subject=ALICE.hex())
    assert site.post("move", id="m1", source="flash", target="disk")["moved"] == 0
    assert site.post("move", id="m1", source="flash", target="disk", held=True)["moved"] == 2
    assert site.places(1, 2) == [{"disk": "live"}] * 2
    assert site.readable(1, 2) == []  # frozen wherever they are
    site.restart()
    assert site.readable(1, 2) == []
    assert site.post("erase", tenant="acme", subject=ALICE.hex())["held"] == 2


# Tenants


def test_a_suspended_tenant_stops_at_its_next_frame_and_keeps_its_chunks(site: Site):
    site.put(1)
    site.put(1, scope=OTHER)
    told = site.post("tenants", version=1, tenants=[{"tenant": "acme", "state": "suspended", "quota_bytes": None}])
    assert told["tenants"] == {"version": 1, "count": 1, "suspended": ["acme"], "unknown": "serve"}
    assert refusal(site) is Refusal.REVOKED  # of a slot that was attached before
    assert refusal(site) is Refusal.REVOKED  # of ATTACH
    assert site.readable(1, scope=OTHER) == [1]
    site.restart()
    assert refusal(site) is Refusal.REVOKED
    site.post("reload")
    assert refusal(site) is Refusal.REVOKED
    site.post("tenants", version=2, tenants=[{"tenant": "acme"}], unknown="refuse")
    assert site.readable(1) == [1]
    assert refusal(site, OTHER) is Refusal.REVOKED
    assert site.daemon.admin("POST", "/v1/tenants", {"version": 1, "tenants": []})[0] == 409


def refusal(site: Site, scope: Scope = SCOPE) -> Refusal:
    with pytest.raises(StoreRefused) as refused:
        site.client.has(site.lease(scope), [name(1)])
    return refused.value.refusal


def test_a_pushed_quota_goes_before_the_configuration_s(tmp_path: Path):
    site = Site(tmp_path, quotas={"acme": 10 * SEALED, "globex": SEALED})
    site.post("tenants", version=1, tenants=[{"tenant": "acme", "quota_bytes": 2 * SEALED}, {"tenant": "globex"}])
    assert [site.put(number) for number in (1, 2, 3)][-1] is PutStatus.QUOTA
    assert [site.put(number, scope=OTHER) for number in (1, 2)][-1] is PutStatus.QUOTA
    site.restart()
    site.post("reload")
    assert site.put(3) is PutStatus.QUOTA
    site.post("tenants", version=2, tenants=[])
    assert site.put(3) is PutStatus.STORED
    site.client.close()
    assert site.daemon.stop() == 0


# Moves


def test_moves_are_chosen_by_kind_and_listed(site: Site):
    for number in range(6):
        site.put(number, kind=Kind.COMMON if number < 2 else Kind.PRIVATE, model=MODEL if number == 5 else bytes(16))
    done = site.post("move", id="m1", source="flash", target="disk", kind="common")
    assert {field: done[field] for field in ("id", "state", "chosen", "moved")} == {
        "id": "m1", "state": "done", "chosen": 2, "moved": 2,
    }  # fmt: skip
    assert site.post("move", id="m2", source="flash", target="disk", model=MODEL.hex())["moved"] == 1
    rows = site.ok("GET", "/v1/moves")["moves"]
    assert [(row["id"], row["state"], row["moved"], row["bytes"]) for row in rows] == [
        ("m2", "done", 1, SEALED), ("m1", "done", 2, 2 * SEALED),
    ]  # fmt: skip
    site.restart()
    assert [row["id"] for row in site.ok("GET", "/v1/moves")["moves"]] == ["m2", "m1"]
    assert site.daemon.admin("POST", "/v1/move/cancel", {"id": "m1"})[1]["code"] == "KV-STORE-028"


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_a_move_that_was_stopped_or_cut_short_goes_on_by_its_id(site: Site, how: str):
    for number in range(10):
        site.put(number)
    asked = {"id": "m1", "source": "flash", "target": "disk"}

    def slowly() -> None:
        try:
            site.daemon.admin("POST", "/v1/move", {**asked, "pace": SEALED})
        except OSError:
            assert how == "kill"

    slow = threading.Thread(target=slowly)
    slow.start()
    site.until(lambda: any(row["moved"] for row in site.ok("GET", "/v1/moves")["moves"]))
    running = site.ok("GET", "/v1/moves")["moves"][0]
    assert (running["state"], running["chosen"]) == ("running", 10)
    assert site.daemon.admin("POST", "/v1/move", asked)[0] == 423
    if how == "cancel":
        site.post("move/cancel", id="m1")
        slow.join(10)
    else:
        site.restart()
    (row,) = site.ok("GET", "/v1/moves")["moves"]
    assert row["state"] == ("stopped" if how == "cancel" else "interrupted")
    site.post("move", **asked)
    site.ok("POST", "/v1/flush", {})
    assert {row["tier"] for row in site.chunks()} == {"disk"}
    assert site.readable(*range(10)) == list(range(10))


# Lineage


def test_erasing_a_subject_reaches_what_it_used_of_others(site: Site):
    boot, at = site.start_of_deltas()
    for number in range(3):
        site.put(number, subject=ALICE)
    site.put(3, subject=ALICE, kind=Kind.COMMON)
    used = [name(number) for number in (0, 1, 3)]
    assert site.client.lineage(site.lease(), BOB, [*used, name(99)]) == 3
    assert site.client.lineage(site.lease(), BOB, used) == 3
    seen = [row for row in site.deltas(boot, at)["deltas"] if row["op"] == "seen"]
    assert [(row["key"], row["subject"]) for row in seen] == [(name(number).hex(), BOB.hex()) for number in (0, 1)]
    site.post("move", id="m1", source="flash", target="disk", least_position=0)
    site.restart()  # what was answered for is kept
    assert site.post("erase", tenant="acme", subject=BOB.hex())["removed"]["disk"] == 2
    assert site.readable(0, 1, 2, 3) == [2, 3]
    assert site.places(0, 1) == [{}, {}]
    assert not lineage_of(site, BOB)


def lineage_of(site: Site, subject: bytes) -> list[str]:
    files = (site.daemon.folder / "state" / "lineage").iterdir()
    return [one.name for one in files if subject in one.read_bytes()]


def test_lineage_goes_with_its_chunk(site: Site):
    site.put(1, subject=ALICE)
    site.client.lineage(site.lease(), BOB, [name(1)])
    assert lineage_of(site, BOB)
    site.post("remove", **site.named(1), why="retention")
    assert not lineage_of(site, BOB)
    site.put(1, subject=ALICE)
    site.post("erase", tenant="acme", subject=BOB.hex())
    assert site.readable(1) == [1]


def test_a_hold_on_a_subject_keeps_what_it_used_of_others(site: Site):
    site.put(1, subject=ALICE)
    site.put(2, subject=ALICE)
    site.client.lineage(site.lease(), BOB, [name(1)])
    site.hold(1, {"tenant": "acme", "subject": BOB.hex()})
    assert site.post("erase", tenant="acme", subject=ALICE.hex())["held"] == 1
    assert site.readable(1, 2) == []
    assert site.places(1, 2)[0]["flash"] == "live"


def test_lineage_needs_the_capability_of_touch_and_a_subject(site: Site):
    site.put(1, subject=ALICE)
    raw = site.daemon.session(attach=False)
    raw.ask(Type.ATTACH, site.daemon.token(operations=ALL - {Operation.TOUCH}))
    raw.send(Type.LINEAGE, wire.pack_lineage(BOB, [name(1)]))
    assert raw.refusal() == (Refusal.NOT_ALLOWED, False)
    raw.ask(Type.ATTACH, site.daemon.token())
    raw.send(Type.LINEAGE, bytes(16) + name(1))
    assert raw.refusal() == (Refusal.MALFORMED, True)
    assert not lineage_of(site, BOB)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/deltas?after=-1", None),
        ("GET", "/v1/deltas?limit=10001", None),
        ("GET", "/v1/deltas?wait_ms=60001", None),
        ("POST", "/v1/remove", {**Site.named(1), "why": "because"}),
        ("POST", "/v1/remove", {**Site.named(1), "why": "erased", "keys": []}),
        ("POST", "/v1/remove", {**Site.named(1), "why": "erased", "keys": ["00"]}),
        ("POST", "/v1/probe", {**Site.named(1), "domain": None}),
        ("POST", "/v1/holds", {"version": 1, "holds": [{"id": "h"}]}),
        ("POST", "/v1/holds", {"version": 1, "holds": [{"id": "h", "tenant": "acme", "subject": "alice"}]}),
        ("POST", "/v1/tenants", {"version": 1, "tenants": [{"tenant": "acme", "state": "asleep"}]}),
        ("POST", "/v1/tenants", {"version": 1, "tenants": [], "unknown": "guess"}),
        ("POST", "/v1/move/cancel", {}),
    ],
)
def test_a_wrong_request_changes_nothing(shared: Site, method: str, path: str, body: object):
    status, told = shared.daemon.admin(method, path, body)
    assert (status, told["code"]) == (400, "KV-STORE-013")
    told = shared.ok("GET", "/v1/governance")
    assert (told["holds"]["version"], told["tenants"]["version"], told["frozen"]) == (0, 0, 0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("shared"))
    yield made
    made.client.close()
    assert made.daemon.stop() == 0


def test_ten_thousand_keys_fit_a_request(shared: Site):
    told = shared.post("probe", **shared.named(*range(10_000)))
    assert (told["present"], told["absent"]) == (0, 10_000)
