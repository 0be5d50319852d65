"""Listening: who may come in, what a dead process left, and what is in use."""

import os
import socket
import stat

import pytest

from kvctl.daemon.fields import Endpoint
from kvctl.daemon.sockets import open_endpoints, open_unix, peer_uid
from kvctl.types.errors import KvctlError


def test_a_unix_socket_is_for_its_user_and_group_and_names_its_peers(tmp_path):
    path = tmp_path / "s"
    with open_unix(str(path)) as listening, socket.socket(socket.AF_UNIX) as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        client.connect(str(path))
        taken, _ = listening.accept()
        with taken:
            assert peer_uid(taken) == os.getuid()


def test_what_a_dead_process_left_is_replaced_and_what_is_in_use_is_not(tmp_path):
    path = str(tmp_path / "s")
    open_unix(path).close()
    with open_unix(path), pytest.raises(KvctlError) as caught:
        open_unix(path)
    assert (caught.value.code, caught.value.why) == ("KV-STORE-010", "another process listens there")


def test_a_file_that_is_no_socket_stays(tmp_path):
    (tmp_path / "s").write_text("mine")
    with pytest.raises(KvctlError, match="KV-STORE-010"):
        open_unix(str(tmp_path / "s"))
    assert (tmp_path / "s").read_text() == "mine"


def test_none_stays_open_when_one_fails(tmp_path):
    with pytest.raises(KvctlError):
        open_endpoints([Endpoint(f"unix:{tmp_path}/a"), Endpoint("unix:/nowhere/at/all")])
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(f"{tmp_path}/a")
