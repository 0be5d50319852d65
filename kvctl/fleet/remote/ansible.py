"""One step, one ansible-runner invocation: prepared, watched, judged and cleaned up."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kvctl
from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.processes import command_lines, descendants, end_all, expect, forget, marked
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, UnreachableError

_SOCKET_ROOM = 79  # of 108 bytes of a socket's path (unix(7)), after ansible's name and ssh's suffix
PACKAGE_ROOT = Path(kvctl.__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Play:
    """What to run. `role` is the only role that may change anything; empty allows every role."""

    run: str
    label: str  # s01, or converge: KVCTL_STEP and the name of the log
    playbook: str  # file name below the playbooks directory
    hosts: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
    host_vars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    role: str = ""
    check: bool = False
    forks: int = 16
    timeout: float = 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class ChangedTask:
    host: str
    role: str
    task: str
    diff: str


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """`ok` is True when the play ran to its end, nothing failed, and only the step's own role changed anything."""

    ok: bool
    status: str  # successful | failed | cancelled | timeout | died
    changed: tuple[ChangedTask, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)  # host -> message
    unreachable: Mapping[str, str] = field(default_factory=dict)
    error: KvctlError | None = None
    log: str = ""  # path of ansible's own output


def run_play(
    play: Play,
    targets: Mapping[str, Target],
    *,
    run_dir: Path,
    playbooks: Path,
    cancel: threading.Event | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> StepOutcome:
    """Run the play in a child process and wait for it. `cancel` ends it and every process it started.

    `on_event` gets short events (task starts, results) in this thread.
    """
    (run_dir / "steps").mkdir(mode=0o700, parents=True, exist_ok=True)
    log = run_dir / "steps" / f"{play.label}.log"
    private = Path(tempfile.mkdtemp(prefix=f"{play.label}-", dir=run_dir / "steps"))
    cancel = cancel or threading.Event()
    try:
        _prepare(private, play, targets, playbooks)
        argv = [*_netns(targets, play), sys.executable, "-m", "kvctl.fleet.remote.runner", str(private)]
        env = environment(play, targets, run_dir, playbooks, private)
        with open(private / "stderr", "wb") as stderr:
            child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env, cwd=private
            )
        expect(child.pid)
        try:
            events, ended = _watch(child, play, cancel, on_event)
        finally:
            _end(child, play)
        return _judge(play, events, ended, cancel, log, _said(private))
    finally:
        _keep_log(private, log)
        shutil.rmtree(private)  # extra vars, inventory and runner's artifacts: nothing of them is kept


def environment(
    play: Play, targets: Mapping[str, Target], run_dir: Path, playbooks: Path, private: Path
) -> dict[str, str]:
    """All of the child's environment: the user's own is not for Ansible to see, nor for runner to write down."""
    chosen = [targets[host] for host in play.hosts]
    config = chosen[0].config
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(PACKAGE_ROOT),
        "KVCTL_RUN": play.run,
        "KVCTL_STEP": play.label,
        "ANSIBLE_CONFIG": str(private / "ansible.cfg"),
        "ANSIBLE_LIBRARY": str(playbooks / "library"),
        "ANSIBLE_ACTION_PLUGINS": str(playbooks / "action_plugins"),
        "ANSIBLE_MODULE_UTILS": f"{playbooks / 'module_utils'}:{PACKAGE_ROOT / 'kvctl' / 'fleet' / 'probe'}",
        "ANSIBLE_ROLES_PATH": str(playbooks / "roles"),
        "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
        "ANSIBLE_SSH_ARGS": f"-F {config} -o ControlMaster=auto -o ControlPersist=20s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control_directory(run_dir)),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_SSH_RETRIES": "1",
        "ANSIBLE_TIMEOUT": str(max(1, round(chosen[0].connect_timeout))),
        "ANSIBLE_FORKS": str(play.forks),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_DIFF_ALWAYS": "True",
        "ANSIBLE_NOCOLOR": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
    }
    agent = os.environ.get("SSH_AUTH_SOCK")
    if agent and any(target.use_agent for target in chosen):
        env["SSH_AUTH_SOCK"] = agent
    return env


def control_directory(run_dir: Path) -> Path:
    """Where the run's SSH masters listen; in the temporary directory when the run's own path is too long."""
    own = run_dir.resolve() / "cp"
    path = own if len(str(own)) <= _SOCKET_ROOM else Path(tempfile.gettempdir()) / f"kvctl-{os.getuid()}-{run_dir.name}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise failures.bad_ssh_config(f"{path} belongs to somebody else", "SSH masters must not listen there")
    return path


def end_masters(run_dir: Path) -> None:
    """End the run's SSH masters and remove their directory. OpenSSH writes a master's title over its environment, so
    it is found by its socket."""
    directory = control_directory(run_dir)
    wanted = f"{directory}/".encode()
    end_all(lambda: [pid for pid, argv in command_lines() if wanted in argv and b"[mux]" in argv], grace=1.0)
    shutil.rmtree(directory, ignore_errors=True)


def _prepare(private: Path, play: Play, targets: Mapping[str, Target], playbooks: Path) -> None:
    for name in ("inventory", "env", "tmp"):
        (private / name).mkdir(mode=0o700)
    hosts = {}
    for name in play.hosts:
        values: dict[str, Any] = {"ansible_python_interpreter": "/usr/bin/python3", **play.host_vars.get(name, {})}
        if targets[name].user != "root":
            values |= {"ansible_become": True, "ansible_become_method": "sudo", "ansible_become_flags": "-H -S -n"}
        hosts[name] = values
    # YAML reads JSON, so no text of the inventory can turn into anything but a value
    files = {
        "inventory/hosts.yml": {"all": {"hosts": hosts}},
        "env/extravars": dict(play.extra),
        "request.json": {
            "project": str(playbooks),
            "playbook": play.playbook,
            "cmdline": "--check --diff" if play.check else "--diff",
        },
    }
    for name, value in files.items():
        (private / name).write_text(json.dumps(value), "utf-8")
        (private / name).chmod(0o600)
    (private / "ansible.cfg").write_text("[defaults]\n", "utf-8")


def _netns(targets: Mapping[str, Target], play: Play) -> tuple[str, ...]:
    return targets[play.hosts[0]].netns_prefix()


def _watch(
    child: "subprocess.Popen[bytes]",
    play: Play,
    cancel: threading.Event,
    on_event: Callable[[dict[str, Any]], None] | None,
) -> tuple[list[dict[str, Any]], str]:
    """Events until the child's end, and why it ended: "" for by itself."""
    deadline = Deadline.after(play.timeout)
    why: list[str] = []
    finished = threading.Event()

    def guard() -> None:
        while not finished.wait(0.2):
            if cancel.is_set() or deadline.over:
                why.append("cancelled" if cancel.is_set() else "timeout")
                _end(child, play)
                return

    watcher = threading.Thread(target=guard, name=f"guard-{play.label}", daemon=True)
    watcher.start()
    events = []
    try:
        for event in _lines(child):
            events.append(event)
            if on_event is not None:
                on_event(event)
            if event["event"] == "end":
                break
    finally:
        finished.set()
        watcher.join()
    return events, why[0] if why else ""


def _lines(child: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    assert child.stdout is not None
    for line in child.stdout:
        with contextlib.suppress(ValueError):  # half a line of a killed child
            yield json.loads(line)


def _end(child: "subprocess.Popen[bytes]", play: Play) -> None:
    """End the child and all that came of it, but for the SSH masters, which serve the run's next steps."""

    def left() -> list[int]:
        tree = descendants(child.pid)
        orphans = marked("KVCTL_STEP", play.label, descendants(os.getpid()))
        alive = {*tree, *(pid for pid in orphans if marked("KVCTL_RUN", play.run, [pid]))}
        if child.poll() is None:
            alive.add(child.pid)
        return sorted(pid for pid in alive if not _is_master(pid))

    end_all(left, grace=2.0, patience=15.0)
    if child.stdin is not None:
        child.stdin.close()
    child.wait()
    forget(child.pid)


def _is_master(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"[mux]" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _judge(
    play: Play, events: list[dict[str, Any]], ended: str, cancel: threading.Event, log: Path, said: str
) -> StepOutcome:
    changed = tuple(
        ChangedTask(event["host"], event["role"], event["task"], event["diff"])
        for event in events
        if event["event"] == "runner_on_ok" and event["changed"]
    )
    failed, unreachable, codes = _losses(play, events)
    end = next((event for event in events if event["event"] == "end"), None)
    status = ended or (str(end["status"]) if end else "cancelled" if cancel.is_set() else "died")
    error = _error(play, status, failed, unreachable, codes, _strangers(play, changed), said)
    ok = status == "successful" and error is None
    return StepOutcome(ok, status, changed, failed, unreachable, error, str(log))


def _losses(play: Play, events: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Failed and unreachable hosts. Ansible's own count decides; a rescued failure is not in it."""
    messages: dict[str, str] = {}
    codes: dict[str, str] = {}
    dark: dict[str, str] = {}
    stats: dict[str, Any] | None = None
    for event in events:
        if event["event"] == "runner_on_failed" and not event["ignored"]:
            messages[event["host"]] = f"{event['task']}: {event['msg']}"
            codes[event["host"]] = event["code"]
        elif event["event"] == "runner_on_unreachable":
            dark[event["host"]] = event["msg"]
        elif event["event"] == "playbook_on_stats":
            stats = event
    if stats is None:
        return messages, dark, codes
    failed = {host: messages.get(host, "a task failed") for host in stats["failures"]}
    return failed, {host: dark.get(host, "unreachable") for host in stats["dark"]}, codes


def _strangers(play: Play, changed: tuple[ChangedTask, ...]) -> list[ChangedTask]:
    return [
        task
        for task in changed
        if task.host not in play.hosts or (play.role and task.role.rpartition(".")[2] != play.role)
    ]


def _error(
    play: Play,
    status: str,
    failed: Mapping[str, str],
    unreachable: Mapping[str, str],
    codes: Mapping[str, str],
    strangers: list[ChangedTask],
    said: str,
) -> KvctlError | None:
    place = f"run {play.run}, step {play.label}"
    if status == "cancelled":
        return KvctlError("KV-RUN-025", "the step was cut: the run was cancelled", where=place, fix="kvctl run resume")
    if status == "timeout":
        return KvctlError(
            "KV-RUN-024", f"the step took more than {play.timeout:.0f} s", where=place, fix="kvctl run resume"
        )
    if strangers:
        names = "; ".join(f"{task.host}: {task.role or 'no role'}: {task.task}" for task in strangers[:5])
        return KvctlError(
            "KV-RUN-020",
            f"a change that is not of the role {play.role}" if play.role else "a change on another host",
            where=place,
            why=names,
            fix="kvctl check, then plan again; report the role",
        )
    if failed:
        host, why = next(iter(failed.items()))
        return KvctlError(
            codes.get(host) or "KV-RUN-023", f"the step failed on {', '.join(failed)}", where=place, why=why
        )
    if unreachable:
        host, why = next(iter(unreachable.items()))
        return UnreachableError("KV-SSH-001", f"{', '.join(unreachable)} cannot be reached", where=place, why=why)
    if status != "successful":
        return KvctlError("KV-RUN-026", "Ansible did not run", where=place, why=failures.tail(said) or status)
    return None


def _said(private: Path) -> str:
    texts = []
    for path in (private / "stderr", private / "artifacts" / "run" / "stdout"):
        if path.is_file():
            texts.append(path.read_text("utf-8", errors="replace")[-4000:])
    return "\n".join(texts)


def _keep_log(private: Path, log: Path) -> None:
    """Append Ansible's output and the child's own messages to the step's log."""
    text = _said_whole(private)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        out.write(text)


def _said_whole(private: Path) -> str:
    paths = (private / "artifacts" / "run" / "stdout", private / "stderr")
    return "".join(path.read_text("utf-8", errors="replace") for path in paths if path.is_file())
