"""The fleet plane against Ansible and pyinfra: facts and check, start-up, converge; one run, interleaved."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kvctl.bench import contestants, measures, startup
from kvctl.bench.conditions import conditions
from kvctl.bench.contestants import Contestant, relative
from kvctl.bench.hosts import Hosts, booted, program, require, say
from kvctl.bench.meter import failed, metered
from kvctl.bench.report import render
from kvctl.bench.rounds import rounds
from kvctl.types.errors import ExitCode, KvctlError, UsageError

DIRECTORY = Path("/var/tmp/kvctl-bench")  # on disk: hosts write there; short: sockets' paths have a limit
CONVERGE_HOSTS = (4, 16)


@dataclass(frozen=True, slots=True)
class Settings:
    hosts: int
    rounds: int
    startup_rounds: int
    converge_hosts: tuple[int, ...]  # empty: converge is left out
    directory: Path = DIRECTORY


@click.command("fleet")
@click.option("--hosts", type=click.IntRange(1, 250), default=16, show_default=True, help="Lab hosts to boot.")
@click.option("--rounds", "count", type=click.IntRange(1), default=5, show_default=True, help="Samples of each tool.")
@click.option("--startup-rounds", type=click.IntRange(1), default=20, show_default=True, help="Samples of start-up.")
@click.option("--converge-hosts", metavar="N,N", help="Fleet sizes of converge. [default: 4,16 where --hosts allows]")
@click.option("--no-converge", is_flag=True, help="Leave converge out.")
@click.option("--strict", is_flag=True, help="Exit 1 when a target is missed.")
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(
    hosts: int,
    count: int,
    startup_rounds: int,
    converge_hosts: str | None,
    no_converge: bool,
    strict: bool,
    fmt: str,
) -> int:
    """Compare kvctl with Ansible and pyinfra on hosts that are booted for it.

    \b
    Examples:
      python -m kvctl.bench fleet
      python -m kvctl.bench fleet --hosts 50 --no-converge -o json > fleet-50.json

    Exits 0 whatever the numbers are, 1 when it could not measure or, with --strict, when a target is missed.
    """
    require()
    sizes = () if no_converge else converge_sizes(converge_hosts, hosts)
    settings = Settings(hosts, count, startup_rounds, sizes)
    document = measure(settings, at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
    click.echo(render(document, fmt))
    missed = [one["name"] for one in document["targets"] if not one["ok"]]
    return int(ExitCode.FAILED if strict and missed else ExitCode.OK)


def converge_sizes(text: str | None, hosts: int) -> tuple[int, ...]:
    """Fleet sizes from "4,16"; by default those that fit into `hosts`, or `hosts` itself. UsageError KV-BENCH-007."""
    if text is None:
        return tuple(size for size in CONVERGE_HOSTS if size <= hosts) or (hosts,)
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= hosts for word in words):
        raise UsageError(
            "KV-BENCH-007", f"cannot converge {text!r} hosts", where="--converge-hosts",
            fix=f"write for example 4,16; each from 1 to --hosts, which is {hosts}",
        )  # fmt: skip
    return tuple(dict.fromkeys(int(word) for word in words))


def measure(settings: Settings, *, at: str) -> dict[str, Any]:
    """The whole benchmark as one document. KvctlError KV-BENCH-... when something could not be measured."""
    load = os.getloadavg()
    with booted(settings.hosts, settings.directory) as hosts:
        chosen = contestants.facts(hosts)
        facts = measures.facts_document(settings.hosts, rounds(chosen, settings.rounds, hosts.cpu(), hosts.directory))
        say("start-up")
        walls = startup.walls(settings.startup_rounds, hosts.env, hosts.directory)
        converged = converge(hosts, settings) if settings.converge_hosts else []
        made = conditions(at=at, hosts=settings.hosts, rounds=settings.rounds, load_before=load)
    started = measures.startup_document(walls)
    parts = [part for part, _ in converged]
    argvs = {f"{one.name}": one.argv for one in chosen} | startup.commands()
    for part, pair in converged:
        argvs |= {f"converge {part['hosts']}: {one.name}": one.argv for one in pair}
    return {
        "schema": 1,
        "benchmark": "fleet",
        "conditions": made,
        "targets": [asdict(one) for one in measures.targets(facts, started, parts)],
        "facts": facts,
        "startup": started,
        "converge": parts,
        "commands": {name: relative(argv, settings.directory) for name, argv in argvs.items()},
    }


def converge(hosts: Hosts, settings: Settings) -> list[tuple[dict[str, Any], Sequence[Contestant]]]:
    """Provision the fleet once, then converge it again and again without a change, at each size."""
    say("provision")
    once(Contestant("provision", (program("kvctl"), "provision", "--yes"), hosts.env), hosts)
    found: list[tuple[dict[str, Any], Sequence[Contestant]]] = []
    for size in settings.converge_hosts:
        say(f"converge {size} hosts")
        once(contestants.kvctl_converge(hosts, size), hosts)
        pair = contestants.converge(hosts, size, desired_state(contestants.state_of(hosts, size)))
        samples = rounds(pair, settings.rounds, hosts.cpu(), hosts.directory)
        found.append((measures.converge_document(size, samples), pair))
    return found


def once(one: Contestant, hosts: Hosts) -> None:
    """Run a command that is not measured; KV-BENCH-002 when it fails."""
    done = metered(one.argv, env=one.env, directory=hosts.directory, label=one.name)
    if done.exit not in one.ok:
        raise failed(one.argv, hosts.directory, one.name, f"it exited {done.exit}")


def desired_state(state: Path) -> dict[str, Any]:
    """What the newest run of a state directory applied: node -> role -> arguments. KV-BENCH-006 when there is none."""
    plans = sorted(state.glob("*/runs/r-*/plan.json"))
    if not plans:
        raise KvctlError("KV-BENCH-006", "kvctl recorded no run to compare with", where=str(state), fix="run it again")
    desired: dict[str, Any] = json.loads(plans[-1].read_text())["desired"]
    return desired
