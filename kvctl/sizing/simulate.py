"""Hits and writes of a policy on a trace, at the granularity of blocks.

A block hits when it and all earlier blocks of its request are resident. Then every block of the request is used, or
added, in order; what must leave leaves before. Capacities are whole blocks.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kvctl.sizing.admission import Admission, Duel
from kvctl.sizing.policies import Policy
from kvctl.sizing.trace import BLOCK_TOKENS, Request, Trace

NEVER_AGAIN = 1 << 62


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cache did on a trace."""

    blocks: int  # asked for
    tokens: int  # asked for
    hits: int  # blocks
    hit_tokens: int
    writes: int | None  # blocks written; None: the policy is a bound, not something that runs
    prefixes: Counter[int] = field(compare=False)  # tokens of a restored prefix -> how many requests; none of 0

    @property
    def hit_rate(self) -> float:
        return self.hits / self.blocks

    @property
    def token_hit_rate(self) -> float:
        return self.hit_tokens / self.tokens


def simulate(trace: Trace, policy: Policy[int], capacity: int, admission: Admission | None = None) -> Outcome:
    """Run `policy`, fresh, over a trace with room for `capacity` blocks."""
    if capacity < 1:
        raise ValueError(f"a cache has room for at least one block, not {capacity}")
    touch, add, evict = policy.touch, policy.add, policy.evict
    duel = admission if isinstance(admission, Duel) else None
    led: list[int] = []
    writes = 0
    for request in trace.requests:
        lead = -1
        for position, block in enumerate(request.blocks):
            if duel is not None:
                duel.asked(block)
            if touch(block) is not None:
                continue
            if lead < 0:
                lead = position
            if admission is not None and not admission.admits(block, fill=policy.used / capacity):
                continue
            while policy.used >= capacity:
                evict()
            add(block, 1, position=position)
            writes += 1
        led.append(len(request.blocks) if lead < 0 else lead)
    return _outcome(trace.requests, led, writes)


def ideal(trace: Trace) -> Outcome:
    """A cache without limits: what can be hit at all, and what must be written at least."""
    seen: set[int] = set()
    led = []
    for request in trace.requests:
        led.append(next((i for i, b in enumerate(request.blocks) if b not in seen), len(request.blocks)))
        seen.update(request.blocks)
    return _outcome(trace.requests, led, len(seen))


def belady(trace: Trace, capacity: int) -> Outcome:
    """The offline bound: the block whose next use lies furthest away leaves (Belady 1966). It knows the future."""
    nexts = _next_uses(trace.requests)
    resident: dict[int, int] = {}  # block -> its next use
    order: list[tuple[int, int]] = []  # (-next use, block); rows that no longer match `resident` are stale
    led = []
    at = 0
    for request in trace.requests:
        lead = -1
        for position, block in enumerate(request.blocks):
            following = nexts[at]
            at += 1
            if block not in resident and lead < 0:
                lead = position
            _keep(resident, order, block, following)
            while len(resident) > capacity:
                negative, furthest = heapq.heappop(order)
                if resident.get(furthest) == -negative:
                    del resident[furthest]
        led.append(len(request.blocks) if lead < 0 else lead)
    return _outcome(trace.requests, led, None)


def _keep(resident: dict[int, int], order: list[tuple[int, int]], block: int, following: int) -> None:
    """A block that is never used again is the first to leave: it need not come in."""
    if following == NEVER_AGAIN:
        resident.pop(block, None)
        return
    resident[block] = following
    heapq.heappush(order, (-following, block))


def _next_uses(requests: Iterable[Request]) -> list[int]:
    sequence = [block for request in requests for block in request.blocks]
    nexts = [NEVER_AGAIN] * len(sequence)
    later: dict[int, int] = {}
    for at in range(len(sequence) - 1, -1, -1):
        nexts[at] = later.get(sequence[at], NEVER_AGAIN)
        later[sequence[at]] = at
    return nexts


def _outcome(requests: Sequence[Request], led: Sequence[int], writes: int | None) -> Outcome:
    prefixes = [min(n * BLOCK_TOKENS, r.input_tokens) for r, n in zip(requests, led, strict=True)]
    return Outcome(
        blocks=sum(len(r.blocks) for r in requests),
        tokens=sum(r.input_tokens for r in requests),
        hits=sum(led),
        hit_tokens=sum(prefixes),
        writes=writes,
        prefixes=Counter(n for n in prefixes if n),
    )
