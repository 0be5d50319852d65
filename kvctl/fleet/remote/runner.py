"""The child process around one ansible-runner invocation: `python -m kvctl.fleet.remote.runner DIRECTORY`.

It says what happens as JSON Lines on stdout. Its stdin is a pipe from whoever started it: at its end, which comes too
when that process is killed, it kills every descendant and itself, so that no worker goes on without a supervisor.
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from kvctl.fleet.remote.processes import become_subreaper, descendants, send

_KEPT = {
    "runner_on_ok",
    "runner_on_failed",
    "runner_on_unreachable",
    "playbook_on_stats",
    "playbook_on_task_start",
    "playbook_on_no_hosts_matched",
}
_TEXT_LIMIT = 8192


def main(directory: Path) -> int:
    become_subreaper()
    # ansible must not print into the stream of events, so stdout is taken away from everybody else
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ.pop("PYTHONPATH", None)
    import ansible_runner

    request = json.loads((directory / "request.json").read_text("utf-8"))
    lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    writer = threading.Thread(target=_write, args=(lines, out))
    writer.start()

    def handler(event: dict[str, Any]) -> bool:
        lines.put(event)  # a slow handler stops ansible's output and then the run, so it does nothing else
        return False

    result = ansible_runner.run(
        private_data_dir=str(directory),
        project_dir=request["project"],
        playbook=request["playbook"],
        event_handler=handler,
        quiet=True,
        ident="run",
        settings={"pexpect_timeout": 30, "idle_timeout": 0, "suppress_ansible_output": True},
        cmdline=request["cmdline"],
    )
    lines.put({"event": "end", "status": result.status, "rc": result.rc})
    lines.put(None)
    writer.join()
    return 0


def _write(lines: "queue.SimpleQueue[dict[str, Any] | None]", out: TextIO) -> None:
    while (event := lines.get()) is not None:
        short = event if event["event"] == "end" else _shorten(event)
        if short is not None:
            out.write(json.dumps(short, default=str) + "\n")
            out.flush()


def _shorten(event: dict[str, Any]) -> dict[str, Any] | None:
    name, data = event.get("event", ""), event.get("event_data", {})
    if name not in _KEPT:
        return None
    if name == "playbook_on_stats":
        kept = ("changed", "failures", "dark", "ok", "rescued", "ignored")
        return {"event": name, **{key: data.get(key, {}) for key in kept}}
    res = data.get("res") or {}
    results = [item for item in res.get("results") or [] if isinstance(item, dict)]
    return {
        "event": name,
        "host": data.get("host", ""),
        "task": data.get("task", ""),
        "role": data.get("role", ""),
        "ignored": bool(data.get("ignore_errors")),
        "changed": bool(res.get("changed")),
        "diff": _diff([res.get("diff"), *(item.get("diff") for item in results)]),
        "msg": _message(res, results),
        "code": str(res.get("code", "")),
    }


def _diff(parts: list[Any]) -> str:
    texts: list[str] = []
    for part in parts:
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, dict) and one:
                prepared = one.get("prepared")
                shown = prepared or f"- {_flat(one.get('before', ''))}\n+ {_flat(one.get('after', ''))}"
                texts.append(f"{one.get('before_header') or one.get('after_header') or ''}\n{shown}".strip())
    return "\n".join(texts)[:_TEXT_LIMIT]


def _flat(value: Any) -> str:
    return value.rstrip("\n") if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _message(res: dict[str, Any], results: list[dict[str, Any]]) -> str:
    texts = [res.get("msg"), *(item.get("msg") for item in results if item.get("failed"))]
    texts += [res.get("stderr") or res.get("module_stderr")]
    return " | ".join(str(text).strip() for text in texts if text)[:_TEXT_LIMIT]


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    for _ in range(3):  # a killed parent's children appear one generation later
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
