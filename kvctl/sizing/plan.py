"""What to simulate: capacities in tokens, and a policy with its admission by one name."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvctl.sizing import simulate, units
from kvctl.sizing.admission import Admission, Duel, SecondTouch, UnderPressure
from kvctl.sizing.policies import POLICIES
from kvctl.sizing.simulate import Outcome
from kvctl.sizing.trace import BLOCK_TOKENS, Trace
from kvctl.types.errors import UsageError

BOUND = "belady"
DEFAULT_POLICIES = ("lru", "cost-aware", "lru+duel", BOUND)
DEFAULT_CAPACITIES = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 50_000_000)  # tokens
ADMISSIONS = ("2nd-touch", "pressure", "duel")
PRESSURE = 0.9  # the store's `second_touch_above`
REMEMBER = 2  # keys that the store's filter remembers, for each block of capacity


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the simulator."""

    policy: str
    capacity: int  # tokens


def cases(policies: Sequence[str], capacities: Sequence[int]) -> tuple[Case, ...]:
    """Every policy at every capacity. UsageError KV-SIZE-009 for a name that is none."""
    for name in policies:
        _judge(name)
    return tuple(Case(policy, capacity) for capacity in sorted(set(capacities)) for policy in dict.fromkeys(policies))


def run(trace: Trace, case: Case) -> Outcome:
    blocks = case.capacity // BLOCK_TOKENS
    if case.policy == BOUND:
        return simulate.belady(trace, blocks)
    name, _, admission = case.policy.partition("+")
    return simulate.simulate(trace, POLICIES[name](), blocks, _admission(admission, blocks))


def capacity_tokens(text: str, bytes_per_token: int | None) -> int:
    """Tokens from `3Mtokens`, or from `1TiB` when it is known what a token takes. UsageError KV-SIZE-006, 010, 013."""
    tokens = units.tokens(text)
    if tokens is None:
        size = units.size(text)
        if bytes_per_token is None:
            raise UsageError(
                "KV-SIZE-010",
                f"{text} cannot be turned into tokens",
                where="--capacity",
                why="it is not known how many bytes a token takes",
                fix="give --bytes-per-token or --model, or a capacity in tokens: 3Mtokens",
            )
        tokens = size // bytes_per_token
    if tokens < BLOCK_TOKENS:
        raise UsageError(
            "KV-SIZE-013",
            f"a capacity of {text[:60]} holds no block",
            where="--capacity",
            why=f"a block is {BLOCK_TOKENS} tokens",
            fix="give a larger capacity",
        )
    return tokens


def _judge(name: str) -> None:
    policy, plus, admission = name.partition("+")
    if name == BOUND or (policy in POLICIES and (not plus or admission in ADMISSIONS)):
        return
    raise UsageError(
        "KV-SIZE-009",
        f"there is no policy {name[:60]!r}",
        where="--policy",
        why=f"policies are {', '.join(POLICIES)}, each also with +{', +'.join(ADMISSIONS)}, and {BOUND} as the bound",
        fix="for instance: --policy lru,cost-aware+pressure,belady",
    )


def _admission(name: str, blocks: int) -> Admission | None:
    if name == "2nd-touch":
        return SecondTouch(None)
    if name == "pressure":
        return UnderPressure(PRESSURE, SecondTouch(max(2, REMEMBER * blocks)))
    if name == "duel":
        return Duel(PRESSURE, blocks, SecondTouch(max(2, REMEMBER * blocks)))
    return None
