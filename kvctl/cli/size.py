"""kvctl size."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvctl.cli.options import group_flags, output_option
from kvctl.cli.output import emit, note, table
from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from kvctl.sizing.break_even import Prefill
    from kvctl.sizing.plan import Case
    from kvctl.sizing.simulate import Outcome
    from kvctl.sizing.size import Answer, Question
    from kvctl.sizing.trace import Trace

SCHEMA = "kvctl.size/1"
SECTIONS = ("hits", "endurance", "break_even", "savings", "agentic")
TITLES = {
    "hits": "hit rate by capacity",
    "endurance": "lives of the drives",
    "break_even": "from which length on reading beats computing",
    "savings": "saved a day",
    "agentic": "agents on one shared capacity (rule of thumb)",
}
COLUMNS = ("section", "tier", "drive", "policy", "capacity_tokens", "measure", "value")


@click.command("size")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("-c", "--capacity", multiple=True, metavar="SIZE", help="1TiB or 3Mtokens. [default: 1 to 50Mtokens]")
@click.option("-p", "--policy", multiple=True, metavar="NAME", help="Policies to compare; a wrong name lists them.")
@click.option("--bytes-per-token", type=click.IntRange(1), metavar="N", help="Bytes of KV that a token takes.")
@click.option("--model", metavar="FAMILY", help="Model family, instead of --bytes-per-token.")
@click.option("--kv-dtype", type=click.Choice(["bf16", "fp16", "fp8"]), help="With --model. [default: bf16]")
@click.option("--tier", "tiers", multiple=True, metavar="NAME:KEY=VALUE,...", help="What holds the KV. Repeatable.")
@click.option("--prefill", metavar="SECONDS", help="Seconds a token (189us), or 2048=0.3s,8192=1.4s,...")
@click.option("--gpus", type=click.FloatRange(0, min_open=True), metavar="N", help="GPUs that one prefill occupies.")
@click.option("--alpha", type=click.FloatRange(0, min_open=True), help="Load below ALPHA x recompute. [default: 1]")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes. [default: one a processor]")
@output_option()
def command(trace: Path, fmt: str | None, jobs: int | None, **given: Any) -> None:
    """What a cache of some size is worth, from a trace of your requests.

    \b
    Examples:
      kvctl size trace.jsonl
      kvctl size trace.jsonl --model llama-3.1-8b -c 500GiB,2TiB -p lru,s3fifo,belady
      kvctl size trace.jsonl --model llama-3.1-8b --prefill 2048=0.2s,16384=2.1s --gpus 1 \\
        --tier flash:bandwidth=10GB/s,latency=1ms,drives=4,drive=3.84TB,dwpd=1,warranty=5

    TRACE is in Mooncake's format: a JSON object a line with timestamp (ms), input_length, output_length and hash_ids
    (blocks of 512 tokens). What was not given is not computed; the notes say what to give. A figure a day is the
    trace's own figure scaled to 24 hours. docs/sizing.md explains each.
    """
    from kvctl.sizing.trace import read_trace

    form = output_format(fmt)
    each = bytes_per_token(given["bytes_per_token"], given["model"], given["kv_dtype"])
    chosen = chosen_cases(given["policy"], given["capacity"], each)
    ask = question(each, given)
    requests = read_trace(trace)
    show(*answered(requests, chosen, ask, jobs or os.cpu_count() or 1), form)


def output_format(fmt: str | None) -> str:
    from kvctl.cli.settings import resolve_settings

    settings = resolve_settings(fmt=fmt, **group_flags())
    os.environ["KVCTL_COLOR"] = settings.color.value
    return settings.output.value


def bytes_per_token(count: int | None, model: str | None, dtype: str | None) -> int | None:
    from kvctl.sizing import models

    if count is not None and model is not None:
        raise UsageError("KV-SIZE-011", "--bytes-per-token and --model say the same thing", fix="give one of them")
    if model is None:
        if dtype is not None:
            raise UsageError("KV-SIZE-014", "--kv-dtype belongs to --model", fix="give --model, or leave it out")
        return count
    return models.bytes_per_token(model, dtype or "bf16")


def chosen_cases(policies: Sequence[str], capacities: Sequence[str], each: int | None) -> "tuple[Case, ...]":
    from kvctl.sizing import plan

    names = tuple(listed(policies)) or plan.DEFAULT_POLICIES
    sizes = [plan.capacity_tokens(text, each) for text in listed(capacities)] or list(plan.DEFAULT_CAPACITIES)
    return plan.cases(names, sizes)


def listed(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from (part.strip() for part in text.split(",") if part.strip())


def question(each: int | None, given: Mapping[str, Any]) -> "Mapping[str, Any]":
    """What is known besides the trace, before the trace is read: mistakes show at once."""
    from kvctl.sizing.tiers import parse_tier

    return {
        "bytes_per_token": each,
        "prefill": prefill(given["prefill"]),
        "gpus": given["gpus"],
        "tiers": tuple(parse_tier(text) for text in given["tiers"]),
        **({"alpha": given["alpha"]} if given["alpha"] else {}),
    }


def prefill(text: str | None) -> "Prefill | None":
    from kvctl.sizing.break_even import Prefill
    from kvctl.sizing.units import number, seconds

    if text is None:
        return None
    try:
        if "=" not in text:
            return Prefill.rate(seconds(text))
        pairs = [part.partition("=") for part in listed([text])]
        return Prefill.measured([(int(number(n, "tokens=seconds")), seconds(s)) for n, _, s in pairs])
    except ValueError as error:
        raise UsageError(
            "KV-SIZE-012",
            f"--prefill {text[:60]} cannot be",
            why=str(error),
            fix="give seconds a token (189us), or ascending lengths: 2048=0.3s,8192=1.4s",
        ) from error


def answered(
    trace: "Trace", chosen: "Sequence[Case]", ask: Mapping[str, Any], jobs: int
) -> "tuple[Question, Outcome, Answer]":
    from kvctl.sizing.simulate import ideal
    from kvctl.sizing.size import Question, answer

    asked = Question(trace, **ask)
    best = ideal(trace)
    return asked, best, answer(asked, best, outcomes(trace, chosen, jobs))


_trace: "Trace"  # of a worker process


def outcomes(trace: "Trace", chosen: "Sequence[Case]", jobs: int) -> "dict[Case, Outcome]":
    """Run every case, in processes of their own: the simulator keeps one processor busy for up to a second a case."""
    from kvctl.sizing.plan import run

    if min(jobs, len(chosen)) == 1:
        return {case: run(trace, case) for case in chosen}
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(jobs, len(chosen)), initializer=_hold, initargs=(trace,)) as pool:
        return dict(zip(chosen, pool.map(_run, chosen), strict=True))


def _hold(trace: "Trace") -> None:
    global _trace
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    _trace = trace


def _run(case: "Case") -> "Outcome":
    from kvctl.sizing.plan import run

    return run(_trace, case)


def show(asked: "Question", best: "Outcome", answer: "Answer", form: str) -> None:
    summary = summarise(asked, best)
    sections = {name: [asdict(row) for row in getattr(answer, name)] for name in SECTIONS}
    if form == "table":
        note(sentence(summary))
        for name, rows in sections.items():
            if rows:
                click.echo(f"# {TITLES[name]}\n{table(*readable(name, rows))}\n")
    else:
        document = {"schema": SCHEMA, "trace": summary, **sections, "missing": list(answer.missing)}
        emit(document, list(measures(sections)), COLUMNS, form)
    for text in answer.missing:
        note(f"not computed: {text}")


def summarise(asked: "Question", best: "Outcome") -> dict[str, Any]:
    trace = asked.trace
    return {
        "requests": len(trace.requests),
        "blocks": trace.blocks,
        "unique_blocks": trace.unique,
        "average_input_tokens": trace.input_tokens / len(trace.requests),
        "average_output_tokens": trace.output_tokens / len(trace.requests),
        "days": trace.days,
        "ideal_hit_rate": best.hit_rate,
        "ideal_token_hit_rate": best.token_hit_rate,
        "bytes_per_token": asked.bytes_per_token,
    }


def sentence(summary: Mapping[str, Any]) -> str:
    hours = "in no time" if summary["days"] is None else f"in {summary['days'] * 24:.2f} h"
    return (
        f"{summary['requests']} requests {hours}: {summary['average_input_tokens']:.0f} tokens in,"
        f" {summary['average_output_tokens']:.0f} out; {summary['unique_blocks']} of {summary['blocks']} blocks differ;"
        f" at best {summary['ideal_hit_rate']:.4f} of blocks hit ({summary['ideal_token_hit_rate']:.4f} of tokens)"
    )


def measures(sections: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """One row a figure, so that CSV and JSON Lines have one shape for every section."""
    names = ("tier", "drive", "policy", "capacity_tokens")
    for section, rows in sections.items():
        for row in rows:
            where = {"section": section, **{name: row.get(name) for name in names}}
            for measure, value in row.items():
                if measure not in names:
                    yield {**where, "measure": measure, "value": value}


def readable(section: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Rows and columns of a table for people: rounded, and without columns in which nothing is known."""
    if section == "break_even":
        return [break_even_row(row) for row in rows], ("tier", "from_tokens", "recompute", "read")
    columns = tuple(c for c in rows[0] if any(row[c] not in (None, "") for row in rows))
    made = [{HEADS.get(c, c): HOW.get(c, str)(row[c]) if row[c] is not None else "" for c in columns} for row in rows]
    return made, tuple(HEADS.get(c, c) for c in columns)


def break_even_row(row: Mapping[str, Any]) -> dict[str, str]:
    length = "never" if row["tokens"] is None else f"{row['tokens']}"
    return {
        "tier": row["tier"],
        "from_tokens": length + (" (beyond what was measured)" if row["extrapolated"] else ""),
        "recompute": f"{row['recompute_seconds']:.3f} s for the average prompt",
        "read": f"{row['read_seconds']:.3f} s",
    }


def short(value: float, unit: str = "B") -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if value < 1000:
            return f"{value:.4g}{prefix}{unit}"
        value /= 1000
    return f"{value:.4g}P{unit}"


HEADS = {  # a table has 100 columns
    "capacity_tokens": "tokens",
    "capacity_bytes": "bytes",
    "hit_rate": "hit",
    "token_hit_rate": "token_hit",
    "written_blocks": "blocks_written",
    "written_bytes_a_day": "written_a_day",
    "waiting_seconds_a_day": "seconds_of_waiting",
    "gpu_hours_a_day": "gpu_hours",
    "loads_a_day": "loads",
    "sessions_kept": "agents_that_keep_95_%",
    "sessions_collapse": "agents_that_lose_it",
}
HOW = {
    "capacity_tokens": lambda v: short(v, ""),
    "capacity_bytes": short,
    "hit_rate": "{:.4f}".format,
    "token_hit_rate": "{:.4f}".format,
    "of_ideal": "{:.3f}".format,
    "written_bytes_a_day": short,
    "drive_writes_a_day": "{:.3g}".format,
    "years": "{:.3g}".format,
    "loads_a_day": "{:.0f}".format,
    "waiting_seconds_a_day": "{:.0f}".format,
    "gpu_hours_a_day": "{:.1f}".format,
}
