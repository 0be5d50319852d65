"""What a supervisor is told besides the plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvctl.fleet.remote.target import Target
from kvctl.types.plans import Plan


@dataclass(frozen=True, slots=True)
class Options:
    """`observe` and `finish` are dotted names, "package.module:function".

    observe(target, keys, *, run, cancel) -> {key: text or None}: reads preconditions (default: `observe.observe`).
    finish(Finish) -> {node: ""} for nodes that return to service, {node: why} for those that stay drained.
    """

    state_dir: str
    playbooks: str
    targets: dict[str, Target]
    pools: dict[str, str] = field(default_factory=dict)  # node -> pool
    canary: tuple[str, ...] = ()  # nodes that go first; the rest waits for their success
    concurrency: int = 8  # nodes at a time
    forks: int = 16  # of a converge run
    max_fail: int = 0  # failed nodes after which nothing new starts; 0: no limit
    step_timeout: float = 3600.0
    converge: bool = False  # converge.yml with plan.desired instead of the plan's steps
    detached: bool = False  # goes on when whoever started it ends
    observe: str = "kvctl.fleet.remote.observe:observe"
    finish: str = ""
    inventory: str = ""  # for the finish hook: the inventory that the run was started with,
    timeout: float = 60.0  # the seconds for one node's facts,
    transport: str = ""  # and the SSH implementation; "" is the inventory's choice


@dataclass(frozen=True, slots=True)
class Finish:
    """What the finish hook receives. `touched` maps each node that a step was started on to what became of it:
    done, failed, unreachable or cut."""

    run: str
    run_dir: Path
    plan: Plan
    options: Options
    touched: Mapping[str, str]
