"""kill -9 under mixed load: acknowledged chunks are there, erased ones are not, and nothing else is ever served."""

import os
from pathlib import Path

from tests.store.faults.kill9 import killed

ROUNDS = int(os.environ.get("KVCTL_KILL_ROUNDS", "8"))  # 100 for a thorough run
SEED = int(os.environ.get("KVCTL_FAULT_SEED", "1"))


def test_what_was_acknowledged_survives_every_kill(tmp_path: Path):
    kills = killed(tmp_path, ROUNDS, SEED)
    print(kills.report())
    print("the long form: python -m tests.store.faults.kill9 --rounds 100")
    assert not kills.ledger.wrong
    assert kills.ledger.told["put_durable_stored"] > ROUNDS
    assert kills.replayed > 0, "no kill left anything to replay: the load was too light to show anything"


def test_under_eviction_a_chunk_is_whole_or_missing(tmp_path: Path):
    kills = killed(tmp_path, max(2, ROUNDS // 4), SEED + 1, evicts=True)
    print(kills.report())
    print("the long form: python -m tests.store.faults.kill9 --rounds 100 --evict")
    assert not kills.ledger.wrong
