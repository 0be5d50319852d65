"""End what a cut run left on the nodes, but for the units that must not be cut."""

import json
import shlex
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.ssh import as_root, bounded, connect, explain
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError

# Runs on the node, Python 3.9 syntax. A unit kvctl-RUN-STEP has its name in its processes' control group.
_SCRIPT = """
import json, os, signal, sys, time
run = sys.argv[1]
mark = ("KVCTL_RUN=" + run).encode()
unit = ("kvctl-" + run + "-").encode()
def read(pid, name):
    try:
        with open("/proc/%s/%s" % (pid, name), "rb") as stream:
            return stream.read()
    except OSError:
        return b""
def left():
    pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    marked = [pid for pid in pids if mark in read(pid, "environ").split(b"\\0")]
    return [pid for pid in marked if unit not in read(pid, "cgroup") and b") Z " not in read(pid, "stat")]
begun = time.monotonic()
ended = set()
while time.monotonic() - begun < 8:
    pids = left()
    if not pids:
        break
    for pid in pids:
        ended.add(pid)
        try:
            os.kill(int(pid), signal.SIGTERM if time.monotonic() - begun < 2 else signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.2)
print(json.dumps({"ended": len(ended), "left": len(left())}))
"""


@dataclass(frozen=True, slots=True)
class Swept:
    """Processes of the run that were ended on a node, and those that would not end."""

    ended: int = 0
    left: int = 0
    error: KvctlError | None = None


def sweep(targets: Iterable[Target], run: str, *, timeout: float = 12.0) -> dict[str, Swept]:
    """Sweep all nodes at once; a node that does not answer is in the result with its error."""
    chosen = list(targets)
    if not chosen:
        return {}
    with ThreadPoolExecutor(min(32, len(chosen))) as pool:
        return dict(pool.map(lambda target: (target.node, _sweep(target, run, timeout)), chosen))


def _sweep(target: Target, run: str, timeout: float) -> Swept:
    deadline = Deadline.after(timeout)
    command = as_root(target, bounded(f"python3 -c {shlex.quote(_SCRIPT.strip())} {run}", timeout))
    try:
        with connect(target, timeout=timeout) as session:
            result = session.run(command, timeout=max(0.1, deadline.left()))
        if result.rc != 0:
            return Swept(error=explain(target, "the sweep", result))
        said = json.loads(result.out)
        return Swept(int(said["ended"]), int(said["left"]))
    except KvctlError as error:
        return Swept(error=error)
    except (ValueError, KeyError, TypeError) as error:
        return Swept(error=KvctlError("KV-SSH-008", f"the answer of {target.node} is not understood", why=str(error)))
