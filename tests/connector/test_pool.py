"""Chains over several stores over real sockets, some of which are down, hung, slow or refusing."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kvctl.connector.breaker import Policy
from kvctl.connector.keys import Identity
from kvctl.connector.placement import Copies, Node, PoolMap
from kvctl.connector.pool import Pool, PutResult
from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus, Refusal, Type
from kvctl.types.chunks import Kind, Meta
from tests.connector.standin import StandIn, key_lease, running

LEASE = key_lease()
LENGTH = 3000
CHAIN = [bytes((number,)) + b"k" * 31 for number in range(24)]
PRIVATE, COMMON = Meta(), Meta(kind=Kind.COMMON)
AT_MOST = 5.0


@pytest.fixture
def stores() -> Iterator[dict[str, StandIn]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(running()) for name in ("one", "two", "three")}


def site(stores: dict[str, StandIn], version: int = 1, common: int = 2) -> PoolMap:
    nodes = tuple(Node(name, (store.address,), store.identity.public.hex()) for name, store in stores.items())
    return PoolMap(version, nodes, 4, Copies(1, common))


@pytest.fixture
def pool(stores: dict[str, StandIn]) -> Iterator[Pool]:
    # A breaker that opened stays open for the whole test unless the test says otherwise.
    with Pool(site(stores), Identity.generate(), policy=Policy(failures=1, first=60.0)) as made:
        yield made


def plain(position: int) -> bytes:
    return bytes((position, 255 - position)) * (LENGTH // 2)


def put(pool: Pool, positions: range, meta: Meta = PRIVATE) -> list[PutResult]:
    return pool.put(LEASE, CHAIN, [(position, plain(position), meta) for position in positions])


def got(pool: Pool, positions: range, seconds: float = 20) -> list[Got]:
    """Fetch, and hold each hit against what was stored."""
    targets = {position: memoryview(bytearray(LENGTH)) for position in positions}
    results = pool.get_into(LEASE, CHAIN, list(targets.items()), time.monotonic() + seconds)
    for (position, target), result in zip(targets.items(), results, strict=True):
        assert not result.hit or target == plain(position)
    return [result.status for result in results]


def owner_of(pool: Pool, position: int, rank: int = 0) -> str:
    return pool.map.owners(pool.map.run(CHAIN, position), rank + 1)[rank].name


def owned(pool: Pool, name: str) -> list[int]:
    return [position for position in range(len(CHAIN)) if owner_of(pool, position) == name]


def until_true(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_chain_is_spread_by_stripes_and_found_again(pool: Pool, stores: dict[str, StandIn]) -> None:
    assert [result.there for result in put(pool, range(24))] == [1] * 24
    for name, store in stores.items():
        assert sorted(store.chunks) == [CHAIN[position] for position in owned(pool, name)]
    assert sum(bool(store.chunks) for store in stores.values()) >= 2
    assert got(pool, range(24)) == [Got.HIT] * 24
    assert pool.has(LEASE, CHAIN) == [True] * 24


def test_a_prompt_with_a_common_prefix_hits_it(pool: Pool) -> None:
    put(pool, range(24))
    other = CHAIN[:10] + [b"o" * 31 + bytes((number,)) for number in range(9)]
    assert pool.has(LEASE, other) == [True] * 10 + [False] * 9
    assert pool.has(LEASE, other, first=8) == [True] * 2 + [False] * 9


def test_a_suffix_is_stored_where_a_reader_of_the_whole_looks(pool: Pool) -> None:
    put(pool, range(6))
    put(pool, range(6, 24))
    assert got(pool, range(24)) == [Got.HIT] * 24


def test_common_chunks_are_on_two_nodes(pool: Pool, stores: dict[str, StandIn]) -> None:
    results = put(pool, range(8), COMMON)
    assert [result.there for result in results] == [2] * 8
    for position, result in enumerate(results):
        first, second = [name for name, _ in result.copies]
        assert [first, second] == [owner_of(pool, position), owner_of(pool, position, 1)]
        assert all((CHAIN[position] in store.chunks) == (name in (first, second)) for name, store in stores.items())


def test_the_second_copy_serves_when_the_first_node_is_down(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(8), COMMON)
    stores[owner_of(pool, 0)].close()
    assert pool.has(LEASE, CHAIN[:8]) == [True] * 8
    assert got(pool, range(8)) == [Got.HIT] * 8


def test_a_corrupt_copy_is_a_miss_and_the_other_copy_a_hit(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(1), COMMON)
    stores[owner_of(pool, 0)].faults.flip = {CHAIN[0]}
    assert got(pool, range(1)) == [Got.HIT]
    stores[owner_of(pool, 0, 1)].faults.flip = {CHAIN[0]}
    assert got(pool, range(1)) == [Got.CORRUPT]


def test_a_node_that_is_down_is_a_miss_for_its_chunks_alone(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(24))
    lost = owner_of(pool, 0)
    stores[lost].close()
    expected = [Got.LOST if owner_of(pool, position) == lost else Got.HIT for position in range(24)]
    # The next in line answers MISS: it is asked because a reader does not know how many copies there are.
    assert [Got.LOST if status is Got.MISS else status for status in got(pool, range(24))] == expected
    assert pool.has(LEASE, CHAIN) == [status is Got.HIT for status in expected]
    assert pool.stat()[lost]["breaker"] == "open"


def test_an_open_breaker_keeps_calls_away_from_a_node(stores: dict[str, StandIn]) -> None:
    with Pool(site(stores, common=1), Identity.generate(), policy=Policy(failures=1, first=60.0)) as pool:
        hung = stores[owner_of(pool, 0)]
        hung.faults.stall = {Type.HAS}
        pool.has(LEASE, CHAIN[:1], deadline=time.monotonic() + 0.2)
        hung.faults.stall.clear()
        asked = len(hung.requests)
        begun = time.monotonic()
        assert pool.has(LEASE, CHAIN[:1], deadline=begun + 20) == [False]
        assert got(pool, range(1)) == [Got.LOST]
        assert put(pool, range(1))[0].copies == ((owner_of(pool, 0), None),)
        assert time.monotonic() - begun < AT_MOST
        assert len(hung.requests) == asked


def test_a_breaker_closes_when_its_node_is_back(stores: dict[str, StandIn]) -> None:
    with Pool(site(stores), Identity.generate(), policy=Policy(failures=1, first=0.01)) as pool:
        put(pool, range(24))
        ailing = stores[owner_of(pool, 0)]
        ailing.faults.refuse[Type.HAS] = (Refusal.DRAINING, 0)
        assert pool.has(LEASE, CHAIN[:1]) == [False]
        assert pool.stat()[owner_of(pool, 0)]["breaker"] == "open"
        ailing.faults.refuse.clear()
        until_true(lambda: pool.has(LEASE, CHAIN[:1]) == [True])
        assert pool.stat()[owner_of(pool, 0)]["breaker"] == "closed"


def test_a_refused_capability_is_a_miss_and_no_fault_of_the_node(pool: Pool, stores: dict[str, StandIn]) -> None:
    for store in stores.values():
        store.faults.refuse[Type.ATTACH] = (Refusal.EXPIRED, 0)
    assert pool.has(LEASE, CHAIN) == [False] * 24
    assert put(pool, range(1))[0].there == 0
    assert {told["breaker"] for told in pool.stat().values()} == {"closed"}
    assert "expired" in pool.stat()[owner_of(pool, 0)]["refused"]


def test_a_hung_first_owner_leaves_time_for_the_second(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(4), COMMON)
    stores[owner_of(pool, 0)].faults.stall = {Type.GET}
    begun = time.monotonic()
    assert got(pool, range(4), 2.0) == [Got.HIT] * 4
    assert time.monotonic() - begun < AT_MOST


def test_every_node_hung_ends_at_the_deadline(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(24), COMMON)
    for store in stores.values():
        store.faults.stall = {Type.GET, Type.HAS}
    begun = time.monotonic()
    assert set(got(pool, range(24), 0.3)) == {Got.LOST}
    assert pool.has(LEASE, CHAIN, deadline=time.monotonic() + 0.3) == [False] * 24
    assert time.monotonic() - begun < AT_MOST


def test_a_full_node_says_so(pool: Pool, stores: dict[str, StandIn]) -> None:
    stores[owner_of(pool, 0)].faults.put = PutStatus.FULL
    (result,) = put(pool, range(1), COMMON)
    assert result.there == 1
    assert result.copies[0] == (owner_of(pool, 0), PutStatus.FULL)


def test_touch_reaches_every_copy(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(4), COMMON)
    pool.touch(LEASE, CHAIN[:4])
    touched = {name for name, store in stores.items() if Type.TOUCH in [kind for kind, _, _ in store.requests]}
    assert touched == {owner_of(pool, 0), owner_of(pool, 0, 1)}


class TestNewMap:
    @pytest.fixture
    def grown(self, stores: dict[str, StandIn]) -> Iterator[tuple[Pool, StandIn, PoolMap]]:
        with (
            running() as fourth,
            Pool(site(stores, common=1), Identity.generate(), policy=Policy(failures=1)) as pool,
        ):
            put(pool, range(24))
            yield pool, fourth, site({**stores, "four": fourth}, 2, common=1)

    def test_chunks_are_found_where_they_were(self, grown: tuple[Pool, StandIn, PoolMap]) -> None:
        pool, fourth, bigger = grown
        pool.reload(bigger)
        assert not pool.settled
        assert owned(pool, "four") != []
        assert got(pool, range(24)) == [Got.HIT] * 24
        assert fourth.chunks == {}

    def test_new_chunks_go_where_the_new_map_says(self, grown: tuple[Pool, StandIn, PoolMap]) -> None:
        pool, fourth, bigger = grown
        pool.reload(bigger)
        put(pool, range(24))
        assert sorted(fourth.chunks) == [CHAIN[position] for position in owned(pool, "four")]

    def test_after_settling_only_the_new_owner_is_asked(self, grown: tuple[Pool, StandIn, PoolMap]) -> None:
        pool, _, bigger = grown
        pool.reload(bigger)
        pool.settle()
        moved = owned(pool, "four")
        assert pool.has(LEASE, CHAIN) == [position not in moved for position in range(24)]

    def test_a_node_that_left_is_read_until_settling(self, stores: dict[str, StandIn]) -> None:
        with Pool(site(stores), Identity.generate()) as pool:
            put(pool, range(24))
            left = owner_of(pool, 0)
            rest = {name: store for name, store in stores.items() if name != left}
            pool.reload(site(rest, 2))
            assert got(pool, range(24)) == [Got.HIT] * 24
            pool.settle()
            assert got(pool, range(1)) == [Got.MISS]
            assert left not in pool.stat()

    def test_two_changes_in_a_row_lose_nothing_before_settling(self, stores: dict[str, StandIn]) -> None:
        one, two, three = ({name: store} for name, store in stores.items())
        with Pool(site(one), Identity.generate()) as pool:
            put(pool, range(24))
            pool.reload(site(two, 2))
            pool.reload(site(three, 3))
            assert got(pool, range(24)) == [Got.HIT] * 24
            pool.settle()
            assert list(pool.stat()) == list(three)

    def test_a_map_after_the_close_opens_nothing(self, stores: dict[str, StandIn]) -> None:
        pool = Pool(PoolMap(1, ()), Identity.generate())
        pool.close()
        pool.reload(site(stores, 2))
        assert [result.there for result in put(pool, range(24))] == [0] * 24
        assert pool.has(LEASE, CHAIN) == [False] * 24
        assert [store.accepted for store in stores.values()] == [0] * 3

    def test_an_older_map_is_not_taken(self, pool: Pool, stores: dict[str, StandIn]) -> None:
        with pytest.raises(ValueError, match="not newer"):
            pool.reload(site(stores))

    def test_connections_of_unchanged_nodes_stay(self, pool: Pool, stores: dict[str, StandIn]) -> None:
        put(pool, range(24))
        before = {name: store.accepted for name, store in stores.items()}
        pool.reload(site(stores, 2))
        pool.settle()
        assert got(pool, range(24)) == [Got.HIT] * 24
        assert {name: store.accepted for name, store in stores.items()} == before


def test_no_node_is_a_miss(stores: dict[str, StandIn]) -> None:
    with Pool(PoolMap(1, ()), Identity.generate()) as pool:
        assert pool.has(LEASE, CHAIN) == [False] * 24
        assert got(pool, range(2)) == [Got.LOST] * 2
        assert put(pool, range(1)) == [PutResult(())]


def test_a_child_after_fork_can_use_the_pool(pool: Pool) -> None:
    put(pool, range(24), COMMON)
    child = os.fork()
    if not child:
        good = False
        try:
            good = got(pool, range(24)) == [Got.HIT] * 24
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_node_that_answers_a_little_and_then_hangs_is_left_alone_too(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(4))
    ailing = stores[owner_of(pool, 0)]
    ailing.chunks.pop(CHAIN[0])
    ailing.faults.drip_after = 100
    assert got(pool, range(4), 2.0)[0] is Got.MISS
    assert pool.stat()[owner_of(pool, 0)]["breaker"] == "open"


def test_a_call_does_not_wait_behind_others_that_may_take_longer(stores: dict[str, StandIn]) -> None:
    with Pool(site(stores, common=1), Identity.generate(), policy=Policy(failures=1000)) as pool:
        for store in stores.values():
            store.faults.stall = {Type.HAS}
        end = time.monotonic() + 4
        slow = [threading.Thread(target=pool.has, args=(LEASE, CHAIN, 0, 0, end)) for _ in range(8)]
        for thread in slow:
            thread.start()
        until_true(lambda: sum(kind is Type.HAS for s in stores.values() for kind, _, _ in s.requests) >= 8)
        begun = time.monotonic()
        pool.has(LEASE, CHAIN, deadline=begun + 0.2)
        assert time.monotonic() < min(begun + 2, end)
        for thread in slow:
            thread.join()


def test_a_hung_node_does_not_keep_the_others_from_storing(pool: Pool, stores: dict[str, StandIn]) -> None:
    hung = owner_of(pool, 0)
    stores[hung].faults.stall = {Type.PUT}
    items = [(position, plain(position), PRIVATE) for position in range(24)]
    results = pool.put(LEASE, CHAIN, items, deadline=time.monotonic() + 2.0)
    assert [result.there for result in results] == [int(owner_of(pool, position) != hung) for position in range(24)]


def test_a_store_that_takes_no_such_chunk_keeps_none_from_the_others(pool: Pool, stores: dict[str, StandIn]) -> None:
    small = owner_of(pool, 0)
    stores[small].chunk_limit = 1000
    results = put(pool, range(24))
    assert [result.there for result in results] == [int(owner_of(pool, position) != small) for position in range(24)]
    assert "takes 1 to 1000" in pool.stat()[small]["refused"]
    assert pool.stat()[small]["breaker"] == "closed"


def test_a_position_that_comes_twice_is_refused(pool: Pool) -> None:
    """One of its targets would be called a hit and hold what it held before."""
    put(pool, range(1))
    one, other = (memoryview(bytearray(LENGTH)) for _ in range(2))
    with pytest.raises(ValueError, match="twice"):
        pool.get_into(LEASE, CHAIN, [(0, one), (0, other)])


def test_a_pool_without_threads_writes_to_no_target_after_its_answer(
    stores: dict[str, StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses threads for a while: what could not be asked for is lost, and is not fetched later on."""
    with Pool(site(stores, common=1), Identity.generate(), policy=Policy(failures=1000)) as pool:
        put(pool, range(24))
        pool.restart()
        targets = {position: memoryview(bytearray(LENGTH)) for position in range(24)}
        with monkeypatch.context() as refusing:
            refusing.setattr(threading.Thread, "start", no_thread)
            results = pool.get_into(LEASE, CHAIN, list(targets.items()))
        lost = [position for position, result in enumerate(results) if result.status is Got.LOST]
        assert lost
        assert got(pool, range(24)) == [Got.HIT] * 24  # every thread is there now, and had its turn
        assert not any(any(targets[position]) for position in lost)


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_many_saves_leave_connections_and_threads_for_questions(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(24))
    for store in stores.values():
        store.faults.stall = {Type.PUT}
        store.requests.clear()
    fresh = [bytes((number,)) + b"f" * 31 for number in range(24)]
    items = [(position, plain(position), PRIVATE) for position in range(24)]
    end = time.monotonic() + 4
    savers = [threading.Thread(target=pool.put, args=(LEASE, fresh, items), kwargs={"deadline": end}) for _ in range(6)]
    for saver in savers:
        saver.start()
    until_true(lambda: all(Type.PUT in [kind for kind, _, _ in store.requests] for store in stores.values()))
    for _ in range(5):
        assert pool.has(LEASE, CHAIN, deadline=end) == [True] * 24
        assert time.monotonic() < end
    for saver in savers:
        saver.join()


def test_far_deadlines_are_days_and_no_error(pool: Pool) -> None:
    put(pool, range(4))
    for deadline in (float("inf"), time.monotonic() + 1e9):
        assert pool.has(LEASE, CHAIN[:4], deadline=deadline) == [True] * 4
        items = [(position, bytes(8 << 20), PRIVATE) for position in (5, 6, 13)]
        assert [result.there for result in pool.put(LEASE, CHAIN, items, deadline=deadline)] == [1] * 3


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_node_of_an_impossible_name_is_a_miss(host: str) -> None:
    node = Node("one", (f"tcp:{host}:7740",), "ab" * 32)
    with Pool(PoolMap(1, (node,)), Identity.generate()) as pool:
        assert pool.has(LEASE, CHAIN[:1]) == [False]
        assert put(pool, range(1))[0].there == 0


REVOKED = {Type.ATTACH: (Refusal.REVOKED, 0)}
OTHERS = key_lease("globex")


def refuse(stores: dict[str, StandIn], pool: Pool) -> str:
    """One store, which owns chunks, refuses every scope from now on."""
    name = owner_of(pool, 0)
    stores[name].faults.refuse = REVOKED
    return name


def test_a_node_that_refuses_the_tenant_has_no_part_in_its_placement(pool: Pool, stores: dict[str, StandIn]) -> None:
    out = refuse(stores, pool)
    results = put(pool, range(24))
    assert [result.there for result in results] == [1] * 24
    assert not stores[out].chunks
    assert pool.refused_by(LEASE.scope) == {out}
    assert pool.has(LEASE, CHAIN) == [True] * 24
    assert got(pool, range(24)) == [Got.HIT] * 24
    said = {name: (told["unserved"], told["breaker"]) for name, told in pool.stat().items()}
    assert said == {name: (int(name == out), "closed") for name in stores}


def test_the_question_that_is_refused_first_finds_what_the_others_have(pool: Pool, stores: dict[str, StandIn]) -> None:
    out = refuse(stores, pool)
    put(pool, range(24))
    with Pool(pool.map, Identity.generate()) as reader:
        assert reader.has(LEASE, CHAIN) == [True] * 24
        assert reader.refused_by(LEASE.scope) == {out}
        asked = [kind for kind, _, _ in stores[out].requests].count(Type.ATTACH)
        assert got(reader, range(24)) == [Got.HIT] * 24
        assert [kind for kind, _, _ in stores[out].requests].count(Type.ATTACH) == asked


def test_common_chunks_have_two_copies_without_a_node_that_refuses(pool: Pool, stores: dict[str, StandIn]) -> None:
    out = refuse(stores, pool)
    assert [result.there for result in put(pool, range(8), COMMON)] == [2] * 8
    assert all(CHAIN[at] in store.chunks for at in range(8) for name, store in stores.items() if name != out)


def test_a_node_is_left_out_for_the_scope_it_refused_alone(pool: Pool, stores: dict[str, StandIn]) -> None:
    out = refuse(stores, pool)
    put(pool, range(24))
    stores[out].faults.refuse = {}
    assert pool.refused_by(OTHERS.scope) == frozenset()
    items = [(position, plain(position), PRIVATE) for position in owned(pool, out)]
    assert {result.copies for result in pool.put(OTHERS, CHAIN, items)} == {((out, PutStatus.STORED),)}


def test_a_node_that_serves_the_tenant_again_is_asked_again(pool: Pool, stores: dict[str, StandIn]) -> None:
    out = refuse(stores, pool)
    assert pool.warm(LEASE)[out].startswith("revoked")
    assert pool.refused_by(LEASE.scope) == {out}
    assert pool.warm_again(LEASE) == {}  # not yet
    stores[out].faults.refuse = {}
    assert pool.warm(LEASE) == dict.fromkeys(stores, "")
    assert pool.refused_by(LEASE.scope) == frozenset()
    put(pool, range(24))
    assert stores[out].chunks


def test_when_every_node_refuses_all_is_a_miss(pool: Pool, stores: dict[str, StandIn]) -> None:
    for store in stores.values():
        store.faults.refuse = REVOKED
    assert pool.has(LEASE, CHAIN) == [False] * 24
    assert {result.there for result in put(pool, range(24))} == {0}
    assert pool.refused_by(LEASE.scope) == set(stores)


def test_warm_connections_carry_the_first_requests(stores: dict[str, StandIn]) -> None:
    with Pool(site(stores), Identity.generate(), connections=3) as pool:
        assert pool.warm(LEASE, room=LENGTH) == dict.fromkeys(stores, "")
        opened = {name: (store.accepted, len(store.requests)) for name, store in stores.items()}
        assert opened == dict.fromkeys(stores, (3, 3))  # an ATTACH on each
        put(pool, range(24))
        assert got(pool, range(24)) == [Got.HIT] * 24
        assert {name: store.accepted for name, store in stores.items()} == dict.fromkeys(stores, 3)
        assert all([kind for kind, _, _ in store.requests].count(Type.ATTACH) == 3 for store in stores.values())


def test_a_node_that_is_down_keeps_no_other_from_being_warm(stores: dict[str, StandIn]) -> None:
    with Pool(site(stores), Identity.generate()) as pool:
        stores["two"].close()
        said = pool.warm(LEASE, time.monotonic() + AT_MOST)
        assert [name for name, why in said.items() if why] == ["two"]


SUBJECT = b"a user's name..."


def test_whose_chunks_a_user_used_is_noted_where_they_are(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(24))
    assert pool.lineage(LEASE, SUBJECT, CHAIN, range(24)) == 0
    for name, store in stores.items():
        noted = [body for kind, _, body in store.requests if kind is Type.LINEAGE]
        assert all(CHAIN[at] in b"".join(noted) for at in owned(pool, name))
        assert all(body.startswith(SUBJECT) for body in noted)


def test_chunks_whose_node_cannot_be_told_are_counted(pool: Pool, stores: dict[str, StandIn]) -> None:
    put(pool, range(24))
    lost = owner_of(pool, 0)
    stores[lost].close()
    may_have = [at for at in range(24) if lost in (owner_of(pool, at), owner_of(pool, at, 1))]
    assert pool.lineage(LEASE, SUBJECT, CHAIN, range(24)) == len(may_have) >= len(owned(pool, lost))


def test_a_node_that_was_told_twice_stands_for_no_other(stores: dict[str, StandIn]) -> None:
    """The second owner refuses the tenant, so the first is asked again, and the third cannot be told."""
    with Pool(site(stores), Identity.generate(), policy=Policy(failures=1, first=60.0)) as pool:
        _, refuses, silent = (owner_of(pool, 0, rank) for rank in range(3))
        stores[refuses].faults.refuse = REVOKED
        stores[silent].faults.refuse = {Type.LINEAGE: (Refusal.DRAINING, 0)}
        assert pool.lineage(LEASE, SUBJECT, CHAIN, [0]) == 1


def test_chunks_of_which_no_node_would_hear_are_counted(pool: Pool, stores: dict[str, StandIn]) -> None:
    for store in stores.values():
        store.faults.refuse = REVOKED
    assert pool.lineage(LEASE, SUBJECT, CHAIN, range(24)) == 24
