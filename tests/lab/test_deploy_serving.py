"""An engine and a gateway on a real host: deployed, judged by a context that comes back, repeated, and taken back."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvctl.fleet.lab.serving_engine import engine_home
from kvctl.types.errors import UsageError

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]
NODE, STORE = "gpu1", "storage1"


def installed():
    try:
        return engine_home()
    except UsageError:
        return None


@pytest.fixture(scope="module")
def controller(lab):
    """kvctld, in the machine's network and in the hosts'; where the hosts reach it."""
    if installed() is None:
        pytest.skip("no engine is installed: ./dev engine installs vLLM on CPU")
    lab.kvctl("provision", "--yes", "-l", STORE, ok=None)
    lab.kvctl("deploy", "storage", "--yes", "-l", STORE)
    name = lab.env["KVCTL_LAB_NAME"]
    shown = subprocess.run(
        ["ip", "netns", "exec", name, "ip", "-json", "-4", "address", "show", "dev", "br0"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    address = json.loads(shown.stdout)[0]["addr_info"][0]["local"]
    run = "from kvctl.cli.kvctld import main; raise SystemExit(main())"
    command = [sys.executable, "-c", run, "--listen", f"127.0.0.1:0,{address}:8443@{name}"]
    log = Path(lab.env["KVCTL_LAB_DIR"]).parent / "kvctld.log"
    with log.open("wb") as out:
        child = subprocess.Popen(command, env=lab.env, stdout=out, stderr=out, cwd="/", stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while '"serving"' not in log.read_text():
        assert child.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    yield f"https://{address}:8443"
    child.terminate()
    child.wait(60)
    lab.on(STORE, "systemctl disable --now kvstored")


@pytest.fixture(scope="module")
def deployed(lab, controller, tmp_path_factory):
    """(what serving said, what the gateway said, how to say it again)."""
    lab.kvctl("tenant", "create", "serving", "--entity", "Serving SA", "--country", "FR")
    key = tmp_path_factory.mktemp("key") / "serving.key"
    with os.fdopen(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write(lab.kvctl("key", "create", "serving").stdout)
    description = lab.kvctl("lab", "engine").stdout.strip()
    lab.kvctl("model", "pin", str(installed() / "tiny-0"), "--name", "tiny")
    again = {
        "serving": ("deploy", "serving", "-f", description, "--kvctld", controller, "--yes"),
        "gateway": ("deploy", "gateway", "-f", description, "--kvctld", controller, "--key-file", str(key), "--yes"),
    }
    serving = json.loads(lab.kvctl(*again["serving"], "-o", "json", timeout=900).stdout)
    gateway = json.loads(lab.kvctl(*again["gateway"], "-o", "json", timeout=600).stdout)
    yield serving, gateway, again
    lab.kvctl("deploy", "serving", "--revert", "--yes", ok=None)
    lab.kvctl("deploy", "gateway", "--revert", "--yes", ok=None)


def test_a_forgotten_context_comes_back_from_the_stores(deployed):
    (engine,) = deployed[0]["engines"]
    assert engine["well"]
    assert engine["same"]
    assert engine["restored_bytes"] > 0


def test_a_token_comes_through_the_gateway(deployed):
    (gateway,) = deployed[1]["gateways"]
    assert gateway["tokens"] == 4


def test_the_engine_is_behind_its_socket_and_its_memory_is_its_own(lab, deployed):
    assert lab.on(NODE, "stat -c '%a %G' /run/kvctl-engine").split() == ["750", "kvctl-serve"]
    assert lab.on(NODE, "stat -c '%a %U' /run/kvctl/leases").split() == ["700", "kvctl-engine"]
    assert lab.on(NODE, "ls /dev/shm | grep -c vllm_offload", ok=False).strip() == "0"
    pid = lab.on(NODE, "systemctl show -p MainPID --value kvctl-engine").strip()
    assert "vllm_offload" in lab.on(NODE, f"ls /proc/{pid}/root/dev/shm")


def test_private_keys_stay_on_the_node(lab, deployed):
    listed = lab.on(NODE, "stat -c '%U %a %n' /etc/kvctl-engine/*.key /etc/kvctl-gateway/*.key")
    assert {row.split()[1] for row in listed.splitlines()} == {"600"}
    for path in ("/etc/kvctl-engine/connector.key", "/etc/kvctl-gateway/gate.key"):
        secret = lab.on(NODE, f"sed -n 2p {path}").strip()
        assert len(secret) > 40
        assert [p for p in lab.state.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []


def test_a_suspended_tenants_lease_is_gone_within_seconds(lab, deployed):
    assert "serving.user" in lab.on(NODE, "ls /run/kvctl/leases")
    lab.kvctl("tenant", "suspend", "serving", "--yes")
    gone = "for i in $(seq 50); do ls /run/kvctl/leases | grep -q serving || exit 0; sleep 0.1; done; exit 1"
    lab.on(NODE, gone)
    lab.kvctl("tenant", "resume", "serving")


def test_repeating_it_changes_nothing(lab, deployed):
    before = lab.on(NODE, "systemctl show -p MainPID --value kvctl-engine kvctl-leases kvgated kvctl-snapshot")
    serving = json.loads(lab.kvctl(*deployed[2]["serving"], "-o", "json", timeout=600).stdout)
    gateway = json.loads(lab.kvctl(*deployed[2]["gateway"], "-o", "json", timeout=600).stdout)
    assert [run["changed"] for run in serving["runs"] + gateway["runs"]] == [0, 0, 0, 0]
    after = lab.on(NODE, "systemctl show -p MainPID --value kvctl-engine kvctl-leases kvgated kvctl-snapshot")
    assert after == before


def test_it_is_taken_back_whole(lab, deployed):
    lab.kvctl("deploy", "serving", "--revert", "--yes")
    lab.kvctl("deploy", "gateway", "--revert", "--yes")
    assert lab.on(NODE, "ls /run/kvctl/leases", ok=False).strip() == ""
    assert lab.on(NODE, "ls /etc/systemd/system | grep -c -e kvctl-engine -e kvgated", ok=False).strip() == "0"
    assert "gpu1-engine" not in (lab.state / "controller.yaml").read_text()
    assert "gpu1-engine" not in lab.on(STORE, "cat /etc/kvctl/kvstored.yaml")
