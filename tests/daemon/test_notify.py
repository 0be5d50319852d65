"""What systemd is told, and that serving does not depend on it."""

import io
import os
import socket

import pytest

from kvctl.daemon.log import Log
from kvctl.daemon.notify import Notify


def test_states_reach_the_socket_that_systemd_named(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(5)
        notify = Notify({"NOTIFY_SOCKET": str(tmp_path / "notify")}, Log(io.StringIO()))
        notify.ready("serving")
        assert told.recv(100) == b"READY=1\nSTATUS=serving"
        notify.stopping("draining")
        assert told.recv(100) == b"STOPPING=1\nSTATUS=draining"


def test_a_socket_that_is_gone_is_logged():
    stream = io.StringIO()
    Notify({"NOTIFY_SOCKET": "/nowhere/at/all"}, Log(stream)).ready("serving")
    assert "systemd not told" in stream.getvalue()


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_looks(environ: dict[str, str], interval: float | None):
    assert Notify({"NOTIFY_SOCKET": "/run/n", **environ}, Log(io.StringIO())).interval == interval
