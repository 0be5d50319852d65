"""The process that carries a run: `python -m kvctl.fleet.remote.supervisor RUN_DIR`.

It has its own session and adopts orphans. Its stdin is a pipe from the command line: at its end, or at "cancel", at
SIGTERM, or when RUN_DIR/cancel appears, it starts nothing new, ends everything it started here and on the nodes, and
exits. Its stdout says "ready" and then a byte whenever the journal grew.
"""

import json
import os
import selectors
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from kvctl.fleet.remote import journal
from kvctl.fleet.remote.ansible import end_masters
from kvctl.fleet.remote.handle import OPTIONS, PLAN, RunHandle, request_cancel, resume, start
from kvctl.fleet.remote.journal import Journal, RunState, RunView
from kvctl.fleet.remote.locks import lock_controller, lock_file
from kvctl.fleet.remote.options import Finish, Options
from kvctl.fleet.remote.processes import become_subreaper, descendants, end_all, reap_orphans
from kvctl.fleet.remote.work import Work, dotted
from kvctl.types import codec
from kvctl.types.errors import KvctlError
from kvctl.types.plans import Plan

__all__ = ["Finish", "Options", "RunHandle", "main", "request_cancel", "resume", "start"]

_ROUND = 0.5  # seconds between looks at the cancel file


class LoudJournal(Journal):
    """A journal that also wakes whoever reads the supervisor's stdout; a reader that is gone or slow is no matter."""

    def append(self, event: str, **data: Any) -> int:
        seq = super().append(event, **data)
        _say(b".")
        return seq


def _say(data: bytes) -> None:
    try:
        os.write(1, data)
    except OSError:
        return  # full or closed: the journal, not this pipe, is what counts


class Supervisor:
    def __init__(self, run_dir: Path, plan: Plan, options: Options, log: Journal, before: RunView) -> None:
        self._dir, self._plan, self._options, self._journal = run_dir, plan, options, log
        self._work = Work(run_dir.name, run_dir, plan, options, log, before)
        self._before = before
        self._crash: BaseException | None = None
        self._returned: dict[str, str] = {}

    def run(self) -> RunState:
        worker = threading.Thread(target=self._execute, name="work", daemon=True)
        worker.start()
        self._attend(worker)
        state = self._state()
        if self._crash is not None:
            text = "".join(traceback.format_exception(self._crash))
            sys.stderr.write(text)
            self._journal.append("run.error", why=text.strip().rpartition("\n")[2])
        self._stay_drained()
        self._journal.append("run.finished", state=str(state), nodes=self._work.outcomes)
        return state

    def _execute(self) -> None:
        try:
            self._work.converge() if self._options.converge else self._work.execute()
            if self._options.finish and not self._work.cancel.is_set():
                hook = dotted(self._options.finish)
                done = Finish(self._dir.name, self._dir, self._plan, self._options, self._touched())
                self._returned = dict(hook(done))
        except BaseException as error:  # noqa: BLE001 - the main thread records it
            self._crash = error

    def _touched(self) -> dict[str, str]:
        """What became of every node that a step was started on, now or before this run was resumed."""
        touched = {node: self._work.outcomes.get(node, "cut") for node in sorted(self._work.touched)}
        for node in self._done_before() - touched.keys():
            touched[node] = "done"
        return touched

    def _done_before(self) -> set[str]:
        """Nodes that were finished before a cut and still wait for their checks."""
        steps = self._before.steps.values()
        begun = {step.node for step in steps if step.state is journal.StepState.DONE}
        rest = {step.node for step in steps if step.state is not journal.StepState.DONE}
        returned = {node.name for node in self._before.nodes.values() if node.state == "returned"}
        return begun - rest - returned

    def _attend(self, worker: threading.Thread) -> None:
        """Wait for the work's end or for a cancel, and collect orphans meanwhile."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        asked: list[str] = []
        signal.signal(signal.SIGTERM, lambda *_: asked.append("SIGTERM"))
        with selectors.DefaultSelector() as wait:
            wait.register(wake_read, selectors.EVENT_READ)
            if not self._options.detached:
                wait.register(0, selectors.EVENT_READ)
            while worker.is_alive() and not asked:
                for key, _ in wait.select(_ROUND):
                    if key.fd == 0:
                        asked.append("asked by the command line" if os.read(0, 64) else "the command line ended")
                    else:
                        os.read(wake_read, 64)
                if (self._dir / journal.CANCEL).exists():
                    asked.append("asked by kvctl run cancel")
                reap_orphans()
        if asked and worker.is_alive():
            self._cut(worker, asked[0])
        worker.join(0.1)

    def _cut(self, worker: threading.Thread, why: str) -> None:
        self._work.cancel.set()
        try:
            self._journal.append("run.cancel-requested", why=why)
        finally:
            # runs whose own guard is stuck, and what they left
            worker.join(5.0)
            end_all(lambda: descendants(os.getpid()), grace=1.0, patience=6.0)
            self._work.sweep(self._options.targets[node] for node in sorted(self._work.touched))
            worker.join(2.0)

    def _state(self) -> RunState:
        outcomes = self._work.outcomes.values()
        if self._work.cancel.is_set() and self._crash is None:
            return RunState.CANCELLED
        if self._crash is not None:
            return RunState.FAILED
        stayed = [node for node, why in self._returned.items() if why]
        if all(what == "done" for what in outcomes) and not stayed and not self._skipped():
            return RunState.FINISHED
        return RunState.PARTIAL if any(what == "done" for what in outcomes) else RunState.FAILED

    def _skipped(self) -> bool:
        return bool(journal.load(self._dir).in_state(journal.StepState.SKIPPED, journal.StepState.TODO))

    def _stay_drained(self) -> None:
        """A node returns only when the finish hook says so; without one, when all its steps are done."""
        for node, what in self._touched().items():
            if self._options.finish and self._work.cancel.is_set():
                why = "the run was cancelled before its checks"
            elif self._options.finish:
                why = self._returned.get(node, "its checks did not run")
            else:
                why = "" if what == "done" else f"its steps are {what}"
            self._journal.append("node.drained" if why else "node.returned", node=node, why=why)


def main(argv: list[str]) -> int:
    run_dir = Path(argv[0])
    become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        plan = codec.from_json((run_dir / PLAN).read_bytes(), Plan, where=str(run_dir / PLAN))
        options = codec.from_json((run_dir / OPTIONS).read_bytes(), Options, where=str(run_dir / OPTIONS))
        whole = lock_controller(Path(options.state_dir), run_dir.name)
        own = lock_file(run_dir / journal.LOCK, run_dir.name)
        log = LoudJournal(run_dir)
    except KvctlError as error:
        _say(json.dumps(error.as_dict()).encode() + b"\n")
        return int(error.exit_code)
    os.set_blocking(1, False)
    _say(b"ready\n")
    code = 1
    try:
        before = journal.load(run_dir)
        _begin(log, before, plan, options)
        state = Supervisor(run_dir, plan, options, log, before).run()
        code = 0 if state is RunState.FINISHED else 1
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
    finally:
        end_all(lambda: descendants(os.getpid()), grace=1.0, patience=8.0)
        end_masters(run_dir)
        own.release()
        whole.release()
        sys.stderr.flush()
        os._exit(code)  # a worker that a dead disk or a hook holds up must not keep the process


def _begin(log: Journal, before: RunView, plan: Plan, options: Options) -> None:
    if before.started:
        log.append("run.resumed", pid=os.getpid())
        return
    if options.converge:
        steps = [{"id": f"converge-{n}", "node": n, "role": "", "verb": "converge"} for n in plan.desired]
    else:
        steps = [{"id": s.id, "node": s.node, "role": s.role, "verb": s.verb} for s in plan.steps]
    log.append("run.started", plan=plan.id, hash=plan.hash, site=plan.site, pid=os.getpid(), steps=steps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
