"""Work that goes on and on: memory, threads, descriptors and leases stay where they were."""

import os
import secrets
import time
from pathlib import Path

from kvctl.types.chunks import Ack, Meta, Scope
from tests.store.faults.ledger import Ledger
from tests.store.faults.load import Load
from tests.store.faults.rig import ACME, ZEN, Kvstored, Vitals, await_that

SECONDS = float(os.environ.get("KVCTL_SOAK_SECONDS", "20"))  # 3600 for a thorough run
RAM = 128 << 20


def test_nothing_grows(tmp_path: Path):
    print("the long form: KVCTL_SOAK_SECONDS=3600 pytest --timeout=0 tests/store/faults/test_soak.py")
    daemon = Kvstored(tmp_path, capacity="256MiB", ram="128MiB")
    ledger = Ledger(evicts=True)
    try:
        daemon.open()
        early, late = soaked(daemon, ledger)
        with daemon.client() as client:
            client.has(daemon.lease(), [chunk.key for chunk in ledger.chunks[-50:]], lease_ms=100)
        await_that(lambda: daemon.metric("kvstored_sessions") == 0, "every session is over")
        await_that(lambda: daemon.stat()["counters"]["leases"] == 0, "every lease is over")
        assert peak(late).memory < peak(early).memory + (48 << 20)
        assert peak(late).memory < RAM + (160 << 20)
        assert peak(late).threads <= peak(early).threads + 4
        assert peak(late).descriptors <= peak(early).descriptors + 8
        stat = daemon.stat()
        print(stat["counters"], stat["tiers"][0]["counters"])
        assert stat["counters"].get("evicted", 0) > 0, "the load never filled the store: too light to show anything"
        assert stat["tiers"][0]["used"] <= 256 << 20
        assert not ledger.wrong
        await_that(lambda: daemon.stat()["ram"]["ram_in_use"] <= RAM, "no buffer is lost")
        assert daemon.stop() == 0
        assert not [event for event in daemon.events if event["level"] == "error"]
        assert not daemon.noise
    finally:
        daemon.end()


def soaked(daemon: Kvstored, ledger: Ledger) -> tuple[list[Vitals], list[Vitals]]:
    """Vitals of the second quarter, when all is warm, and of the last one."""
    samples: list[Vitals] = []
    began = time.monotonic()
    turn = 0
    while time.monotonic() < began + SECONDS:
        with Load(ledger, daemon, [ACME, ZEN], budget=1 << 40, seed=turn):  # new connections every turn
            time.sleep(min(1.0, SECONDS / 16))
            samples.append(daemon.vitals())
            samples.append(daemon.vitals())
        if turn % 4 == 3:
            come_and_go(daemon, ledger)
        ledger.chunks[:-2000] = []
        turn += 1
    quarter = len(samples) // 4
    return samples[quarter : 2 * quarter], samples[-quarter:]


def come_and_go(daemon: Kvstored, ledger: Ledger) -> None:
    """A scope is made and erased, and everything is read again."""
    scope = Scope("acme", "agents", secrets.token_bytes(16))
    with daemon.client("unix") as client:
        for _ in range(4):
            ledger.put(client, daemon.lease(scope), ledger.new(scope, 50_000, Meta()), Ack.DURABLE)
    daemon.erase(scope)
    for chunk in ledger.chunks:
        chunk.erased |= chunk.scope == scope
    daemon.post_ok("POST", "/v1/scrub", {"tier": "flash"})


def peak(samples: list[Vitals]) -> Vitals:
    return Vitals(
        max(one.memory for one in samples), max(one.threads for one in samples), max(one.descriptors for one in samples)
    )
