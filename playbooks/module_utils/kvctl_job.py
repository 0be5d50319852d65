"""Work that must not be cut: a transient unit on the node with a result file, started once and re-attached to.

/var/lib/kvctl/jobs/RUN-STEP/       worker.pyz (this code), payload.json
/var/lib/kvctl/jobs/RUN-STEP.json   the result: {"state": running|done|failed|reverted, "detail", "changed", ...}

The worker writes the result itself, fsynced and renamed, before it does anything else: no result means nothing began.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import json
import os
import re
import sys
import time
import traceback
import zipfile
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from .kvctl_files import CHANGE_LOCK, locked, read_json, write_atomic, write_json
from .kvctl_refused import FAILED, Refused
from .kvctl_systemd import active, boot_id, start_transient

JOBS = "/var/lib/kvctl/jobs"
PACKAGE = __package__ or "ansible.module_utils"
ENDED = ("done", "failed", "reverted")
Report = Callable[..., None]
Work = Callable[[Dict[str, Any], Report], Dict[str, Any]]


def key_of(run: str, step: str) -> str:
    """RUN-STEP, which names the unit and the files. An empty run gets a name of its own."""
    run = run or "adhoc-%x" % time.time_ns()
    step = step or "s00"
    for name in (run, step):
        if not re.match(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", name):
            raise Refused("KV-JOB-001", "%r cannot name a run or step" % name, "use letters, digits, dot, dash")
    return run + "-" + step


def begun(run: str, step: str) -> bool:
    """Whether this run and step has started its job; then nothing is planned again, only attached to."""
    return bool(run) and read_result(key_of(run, step)) is not None


def result_path(key: str) -> str:
    return "%s/%s.json" % (JOBS, key)


def read_result(key: str) -> Optional[Dict[str, Any]]:
    return read_json(result_path(key))


def pack(entry: str) -> bytes:
    """A zip archive that python3 runs: the entry module and all that it imports from this package.

    The bytes depend on the sources alone, so that every caller on every node writes the same file.
    """
    sources = {path_of(name): source for name, source in closure("%s.%s" % (PACKAGE, entry)).items()}
    parts = PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        sources.setdefault("/".join(parts[:depth]) + "/__init__.py", "")
    sources["__main__.py"] = "import sys\nfrom %s.kvctl_job import main\nsys.exit(main(%r, sys.argv[1:]))\n" % (
        PACKAGE,
        entry,
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(sources):
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), sources[path].encode())
    return buffer.getvalue()


def closure(entry: str) -> Dict[str, str]:
    """Module name -> source of `entry`, of this module, and of every loaded module that they import relatively."""
    found: Dict[str, str] = {}
    todo = [entry, PACKAGE + ".kvctl_job"]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found[name] = source_of(name)
        todo += sorted(imports(name, found[name]))
    return found


def imports(module: str, source: str) -> Set[str]:
    """Full names of the modules that `module` imports with a leading dot."""
    base = module if hasattr(sys.modules[module], "__path__") else module.rpartition(".")[0]
    names: Set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = ".".join(base.split(".")[: len(base.split(".")) - node.level + 1])
            target = home + ("." + node.module if node.module else "")
            names.add(target)
            names.update(target + "." + alias.name for alias in node.names)
    return {name for name in names if name in sys.modules and name != PACKAGE}


def path_of(module: str) -> str:
    is_package = hasattr(sys.modules[module], "__path__")
    return module.replace(".", "/") + ("/__init__.py" if is_package else ".py")


def source_of(module: str) -> str:
    spec = sys.modules[module].__spec__
    source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise Refused("KV-JOB-005", "the source of %s is not to be had" % module)
    return str(source)


def start(key: str, entry: str, payload: Dict[str, Any]) -> None:
    """Start the job unless it is there already. A payload other than the first one is refused."""
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    folder = "%s/%s" % (JOBS, key)
    with locked("%s/%s.lock" % (JOBS, key), wait=30):
        known = read_json(folder + "/payload.json")
        if known is not None and known["digest"] != digest:
            raise Refused("KV-JOB-002", "run and step %s did other work before" % key, "use a new run")
        unit = "kvctl-%s.service" % key
        if read_result(key) is not None or active(unit):
            return
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_atomic(folder + "/worker.pyz", pack(entry), 0o600)
        write_json(folder + "/payload.json", {"digest": digest, "payload": payload})
        start_transient("kvctl-" + key, ["/usr/bin/python3", folder + "/worker.pyz", "work", key], "kvctl job " + key)


def wait(key: str, seconds: float, until: Iterable[str] = ()) -> Dict[str, Any]:
    """The job's result once it ended (or reached a phase in `until`). A unit that died is reported as failed.

    Raises KV-JOB-003 when the time is over; the job goes on, and the same call attaches to it again.
    """
    phases = set(until)
    deadline = time.monotonic() + seconds
    while True:
        alive = active("kvctl-%s.service" % key)  # before the file: a unit that ends in between has written it
        result = read_result(key)
        if result is not None and (result["state"] in ENDED or result.get("phase") in phases):
            return result
        if not alive:
            return dead(key, result)
        if time.monotonic() > deadline:
            raise Refused("KV-JOB-003", "job %s still runs after %g s" % (key, seconds), "run the step again to attach")
        time.sleep(0.1)


def succeeded(job: Dict[str, Any]) -> Dict[str, Any]:
    """The result of a job that is done; any other result is raised with the code that the job gave."""
    if job["state"] == "done":
        return job
    raise Refused(
        job.get("code", "KV-JOB-009"), job.get("what", job["detail"]), job.get("fix", "see the unit's journal")
    )


def dead(key: str, result: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    why = "the unit ended without a result"
    if result is not None and result.get("boot_id") != boot_id():
        why = "the node restarted while the job ran"
    what = "%s: %s: %s" % (FAILED["KV-JOB-006"], key, why)
    return {"state": "failed", "detail": what, "code": "KV-JOB-006", "what": what, "changed": True}


def run_job(key: str, entry: str, payload: Dict[str, Any], seconds: float, until: Iterable[str] = ()) -> Dict[str, Any]:
    """Start or attach, wait, and return the result. A job that ended is reported, not repeated."""
    start(key, entry, payload)
    return wait(key, seconds, until)


def main(entry: str, words: List[str]) -> int:
    """`work KEY` does the job; any other verb is the entry module's own `verb(words)`."""
    module = importlib.import_module("%s.%s" % (PACKAGE, entry))
    if words[:1] == ["work"]:
        return worker(words[1], module.work)
    return int(module.verb(words))


def worker(key: str, work: Work) -> int:
    """Do the work under the node's change lock and leave a result, whatever happens."""
    state: Dict[str, Any] = {"state": "running", "detail": "", "changed": False, "boot_id": boot_id()}

    def report(**changes: Any) -> None:
        state.update(changes)
        write_json(result_path(key), state)

    report()
    document = read_json("%s/%s/payload.json" % (JOBS, key))
    try:
        if document is None:
            raise Refused("KV-JOB-007", "the payload of %s is missing" % key)
        with locked(CHANGE_LOCK, wait=60):
            report(**{"state": "done", **work(dict(document["payload"], key=key), report)})
    except Refused as refused:
        report(state="failed", detail=str(refused), **refused.as_dict())
    except Exception:  # noqa: BLE001  the result file is the only witness: every failure is written there, then shown
        last = traceback.format_exc().strip().splitlines()[-1]
        report(state="failed", code="KV-JOB-008", detail="%s: %s" % (FAILED["KV-JOB-008"], last))
        traceback.print_exc()
    return 0 if state["state"] != "failed" else 1
