"""Keeps one lab host running: enters its cgroups, runs systemd-nspawn, boots it again when it reboots.

A process of its own, so that the lab outlives the command that started it. Standard library only, no imports of kvctl:
it is run by path. Arguments: one JSON file {"cgroups": [...], "argv": [...], "environment": {...}, "boot": [...]}.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

REBOOT = 133  # what systemd-nspawn returns when the container asked for a reboot


def read(plan_file: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(Path(plan_file).read_text())
    return plan


def main(plan_file: str) -> int:
    plan = read(plan_file)
    for cgroup in plan["cgroups"]:
        (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    stopping = threading.Event()
    child: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGTERM)  # nspawn turns it into an orderly power-off

    signal.signal(signal.SIGTERM, stop)
    while not stopping.is_set():
        plan = read(plan_file)  # a fault may have changed how the host boots
        environment = {**os.environ, **plan["environment"]}
        subprocess.run(plan["boot"], check=True)
        child = subprocess.Popen(plan["argv"], env=environment, stdin=subprocess.DEVNULL)
        if stopping.is_set():  # the signal came between the test above and the start
            child.send_signal(signal.SIGTERM)
        code = child.wait()
        if code != REBOOT:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
