"""Processes that share a map and keys: they place alike, and nothing of one is left in another, or after its end."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

from kvctl.connector.keys import Identity
from kvctl.connector.placement import Copies, Node, PoolMap, sign_map
from tests.pool.site import NAMES, Load, Site, owners, prompt, until_true

WEIGHTS = (1, 1, 2, 3, 4)
# First and second owner of 16 runs of `prompt("golden", 64)`; fixed for good, as a change moves every chunk.
GOLDEN = ["54", "54", "54", "35", "15", "45", "45", "43", "52", "23", "53", "45", "42", "53", "53", "34"]
PLACE = """
import json, sys
from pathlib import Path
from kvctl.connector.placement import verified_map
chain = [bytes.fromhex(line) for line in sys.stdin.read().split()]
pool = verified_map(Path(sys.argv[1]).read_bytes(), {bytes.fromhex(sys.argv[2])})
print(json.dumps([[node.name for node in pool.owners(pool.run(chain, at), 2)] for at in range(len(chain))]))
"""


def golden_map() -> PoolMap:
    nodes = tuple(
        Node(name, (f"tcp:{name}:7740",), "ab" * 32, weight) for name, weight in zip(NAMES, WEIGHTS, strict=True)
    )
    return PoolMap(1, nodes, 4, Copies(2, 2))


def test_golden_places() -> None:
    pool_map, chain = golden_map(), prompt("golden", 64)
    assert ["".join(name[-1] for name in owners(pool_map, chain, at, 2)) for at in range(0, 64, 4)] == GOLDEN


def test_two_processes_place_alike(tmp_path: Path) -> None:
    controller, chain = Identity.generate(), prompt("golden", 64)
    (tmp_path / "pool.json").write_bytes(sign_map(golden_map(), controller))
    answers = [
        subprocess.run(
            [sys.executable, "-c", PLACE, str(tmp_path / "pool.json"), controller.public.hex()],
            input="\n".join(key.hex() for key in chain),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    assert json.loads(answers[0]) == [owners(golden_map(), chain, at, 2) for at in range(64)]


def threads() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate() if thread.name.startswith("kvctl-")}


def sockets() -> int:
    return sum(is_socket(link) for link in Path("/proc/self/fd").iterdir())


def is_socket(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith("socket:")
    except FileNotFoundError:  # the descriptor that lists the others
        return False


def test_no_thread_and_no_socket_is_left_after_a_close_under_load(site: Site) -> None:
    before = sockets(), threads()
    chain = prompt("closing", 60)
    for _ in range(3):
        with site.pool(site.map()) as pool:
            site.put(pool, chain)

            def read(_: random.Random) -> None:
                site.get(pool, chain)  # misses once the pool is closed, and nothing else

            with Load(read, read, read) as load:
                load.further(2)
                pool.close()
                load.further(2)
    until_true(lambda: (sockets(), threads()) == before)


def test_reloads_leave_no_thread_and_no_socket(site: Site) -> None:
    before = sockets(), threads()
    chain = prompt("leaving", 40)
    with site.pool(site.map()) as pool:
        site.put(pool, chain)
        pool.reload(site.map(NAMES[:1], version=2))
        site.get(pool, chain)
        pool.settle()
        gone = tuple(f"kvctl-{name}" for name in NAMES[1:])
        until_true(lambda: not any(thread.name.startswith(gone) for thread in threading.enumerate()))
    until_true(lambda: (sockets(), threads()) == before)


def test_a_child_forked_under_load_reads_by_itself_and_the_parent_goes_on(site: Site) -> None:
    chain = prompt("forked", 60)
    with site.pool(site.map()) as pool:
        site.put(pool, chain)

        def read(_: random.Random) -> None:
            assert all(result.hit for result in site.get(pool, chain))

        with Load(read, read) as load:
            for _ in range(5):
                load.further(1)
                child = os.fork()
                if not child:
                    good = False
                    try:
                        good = all(result.hit for result in site.get(pool, chain)) and all(site.has(pool, chain))
                    finally:
                        os._exit(0 if good else 1)
                assert os.waitpid(child, 0)[1] == 0
            load.further(2)
