"""From outcomes of the simulator to what an operator buys: hit rate, writes, drives' lives, time saved.

What was not given is not computed; `Answer.missing` says what to give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvctl.sizing.break_even import ALPHA, Prefill, Reader, break_even, total_saved
from kvctl.sizing.plan import Case
from kvctl.sizing.simulate import Outcome
from kvctl.sizing.tiers import Tier
from kvctl.sizing.trace import BLOCK_TOKENS, Trace

# Agentic sessions under LRU, WEKA kv-cache-tester traces, starts within 600 s: docs/sizing.md.
KEEPS_95 = 75_000  # tokens of shared capacity for each started session that keep about 95 % of the hits
COLLAPSES = 20_000  # below this a session's context is gone before its next turn


@dataclass(frozen=True, slots=True)
class Question:
    trace: Trace
    bytes_per_token: int | None = None
    prefill: Prefill | None = None
    gpus: float | None = None  # that one prefill occupies
    tiers: tuple[Tier, ...] = ()
    alpha: float = ALPHA


@dataclass(frozen=True, slots=True)
class HitRow:
    policy: str
    capacity_tokens: int
    capacity_bytes: int | None
    hit_rate: float  # of blocks
    token_hit_rate: float
    of_ideal: float | None  # share of the hits that a cache without limits has; None: there are none
    written_blocks: int | None  # None: a bound writes nothing that could be counted
    written_bytes_a_day: float | None


@dataclass(frozen=True, slots=True)
class EnduranceRow:
    tier: str
    drive: str
    policy: str
    capacity_tokens: int
    written_bytes_a_day: float
    drive_writes_a_day: float | None
    years: float


@dataclass(frozen=True, slots=True)
class BreakEvenRow:
    tier: str
    tokens: int | None  # None: reading never wins
    extrapolated: bool  # beyond the longest measured prefill
    recompute_seconds: float  # of the trace's average prompt
    read_seconds: float


@dataclass(frozen=True, slots=True)
class SavingRow:
    tier: str
    policy: str
    capacity_tokens: int
    loads_a_day: float
    waiting_seconds_a_day: float
    gpu_hours_a_day: float | None


@dataclass(frozen=True, slots=True)
class AgenticRow:
    capacity_tokens: int
    sessions_kept: int  # started sessions that keep about 95 % of their hits
    sessions_collapse: int  # from here on contexts are gone before they are used again


@dataclass(frozen=True, slots=True)
class Answer:
    hits: tuple[HitRow, ...]
    endurance: tuple[EnduranceRow, ...]
    break_even: tuple[BreakEvenRow, ...]
    savings: tuple[SavingRow, ...]
    agentic: tuple[AgenticRow, ...]
    missing: tuple[str, ...]  # one sentence for each figure that needs more


def answer(question: Question, ideal: Outcome, outcomes: Mapping[Case, Outcome]) -> Answer:
    return Answer(
        hits=tuple(_hit_row(question, ideal, case, outcome) for case, outcome in outcomes.items()),
        endurance=tuple(_endurance(question, outcomes)),
        break_even=tuple(_break_even(question)),
        savings=tuple(_savings(question, outcomes)),
        agentic=tuple(agentic(sorted({case.capacity for case in outcomes}))),
        missing=tuple(_missing(question)),
    )


def agentic(capacities: Sequence[int]) -> list[AgenticRow]:
    """The rule of thumb: how many agents one shared capacity (tokens) carries."""
    return [AgenticRow(c, c // KEEPS_95, c // COLLAPSES + 1) for c in capacities]


def _hit_row(question: Question, ideal: Outcome, case: Case, outcome: Outcome) -> HitRow:
    each = question.bytes_per_token
    return HitRow(
        policy=case.policy,
        capacity_tokens=case.capacity,
        capacity_bytes=case.capacity * each if each else None,
        hit_rate=outcome.hit_rate,
        token_hit_rate=outcome.token_hit_rate,
        of_ideal=outcome.hits / ideal.hits if ideal.hits else None,
        written_blocks=outcome.writes,
        written_bytes_a_day=_written(question, outcome),
    )


def _written(question: Question, outcome: Outcome) -> float | None:
    """Whole blocks, though a prompt's last one is not full: at most a block for each prompt too much."""
    days = question.trace.days
    if outcome.writes is None or question.bytes_per_token is None or days is None:
        return None
    return outcome.writes * BLOCK_TOKENS * question.bytes_per_token / days


def _endurance(question: Question, outcomes: Mapping[Case, Outcome]) -> list[EnduranceRow]:
    rows = []
    for tier in question.tiers:
        for case, outcome in outcomes.items():
            written = _written(question, outcome)
            years = tier.years(written) if written is not None else None
            if written is None or years is None:
                continue
            a_day = written * (tier.rewrite or 1.0) / tier.capacity if tier.capacity else None
            rows.append(EnduranceRow(tier.name, tier.model, case.policy, case.capacity, written, a_day, years))
    return rows


def _readers(question: Question) -> list[tuple[Tier, Reader]]:
    each = question.bytes_per_token
    if each is None:
        return []
    return [
        (t, Reader(each, t.bandwidth, t.latency))
        for t in question.tiers
        if t.bandwidth is not None and t.latency is not None
    ]


def _break_even(question: Question) -> list[BreakEvenRow]:
    if question.prefill is None:
        return []
    rows = []
    average = question.trace.input_tokens / len(question.trace.requests)
    for tier, reader in _readers(question):
        tokens = break_even(question.prefill, reader, question.alpha)
        beyond = (
            tokens is not None and question.prefill.measured_to is not None and tokens > question.prefill.measured_to
        )
        seconds = question.prefill.seconds(average), reader.seconds(average)
        rows.append(BreakEvenRow(tier.name, tokens, beyond, *seconds))
    return rows


def _savings(question: Question, outcomes: Mapping[Case, Outcome]) -> list[SavingRow]:
    days = question.trace.days
    if question.prefill is None or days is None:
        return []
    rows = []
    for tier, reader in _readers(question):
        for case, outcome in outcomes.items():
            saved = total_saved(list(outcome.prefixes.items()), question.prefill, question.alpha, reader)
            hours = saved.computing * question.gpus / 3600 / days if question.gpus else None
            rows.append(
                SavingRow(tier.name, case.policy, case.capacity, saved.loads / days, saved.waiting / days, hours)
            )
    return rows


def _missing(question: Question) -> list[str]:
    """What could not be computed, and what to give for it."""
    no_bytes = question.bytes_per_token is None
    unrated = sorted({t.name for t in question.tiers if t.rated_bytes is None})
    uncounted = sorted({t.name for t in question.tiers if t.rated_bytes is not None and t.rewrite is None})
    unread = sorted({t.name for t in question.tiers if t.bandwidth is None or t.latency is None})
    found = [
        (no_bytes, "capacity in bytes and bytes written: give --bytes-per-token or --model"),
        (question.trace.days is None, "everything a day: all requests of the trace have one timestamp"),
        (not question.tiers, "drives' lives, break-even and savings: give --tier"),
        (
            bool(unrated),
            f"drives' lives in {', '.join(unrated)}: give drives with tbw, or with drive, dwpd and warranty, in --tier",
        ),
        (
            bool(uncounted),
            f"what the store itself rewrites in {', '.join(uncounted)}, so lives are shorter: give rewrite",
        ),
        (bool(unread), f"break-even and savings of {', '.join(unread)}: give bandwidth and latency in --tier"),
        (question.prefill is None, "break-even and savings: give --prefill, measured on the engine"),
        (
            question.prefill is not None and question.gpus is None,
            "GPU hours: give --gpus, GPUs that a prefill occupies",
        ),
    ]
    return [text for lacking, text in found if lacking]
