"""On a node with a real systemd: a run's declared units outlive a sweep and keep other runs out."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvctl.fleet.inventory.load import load
from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.leftovers import sweep
from kvctl.fleet.remote.locks import lock_node
from kvctl.fleet.remote.target import resolve
from kvctl.types import codec
from kvctl.types.errors import LockedError

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

RUN = "r-20260101-000000-unit"
OTHER = "r-20260101-000000-othr"
UNIT = f"kvctl-{RUN}-s01"
NODE = "storage1"


@pytest.fixture
def target(lab, tmp_path):
    inventory = load(Path(lab.env["KVCTL_LAB_DIR"]) / "inventory.yaml").inventory
    return resolve(inventory, tmp_path / "state", nodes=[NODE])[NODE]


def on(target, command):
    with ssh.connect(target, timeout=20) as session:
        return session.run(command, timeout=60).out.decode().strip()


@pytest.fixture
def unit(target):
    """A transient unit of the run, at work."""
    on(target, f"systemd-run --quiet --unit={UNIT} --setenv=KVCTL_RUN={RUN} sleep 600")
    yield UNIT
    on(target, f"systemctl stop {UNIT}")


def test_sweep_ends_strays_and_spares_the_unit(target, unit):
    stray = on(target, f"KVCTL_RUN={RUN} setsid sleep 599 >/dev/null 2>&1 </dev/null & echo $!")
    assert on(target, f"test -d /proc/{stray} && echo there") == "there"
    swept = sweep([target], RUN)[NODE]
    assert (swept.error, swept.left) == (None, 0)
    assert swept.ended >= 1
    assert on(target, "pgrep -fx 'sleep 599'") == ""
    assert on(target, f"systemctl is-active {unit}") == "active"


def test_unit_keeps_other_runs_out_and_lets_its_own_in(target, unit):
    with pytest.raises(LockedError) as caught:
        lock_node(target, OTHER)
    assert caught.value.code == "KV-RUN-011"
    assert unit in caught.value.why
    with lock_node(target, RUN) as held:
        assert held.held


def test_controller_that_is_killed_frees_the_node(target):
    code = (
        "import sys; from kvctl.fleet.remote.locks import lock_node; from kvctl.fleet.remote.target import Target;"
        "from kvctl.types import codec; held = lock_node(codec.from_json(sys.argv[1], Target), sys.argv[2]);"
        "print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, codec.to_json(target).decode(), RUN]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError):
        lock_node(target, OTHER)
    holder.kill()
    holder.wait()
    pause = threading.Event()
    for _ in range(100):
        try:
            lock_node(target, OTHER).release()
            return
        except LockedError:
            pause.wait(0.1)
    pytest.fail("the node stayed locked after its holder was killed")
