"""kill -9 under mixed load: acknowledged chunks are there, erased ones are not, and nothing else is ever served."""

import os
import signal
import time
from pathlib import Path

from tests.store.faults.kill9 import ROUND_BYTES, killed
from tests.store.faults.ledger import Ledger
from tests.store.faults.load import Load
from tests.store.faults.rig import ACME, ZEN, Kvstored

ROUNDS = int(os.environ.get("KVCTL_KILL_ROUNDS", "8"))  # 100 for a thorough run
SEED = int(os.environ.get("KVCTL_FAULT_SEED", "1"))


def test_what_was_acknowledged_survives_every_kill(tmp_path: Path):
    kills = killed(tmp_path, ROUNDS, SEED)
    print(kills.report())
    print("the long form: python -m tests.store.faults.kill9 --rounds 100")
    assert not kills.ledger.wrong
    assert kills.ledger.told["put_durable_stored"] > ROUNDS
    assert kills.ledger.told["cut_by_the_end"] > ROUNDS, "the kills met no work: this showed nothing"


def test_under_eviction_a_chunk_is_whole_or_missing(tmp_path: Path):
    kills = killed(tmp_path, max(2, ROUNDS // 4), SEED + 1, evicts=True)
    print(kills.report())
    print("the long form: python -m tests.store.faults.kill9 --rounds 100 --evict")
    assert not kills.ledger.wrong


def test_an_orderly_end_under_load_keeps_all_that_was_acknowledged(tmp_path: Path):
    """What was only visible, too: a stop is announced, a kill is not."""
    daemon, ledger = Kvstored(tmp_path, capacity="64GiB"), Ledger()
    try:
        for turn in range(3):
            daemon.open()
            ledger.audit(daemon, ledger.chunks)
            with Load(ledger, daemon, [ACME, ZEN], budget=ROUND_BYTES, seed=SEED + turn) as load:
                time.sleep(0.6)  # work for the end to interrupt
                load.doomed.set()
                daemon.signal(signal.SIGTERM)
                assert daemon.wait() == 0
        daemon.open()
        ledger.audit(daemon, ledger.chunks)
        assert daemon.stop() == 0
    finally:
        daemon.end()
    assert not ledger.wrong
    assert ledger.told["put_visible_stored"] > 0
    assert not daemon.noise
