"""The stores of a site as one: chunks of a prompt go to, and are asked from, the nodes that own them.

Store trouble is never raised: a node that is down, refuses, or is left alone by its breaker is a miss for its chunks
at once, and the next owner is asked where there is one: other copies, then the owners by the previous map while both
are in force. All waiting ends at the deadline; while other owners are left, one gets only its part of the time.

A node that does not serve a scope (its tenant is suspended there) is not in the map for that scope: its chunks have the
next owners, until the node is found to serve it again.
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

from kvctl.connector.breaker import Health, Policy
from kvctl.connector.client import LONGEST, Bytes, StoreClient
from kvctl.connector.failures import StoreError
from kvctl.connector.forks import restart_in_child
from kvctl.connector.keys import Identity, KeyLease
from kvctl.connector.member import LANES, Member
from kvctl.connector.owners import readers, writers
from kvctl.connector.placement import Node, PoolMap
from kvctl.connector.receipt import GetResult, Got
from kvctl.connector.rounds import Question, ask_in_turn, outcome, run_all
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Ack, Meta, Scope

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

        self._ask(lease.scope, chain, range(first, len(chain)), Question(ask, take), deadline)
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

        self._ask(lease.scope, chain, targets, Question(ask, take, health), deadline)
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
        said: list[dict[str, PutStatus | None]] = [{} for _ in items]
        for _ in range(len(state.members)):
            left_out = refusing(state, lease.scope)
            self._put_round(state, left_out, lease, chain, items, ack, until, said)
            if refusing(state, lease.scope) <= left_out:
                break
        return [PutResult(tuple(statuses.items())) for statuses in said]

    def _put_round(
        self, state: "State", left_out: frozenset[str], lease: KeyLease, chain: Sequence[bytes], items: Sequence[Item],
        ack: Ack, until: float, said: Sequence[dict[str, PutStatus | None]],
    ) -> None:  # fmt: skip
        """Send each chunk to those of its owners that were not asked yet."""
        asked: defaultdict[str, list[int]] = defaultdict(list)
        for at, (position, _, meta) in enumerate(items):
            for name in writers(state.maps[0], chain, position, meta.kind, left_out):
                if name not in said[at]:
                    said[at][name] = None
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

    def touch(self, lease: KeyLease, chain: Sequence[bytes], deadline: float | None = None) -> None:
        """Mark all chunks of a chain as just used, on every node that may have them."""

        def ask(positions: Sequence[int], until: float, client: StoreClient) -> list[bool]:
            client.touch(lease, [chain[position] for position in positions], until)
            return [False] * len(positions)  # go on to the other copies

        self._ask(lease.scope, chain, range(len(chain)), Question(ask, lambda _, answer: answer), deadline)

    def lineage(
        self, lease: KeyLease, subject: bytes, chain: Sequence[bytes], positions: Sequence[int],
        deadline: float | None = None,
    ) -> int:  # fmt: skip
        """Have every node that may have these chunks note that a subject uses them.

        How many chunks there are of which some such node did not answer.
        """
        told: defaultdict[int, set[StoreClient]] = defaultdict(set)

        def ask(positions: Sequence[int], until: float, client: StoreClient) -> list[bool]:
            if client.lineage(lease, subject, [chain[position] for position in positions], until) is not None:
                for position in positions:
                    told[position].add(client)
            return [False] * len(positions)  # go on to the other copies

        self._ask(lease.scope, chain, positions, Question(ask, lambda _, answer: answer), deadline)
        state = self._state
        owners = readers(state.maps, chain, positions, refusing(state, lease.scope))
        return sum(
            not names or any(state.members[name].client not in told[position] for name in names)
            for position, names in owners.items()
        )

    def warm(self, lease: KeyLease, deadline: float | None = None, room: int = 0) -> dict[str, str]:
        """Have every node's client ready for a scope and chunks of `room` bytes; node -> "", or what went wrong."""
        return self._warm(lease, self._state.members.values(), deadline, room)

    def warm_again(self, lease: KeyLease, deadline: float | None = None) -> dict[str, str]:
        """`warm`, of those nodes alone that refused the scope and are to be asked again now."""
        due = [member for member in self._state.members.values() if member.client.unserved.due(lease.scope)]
        return self._warm(lease, due, deadline, 0)

    def _warm(self, lease: KeyLease, members: Iterable[Member], deadline: float | None, room: int) -> dict[str, str]:
        until = self._until(deadline)
        begun = [(member, member.start(lambda client: client.warm(lease, until, room))) for member in members]
        said = {}
        for member, future in begun:
            try:
                outcome(future, until)
                said[member.node.name] = ""
            except StoreError as error:
                said[member.node.name] = str(error)
        return said

    def refused_by(self, scope: Scope) -> frozenset[str]:
        """Nodes that have no part in the scope's placement now, because they do not serve it."""
        return refusing(self._state, scope)

    def stat(self) -> dict[str, dict[str, Any]]:
        """By node: its breaker's state, its last refusal in words ("": none yet), how many scopes it does not serve,
        and its client's counters."""
        return {
            name: {
                "breaker": str(member.state),
                "refused": str(member.refused or ""),
                "unserved": len(member.client.unserved),
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
        self, scope: Scope, chain: Sequence[bytes], positions: Iterable[int], question: Question[T],
        deadline: float | None,
    ) -> None:  # fmt: skip
        state, until = self._state, self._until(deadline)
        for _ in range(len(state.members)):
            left_out = refusing(state, scope)
            positions = ask_in_turn(question, readers(state.maps, chain, positions, left_out), state.members, until)
            if refusing(state, scope) <= left_out:  # else what those own has other owners now
                return


def refusing(state: State, scope: Scope) -> frozenset[str]:
    """Nodes that do not serve a scope."""
    return frozenset(name for name, member in state.members.items() if scope in member.client.unserved)


def health(results: Sequence[GetResult]) -> Health:
    """How a store is that gave these: well when nothing broke off or came too late, and not all of it was damaged."""
    found = {result.status for result in results}
    if Got.LOST in found or (Got.CORRUPT in found and Got.HIT not in found):
        return Health.ILL
    return Health.SLOW if Got.LATE in found else Health.WELL


def put_one(
    lease: KeyLease, key: bytes, data: Bytes | Sequence[Bytes], meta: Meta, ack: Ack, until: float, client: StoreClient
) -> PutStatus:
    return client.put(lease, key, data, meta, ack, until)


def same(one: Node, other: Node) -> bool:
    """Whether connections to the one are connections to the other."""
    return (one.addresses, one.public_key) == (other.addresses, other.public_key)
