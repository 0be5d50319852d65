"""The steps of a run: by node in the plan's order, nodes side by side, canaries first."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from kvctl.fleet.remote.ansible import ChangedTask, Play, StepOutcome, run_play
from kvctl.fleet.remote.journal import Journal, RunView, StepState
from kvctl.fleet.remote.leftovers import sweep
from kvctl.fleet.remote.locks import HeldNode, NodeLock, lock_node
from kvctl.fleet.remote.observe import mismatch
from kvctl.fleet.remote.options import Options
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, UnreachableError
from kvctl.types.plans import Plan, Step, Uncut

_ROUND = 0.5


def dotted(name: str) -> Callable[..., Any]:
    """The function that "package.module:function" names."""
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found


def unit_name(run: str, step: str) -> str:
    return f"kvctl-{run}-{step}"


class Work:
    """One execution of a plan's steps. `outcomes` says what became of each node that was begun."""

    def __init__(
        self, run: str, run_dir: Path, plan: Plan, options: Options, journal: Journal, before: RunView
    ) -> None:
        self.run = run
        self.cancel = threading.Event()
        self.outcomes: dict[str, str] = {}
        self.touched: set[str] = set()
        self._dir, self._plan, self._options, self._journal, self._before = run_dir, plan, options, journal, before
        self._halt = ""  # why nothing new starts
        self._guard = threading.Lock()
        self._reboots: dict[str, threading.Lock] = {}
        self._observe = dotted(options.observe)

    def execute(self) -> None:
        """Run what is not done yet. Every failure is in the journal; KvctlError KV-RUN-012 when it cannot be."""
        todo: dict[str, list[Step]] = {}
        for step in self._plan.steps:
            done = self._before.steps.get(step.id)
            if done is None or done.state is not StepState.DONE:
                todo.setdefault(step.node, []).append(step)
        if self._before.started:
            # A supervisor that was killed swept nothing. Before anything runs: this machine may be one of the nodes.
            begun = {step.node for step in self._before.steps.values() if step.started}
            self.sweep([self._options.targets[node] for node in todo if node in begun])
        canary = [node for node in self._options.canary if node in todo]
        self._nodes({node: todo.pop(node) for node in canary})
        lost = [node for node in canary if self.outcomes.get(node) != "done"]
        if lost and not self.cancel.is_set():
            self.halt(f"the canary {', '.join(lost)} did not succeed")
        self._nodes(todo)

    def halt(self, why: str) -> None:
        with self._guard:
            self._halt = self._halt or why

    def _nodes(self, todo: Mapping[str, list[Step]]) -> None:
        if not todo:
            return
        with ThreadPoolExecutor(min(self._options.concurrency, len(todo)), thread_name_prefix="node") as pool:
            for future in [pool.submit(self._node, node, steps) for node, steps in todo.items()]:
                try:
                    future.result()
                except BaseException:
                    self.halt("the supervisor failed")
                    self.cancel.set()
                    raise

    def _node(self, node: str, steps: list[Step]) -> None:
        target = self._options.targets[node]
        if self._stopped(steps):
            return
        try:
            lock = lock_node(target, self.run)
        except KvctlError as error:
            self._lost(node, error, steps)
            return
        held = HeldNode(target, self.run, lock, self.cancel)
        try:
            self._sequence(node, target, steps, held)
        finally:
            held.release()

    def _sequence(self, node: str, target: Target, steps: list[Step], held: HeldNode) -> None:
        self._journal.append("node.drained", node=node, why="kvctl is changing it")
        self.touched.add(node)
        for position, step in enumerate(steps):
            rest = steps[position:]
            if self._stopped(rest):
                self.outcomes[node] = "cut"
                return
            try:
                held.require()
                with self._one_reboot(step):
                    if self._stopped(rest):
                        self.outcomes[node] = "cut"
                        return
                    self._check(target, step)
                    outcome = self._run(step)
            except KvctlError as error:
                self._lost(node, error, rest)
                return
            if outcome.status == "cancelled":
                self._journal.append("step.cut", step=step.id, node=node, why="the run was cancelled")
                self.outcomes[node] = "cut"
                return
            if outcome.error is not None:
                self._failed(step, outcome)
                self._skip(rest[1:], f"step {step.id} failed")
                return
            self._journal.append("step.finished", step=step.id, node=node, changed=_tasks(outcome.changed))
        self.outcomes[node] = "done"

    def _check(self, target: Target, step: Step) -> None:
        if not step.preconditions:
            return
        seen = self._observe(target, tuple(step.preconditions), run=self.run, cancel=self.cancel)
        error = mismatch(target, step.preconditions, seen)
        if error is not None:
            raise error

    def _run(self, step: Step) -> StepOutcome:
        self._journal.append("step.started", step=step.id, node=step.node, role=step.role, verb=step.verb)
        if step.uncut is not Uncut.NO:
            earlier = self._before.steps.get(step.id)
            event = "unit.attached" if earlier is not None and earlier.unit else "unit.started"
            self._journal.append(event, step=step.id, node=step.node, unit=unit_name(self.run, step.id))
        play = Play(
            run=self.run,
            label=step.id,
            playbook="step.yml",
            hosts=(step.node,),
            extra={
                "kvctl_run": self.run,
                "kvctl_step": step.id,
                "kvctl_role": step.role,
                "kvctl_verb": step.verb,
                "kvctl_args": step.args,
                "kvctl_hosts": [step.node],
            },
            role=step.role,
            timeout=self._options.step_timeout,
        )
        return self._play(play)

    def _play(self, play: Play) -> StepOutcome:
        return run_play(
            play,
            self._options.targets,
            run_dir=self._dir,
            playbooks=Path(self._options.playbooks),
            cancel=self.cancel,
        )

    def _failed(self, step: Step, outcome: StepOutcome) -> None:
        error = outcome.error
        assert error is not None
        self._journal.append(
            "step.failed",
            step=step.id,
            node=step.node,
            error=error.as_dict(),
            changed=_tasks(outcome.changed),
            log=outcome.log,
        )
        if step.node in outcome.unreachable:
            self._journal.append("node.unreachable", node=step.node, why=outcome.unreachable[step.node])
        if outcome.status in ("timeout", "died"):
            self.sweep([self._options.targets[step.node]])
        self._count(step.node, "unreachable" if step.node in outcome.unreachable else "failed")

    def sweep(self, targets: Iterable[Target]) -> None:
        """End what the run left on the nodes, and write down what that was."""
        for node, swept in sweep(targets, self.run).items():
            error = {} if swept.error is None else {"error": swept.error.as_dict()}
            if swept.ended or swept.left or error:
                self._journal.append("run.swept", node=node, ended=swept.ended, left=swept.left, **error)

    def _lost(self, node: str, error: KvctlError, rest: list[Step]) -> None:
        """Before a step: the node did not answer, is locked, or is not what the plan saw."""
        if self.cancel.is_set():
            self.outcomes[node] = "cut"
            return
        if isinstance(error, UnreachableError):
            self._journal.append("node.unreachable", node=node, why=str(error.why or error.what), code=error.code)
            self._skip(rest, "the node cannot be reached")
            self._count(node, "unreachable")
            return
        self._journal.append("step.failed", step=rest[0].id, node=node, error=error.as_dict())
        self._skip(rest[1:], f"step {rest[0].id} failed")
        self._count(node, "failed")

    def _count(self, node: str, state: str) -> None:
        with self._guard:
            self.outcomes[node] = state
            lost = sum(1 for what in self.outcomes.values() if what in ("failed", "unreachable"))
        if self._options.max_fail and lost >= self._options.max_fail:
            self.halt(f"{lost} nodes failed (--max-fail {self._options.max_fail})")

    def _skip(self, steps: Iterable[Step], why: str) -> None:
        for step in steps:
            self._journal.append("step.skipped", step=step.id, node=step.node, why=why)

    def _stopped(self, rest: list[Step]) -> bool:
        if self.cancel.is_set():
            return True  # what was not begun stays to be done
        if self._halt:
            self._skip(rest, self._halt)
            return True
        return False

    @contextlib.contextmanager
    def _one_reboot(self, step: Step) -> Iterator[None]:
        """Reboots of a pool follow one another."""
        if not step.reboot:
            yield
            return
        with self._guard:
            turn = self._reboots.setdefault(self._options.pools.get(step.node, ""), threading.Lock())
        while not turn.acquire(timeout=_ROUND):
            if self.cancel.is_set():
                yield
                return
        try:
            yield
        finally:
            turn.release()

    def converge(self) -> None:
        """Every role on every node of plan.desired, in one Ansible run for the canaries and one for the rest."""
        nodes = [node for node in self._plan.desired if node in self._options.targets]
        canary = [node for node in self._options.canary if node in nodes]
        rest = [node for node in nodes if node not in canary]
        for batch in (canary, rest):
            if batch and not self.cancel.is_set() and not self._halt:
                self._batch(batch)
                if batch is canary and any(self.outcomes.get(node) != "done" for node in canary):
                    self.halt(f"the canary {', '.join(canary)} did not succeed")
            elif batch and self._halt:
                for node in batch:
                    self._journal.append("step.skipped", step=f"converge-{node}", node=node, why=self._halt)

    def _batch(self, nodes: list[str]) -> None:
        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor(min(32, len(nodes))) as pool:
                taken = list(pool.map(self._take, nodes))
            locked = []
            for node, lock in zip(nodes, taken, strict=True):
                if lock is not None:
                    stack.enter_context(lock)
                    locked.append(node)
            if locked and not self.cancel.is_set():
                self._converge(locked)

    def _take(self, node: str) -> NodeLock | None:
        try:
            return lock_node(self._options.targets[node], self.run)
        except KvctlError as error:
            if isinstance(error, UnreachableError):
                self._journal.append("node.unreachable", node=node, why=str(error.why or error.what), code=error.code)
                self._count(node, "unreachable")
            else:
                self._count(node, "failed")
            self._journal.append("step.failed", step=f"converge-{node}", node=node, error=error.as_dict())
            return None

    def _converge(self, nodes: list[str]) -> None:
        for node in nodes:
            self._journal.append("step.started", step=f"converge-{node}", node=node, role="", verb="converge")
            self.touched.add(node)
        play = Play(
            run=self.run,
            label="converge",
            playbook="converge.yml",
            hosts=tuple(nodes),
            extra={"kvctl_run": self.run, "kvctl_hosts": nodes},  # each role names its own step
            host_vars={node: {"kvctl_desired": self._plan.desired[node]} for node in nodes},
            forks=self._options.forks,
            timeout=self._options.step_timeout,
        )
        outcome = self._play(play)
        for node in nodes:
            self._converged(node, outcome)

    def _converged(self, node: str, outcome: StepOutcome) -> None:
        step = f"converge-{node}"
        changed = _tasks(task for task in outcome.changed if task.host == node)
        if outcome.status == "cancelled":
            self._journal.append("step.cut", step=step, node=node, why="the run was cancelled")
            self.outcomes[node] = "cut"
        elif node in outcome.unreachable:
            self._journal.append("node.unreachable", node=node, why=outcome.unreachable[node])
            self._journal.append("step.failed", step=step, node=node, error=_error_of(outcome), changed=changed)
            self._count(node, "unreachable")
        elif node in outcome.failed or _whole(outcome):
            why = outcome.failed.get(node, "")
            error = {**_error_of(outcome), **({"why": why} if why else {})}
            self._journal.append("step.failed", step=step, node=node, error=error, changed=changed, log=outcome.log)
            self._count(node, "failed")
        else:
            self._journal.append("step.finished", step=step, node=node, changed=changed)
            self.outcomes[node] = "done"


def _whole(outcome: StepOutcome) -> bool:
    """True when the play itself went wrong, not one of its hosts."""
    return not outcome.ok and not outcome.failed and not outcome.unreachable


def _tasks(changed: Iterable[ChangedTask]) -> list[dict[str, str]]:
    return [{"host": t.host, "role": t.role, "task": t.task, "diff": t.diff} for t in changed]


def _error_of(outcome: StepOutcome) -> dict[str, Any]:
    return outcome.error.as_dict() if outcome.error is not None else {}
