import json
import os
import subprocess
import sys
from pathlib import Path

from kvctl.fleet.probe.host import host
from kvctl.fleet.probe.tree import Tree

ROOT = Path(__file__).parents[3]
CODE = "import json; from kvctl.fleet.probe.host import _ssh_connection; print(json.dumps(_ssh_connection()))"


def asked(environment: dict[str, str], *prefix: str) -> dict[str, str]:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", CODE],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=ROOT,
        capture_output=True,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_the_connection_is_that_of_the_environment() -> None:
    found = asked({"SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"})
    assert found == {"v": "192.0.2.1 5 192.0.2.2 22", "src": "SSH_CONNECTION"}


def test_the_connection_survives_a_sudo_that_cleans_the_environment() -> None:
    connection = {"SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"}
    found = asked(connection, "sh", "-c", 'env -u SSH_CONNECTION "$@"; exit $?', "sh")
    assert found == {"v": "192.0.2.1 5 192.0.2.2 22", "src": "SSH_CONNECTION of an ancestor"}


def test_the_settings_that_are_read_do_not_act() -> None:
    """Reading vm.stat_refresh makes the kernel do work."""
    settings = host(Tree())["sysctls"]["v"]
    assert "vm.stat_refresh" not in settings
    assert "vm.swappiness" in settings
    assert "vm.drop_caches" not in settings or settings["vm.drop_caches"].isdigit()


def test_modules_are_those_of_the_kernel() -> None:
    modules = set(host(Tree())["modules"]["v"])
    assert {path.name for path in Path("/sys/module").iterdir()} <= {
        name.replace("-", "_") for name in modules
    } | modules
