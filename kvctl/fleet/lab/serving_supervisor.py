"""`python -m kvctl.fleet.lab.serving_supervisor DIR`: an engine, its gateway and its leases, until told to stop.

It stands in the machine's own network, where kvctld gives leases; its plan puts the engine into the lab's.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from kvctl.connector.keys import KeyLease
from kvctl.connector.renew import ControllerAddress, Renewer, Wanted, fetch
from kvctl.fleet.lab.processes import started
from kvctl.fleet.lab.serving import Files, Plan, write_pid
from kvctl.fleet.lab.serving_engine import environment

DRAIN = 25.0  # seconds for a child to end by itself


def renewer(files: Files, plan: Plan) -> Renewer:
    """Keeps one lease file a domain fresh."""
    address = ControllerAddress(plan.endpoint, Path(plan.certificate), Path(plan.key), Path(plan.ca))
    holder = bytes.fromhex(plan.holder)

    def get(tenant: str, domain: str) -> KeyLease:
        return fetch(address, tenant, domain, holder)

    return Renewer(get, [Wanted(plan.tenant, one, files.leases / f"{plan.tenant}-{one}.json") for one in plan.domains])


def launch(files: Files, name: str, argv: list[str], env: dict[str, str]) -> "subprocess.Popen[bytes]":
    """A child in a session of its own, so that its own children can be ended with it."""
    with files.log(name).open("ab") as log:
        child = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    process = started(child.pid)
    if process is not None:
        write_pid(files.pid(name), process)
    return child


def end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(DRAIN)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def main(directory: Path) -> int:
    """0 when told to stop, 1 when a child ended before."""
    files = Files(directory)
    plan = msgspec.json.decode(files.plan.read_bytes(), type=Plan)
    told, over = threading.Event(), threading.Event()

    def stop(*_: object) -> None:
        told.set()
        over.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    leases = renewer(files, plan)
    leases.start()
    children = [
        launch(files, "engine", plan.engine, environment()),
        launch(files, "gateway", plan.gateway, dict(os.environ)),
    ]

    def watch(child: "subprocess.Popen[bytes]") -> None:
        child.wait()
        over.set()

    for child in children:
        threading.Thread(target=watch, args=(child,), daemon=True).start()
    over.wait()
    for child in reversed(children):
        end(child)
    leases.stop()
    return 0 if told.is_set() else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
