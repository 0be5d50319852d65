"""The console as somebody far away uses it: ssh to a real sshd, in a terminal of 80 columns and 24 lines."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.kvctld import Kvctld
from tests.fleet.remote.conftest import SSHD, Sshd, run_sshd
from tests.tui.site import PASSWORD, filled, people
from tests.tui.terminal import Terminal, kvctl, settings


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if SSHD is None:
        pytest.skip("there is no sshd: apt-get install openssh-server, then run this test again")
    with run_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def far(sshd: Sshd, command: list[str]) -> list[str]:
    """This command behind ssh, which tells the far end of its terminal alone."""
    return [
        "env", "-i", f"PATH={os.environ['PATH']}", "TERM=screen-256color", "ssh", "-tt", "-F", "/dev/null",
        "-p", str(sshd.port), "-i", str(sshd.identity), "-o", f"UserKnownHostsFile={sshd.known_hosts}",
        "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "127.0.0.1",
        shlex.join(command).replace("env -i", 'env -i TERM="$TERM"', 1),
    ]  # fmt: skip


def test_five_keys_from_the_first_screen_to_the_plan(terminal: Terminal, sshd: Sshd, tmp_path: Path) -> None:
    filled(tmp_path / "local", nodes=60)
    terminal.start(far(sshd, kvctl("--controller", "direct", **settings(tmp_path))))
    terminal.shows("60 nodes, 1 critical", "!! qos.pfc")
    keys = ["f", "Enter", "Enter", "Enter"]
    assert len(keys) <= 5
    for key, said in zip(keys, ("1/1", "!! critical", "expected   priority 3", "off -> 3"), strict=True):
        terminal.send(key)
        terminal.shows(said)
    terminal.send("q")
    terminal.shows("left 0")


@pytest.fixture
def kvctld(tmp_path: Path) -> Iterator[Kvctld]:
    filled(tmp_path / "local", nodes=60)
    people(tmp_path / "local", ann="operator")
    made = Kvctld(tmp_path, "--listen", "127.0.0.1:0")
    made.start()
    yield made
    made.end()


def test_over_https_as_a_person_and_again_after_the_controller_died(
    terminal: Terminal, sshd: Sshd, kvctld: Kvctld, tmp_path: Path
) -> None:
    endpoint = f"https://localhost:{kvctld.port}"
    terminal.start(far(sshd, kvctl("--controller", endpoint, "--as", "ann", **settings(tmp_path))))
    terminal.shows("password of ann")
    terminal.type(PASSWORD)
    terminal.send("Enter")
    terminal.shows("site local  ann", "60 nodes, 1 critical")
    terminal.send("Enter", "Enter", "Enter")
    terminal.shows("plan p-1", "off -> 3")
    kvctld.end()
    terminal.shows("stale since", "!! KV-CTL-032: the controller does not answer")
    again = Kvctld(tmp_path, "--listen", f"127.0.0.1:{kvctld.port}")
    again.start()
    try:
        terminal.shows("!! you are not signed in any more: L signs in again")  # sessions end with a controller
        terminal.send("L")
        terminal.shows("sign in as ann")
        terminal.type(PASSWORD)
        terminal.send("Enter")
        terminal.shows("data 0 s old", without=("not signed in", "stale since"))
        assert PASSWORD not in terminal.screen("-S", "-")
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert PASSWORD not in listed
    finally:
        again.end()


def test_a_certificate_for_another_name_is_said(terminal: Terminal, sshd: Sshd, kvctld: Kvctld, tmp_path: Path) -> None:
    words = kvctl("--controller", f"https://127.0.0.2:{kvctld.port}", **settings(tmp_path))
    kvctld.signal(signal.SIGCONT)
    terminal.start(far(sshd, words))
    terminal.shows("not read yet", "!! KV-CTL-032")
    terminal.send("?")
    terminal.shows("this help")
