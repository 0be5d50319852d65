"""The stores of a site as one: chunks of a prompt go to, and are asked from, the nodes that own them.

Store trouble is never raised: a node that is down, refuses, or is left alone by its breaker is a miss for its chunks
at once, and the next owner is asked where there is one: other copies, then the owners by the previous map while both
are in force. All waiting ends at the deadline; while other owners are left, one gets only its part of the time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import random
from threading import Lock
from typing import Any, Self, TypeVar

from kvctl.connector.breaker import Policy
from kvctl.connector.client import LONGEST, Bytes, StoreClient
from kvctl.connector.failures import StoreError
from kvctl.connector.forks import restart_in_child
from kvctl.connector.keys import Identity, KeyLease
from kvctl.connector.member import LANES, Member
from kvctl.connector.placement import Node, PoolMap
from kvctl.connector.receipt import GetResult, Got
from kvctl.connector.rounds import Question, ask_in_turn, run_all
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Ack, Kind, Meta

T = TypeVar("T")
Item = tuple[int, Bytes | Sequence[Bytes], Meta]  # position in the chain, plaintext, meta


@dataclass(frozen=True, slots=True)
class PutResult:
    """What each owner said, first choice first; None: it was not reached, or refused."""

    copies: tuple[tuple[str, PutStatus | None], ...]

    @property
    def there(self) -> int:
        """How many nodes have the chunk now."""
        return sum(status in (PutStatus.STORED, PutStatus.EXISTS) for _, status in self.copies)


@dataclass(frozen=True, slots=True)
class State:
    """The maps in force, the newest first, and a member for each of their nodes: read together, replaced together."""

    maps: tuple[PoolMap, ...]
    members: Mapping[str, Member]


class Pool:
    """Thread-safe. `options` go to each node's StoreClient; deadlines are values of `time.monotonic()`."""

    def __init__(
        self,
        pool_map: PoolMap,
        identity: Identity,
        *,
        previous: PoolMap | None = None,
        policy: Policy = Policy(),
        timeout: float = 30.0,
        chance: Callable[[], float] = random,
        **options: Any,
    ) -> None:
        self._identity = identity
        self._policy = policy
        self._timeout = timeout
        self._chance = chance
        self._options = options
        self._changing = Lock()
        self._closed = False
        self._state = State((), {})
        self._adopt((pool_map,) if previous is None else (pool_map, previous))
        restart_in_child(self)

    @property
    def map(self) -> PoolMap:
        return self._state.maps[0]

    @property
    def settled(self) -> bool:
        """Whether one map alone is in force."""
        return len(self._state.maps) == 1

    def reload(self, pool_map: PoolMap) -> None:
        """Write by a newer map from now on, and read by it and then by those before, until `settle`.

        ValueError for a version that is not newer.
        """
        with self._changing:
            if pool_map.version <= self.map.version:
                raise ValueError(f"map version {pool_map.version} is not newer than {self.map.version}")
            self._adopt((pool_map, *self._state.maps))

    def settle(self) -> None:
        """The chunks have moved, or will not: read by the newest map alone."""
        with self._changing:
            self._adopt(self._state.maps[:1])

    def has(
        self,
        lease: KeyLease,
        chain: Sequence[bytes],
        first: int = 0,
        lease_ms: int = 0,
        deadline: float | None = None,
    ) -> list[bool]:
        """Which chunks of a chain, from `first` on, some node has, protected there for `lease_ms`."""
        there = [False] * (len(chain) - first)

        def ask(positions: Sequence[int], until: float, client: StoreClient) -> list[bool]:
            return client.has(lease, [chain[position] for position in positions], lease_ms, until)

        def take(position: int, answer: bool) -> bool:
            there[position - first] = answer
            return answer

        self._ask(chain, range(first, len(chain)), Question(ask, take), deadline)
        return there

    def get_into(
        self,
        lease: KeyLease,
        chain: Sequence[bytes],
        wants: Sequence[tuple[int, memoryview]],
        deadline: float | None = None,
    ) -> list[GetResult]:
        """Fetch chunks of a chain by position, each into its target of exactly its length.

        A chunk that is no hit has the answer of the last owner that gave one; LOST: none did. ValueError for a position
        that comes twice.
        """
        targets = dict(wants)
        if len(targets) != len(wants):
            raise ValueError("a position is asked for twice: one of its targets would stay as it is")
        results: dict[int, GetResult] = {}

        def ask(positions: Sequence[int], until: float, client: StoreClient) -> list[GetResult]:
            return client.get_into(lease, [(chain[at], targets[at]) for at in positions], until)

        def take(position: int, answer: GetResult) -> bool:
            results[position] = answer
            return answer.hit

        self._ask(chain, targets, Question(ask, take, sound), deadline)
        return [results.get(position, GetResult(Got.LOST)) for position, _ in wants]

    def put(
        self,
        lease: KeyLease,
        chain: Sequence[bytes],
        items: Sequence[Item],
        ack: Ack = Ack.VISIBLE,
        deadline: float | None = None,
    ) -> list[PutResult]:
        """Seal chunks of a chain and store each on its owners by the newest map, all owners at once.

        A chunk is sealed for each owner. An owner takes its chunks in their order, so heads are there before tails; one
        that hangs holds up no other's.
        """
        until = self._until(deadline)
        state = self._state
        owners = [writers(state.maps[0], chain, position, meta.kind) for position, _, meta in items]
        said: list[dict[str, PutStatus | None]] = [dict.fromkeys(names) for names in owners]
        asked: defaultdict[str, list[int]] = defaultdict(list)
        for at, names in enumerate(owners):
            for name in names:
                asked[name].append(at)

        def store(member: Member, lane: Sequence[int]) -> None:
            for at in lane:
                position, data, meta = items[at]
                call = partial(put_one, lease, chain[position], data, meta, ack, until)
                with suppress(StoreError):  # its status stays None
                    said[at][member.node.name] = member.ask(call)

        work = [
            (state.members[name], partial(store, state.members[name], mine[lane::LANES]))
            for name, mine in asked.items()
            for lane in range(min(LANES, len(mine)))
        ]
        run_all(work, until)
        return [PutResult(tuple(statuses.items())) for statuses in said]

    def touch(self, lease: KeyLease, chain: Sequence[bytes], deadline: float | None = None) -> None:
        """Mark all chunks of a chain as just used, on every node that may have them."""

        def ask(positions: Sequence[int], until: float, client: StoreClient) -> list[bool]:
            client.touch(lease, [chain[position] for position in positions], until)
            return [False] * len(positions)  # go on to the other copies

        self._ask(chain, range(len(chain)), Question(ask, lambda _, answer: answer), deadline)

    def stat(self) -> dict[str, dict[str, Any]]:
        """By node: its breaker's state, its last refusal in words ("": none yet) and its client's counters."""
        return {
            name: {
                "breaker": str(member.state),
                "refused": str(member.refused or ""),
                **member.client.counters.snapshot(),
            }
            for name, member in self._state.members.items()
        }

    def restart(self) -> None:
        self._changing = Lock()
        for member in self._state.members.values():
            member.restart()

    def close(self) -> None:
        """For good: what is asked afterwards is a miss, and a newer map opens nothing."""
        with self._changing:
            self._closed = True
            for member in self._state.members.values():
                member.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _until(self, deadline: float | None) -> float:
        now = time.monotonic()
        return now + self._timeout if deadline is None else min(deadline, now + LONGEST)

    def _adopt(self, maps: tuple[PoolMap, ...]) -> None:
        """Have a member for each node of the maps, keeping those that did not change; then use them all at once."""
        nodes = {node.name: node for pool_map in reversed(maps) for node in pool_map.nodes}
        before = self._state.members
        members = {
            name: before[name] if name in before and same(before[name].node, node) else self._member(node)
            for name, node in nodes.items()
        }
        self._state = State(maps, members)
        for name, member in before.items():
            if members.get(name) is not member:
                member.close()

    def _member(self, node: Node) -> Member:
        client = StoreClient(node.addresses, self._identity, node.key, timeout=self._timeout, **self._options)
        made = Member(node, client, self._policy, self._chance)
        if self._closed:
            made.close()
        return made

    def _ask(
        self, chain: Sequence[bytes], positions: Iterable[int], question: Question[T], deadline: float | None
    ) -> None:
        state = self._state
        ask_in_turn(question, readers(state.maps, chain, positions), state.members, self._until(deadline))


def writers(pool_map: PoolMap, chain: Sequence[bytes], position: int, kind: Kind) -> list[str]:
    return [node.name for node in pool_map.owners(pool_map.run(chain, position), pool_map.copies.of(kind))]


def readers(maps: Sequence[PoolMap], chain: Sequence[bytes], positions: Iterable[int]) -> dict[int, list[str]]:
    """Position -> the nodes that may have the chunk, in the order in which to ask them."""
    runs: dict[tuple[bytes, ...], list[str]] = {}
    owners = {}
    for position in positions:
        run = tuple(pool_map.run(chain, position) for pool_map in maps)
        if run not in runs:
            runs[run] = candidates(maps, run)
        owners[position] = runs[run]
    return owners


def candidates(maps: Sequence[PoolMap], runs: Sequence[bytes]) -> list[str]:
    """Owners by each map, the newest first. A reader does not know a chunk's kind: as many as any kind has copies."""
    found = [
        node.name
        for pool_map, run in zip(maps, runs, strict=True)
        for node in pool_map.owners(run, pool_map.copies.most)
    ]
    return list(dict.fromkeys(found))


def sound(results: Sequence[GetResult]) -> bool:
    """Whether a store that gave these is well: nothing broke off or came too late, and not all of it was damaged."""
    found = {result.status for result in results}
    return not found & {Got.LOST, Got.LATE} and (Got.HIT in found or Got.CORRUPT not in found)


def put_one(
    lease: KeyLease, key: bytes, data: Bytes | Sequence[Bytes], meta: Meta, ack: Ack, until: float, client: StoreClient
) -> PutStatus:
    return client.put(lease, key, data, meta, ack, until)


def same(one: Node, other: Node) -> bool:
    """Whether connections to the one are connections to the other."""
    return (one.addresses, one.public_key) == (other.addresses, other.public_key)
