"""The relay that makes a store slow, and takes its end for the store's."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from kvctl.bench.store.processes import free_ports
from kvctl.bench.ttft.relay import Pace


@pytest.fixture
def relay():
    port, target = free_ports(2)
    command = [sys.executable, "-m", "kvctl.bench.ttft.relay", f"{port}:{target}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process, port, target
        process.stdin.close()


def test_bytes_pass_both_ways_and_an_end_is_passed_on(relay):
    _, port, target = relay
    address = ("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", target)) as server, socket.create_connection(address, 10) as client:
        store, _ = server.accept()
        told = client.makefile("rb")
        client.sendall(b"ask")
        assert store.makefile("rb").read(3) == b"ask"
        store.sendall(b"told" * 100_000)
        assert told.read(400_000) == b"told" * 100_000
        store.shutdown(socket.SHUT_RDWR)
        assert told.read() == b""
        store.close()


def test_a_store_that_is_gone_is_gone_behind_its_relay(relay):
    _, port, _ = relay
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        assert client.recv(1) == b""


def test_a_pace_is_kept_by_all_together():
    pace = Pace()
    pace.wait(1 << 30)  # no rate: nobody waits
    pace.rate = 1e6
    begun = time.monotonic()
    threads = [threading.Thread(target=pace.wait, args=(50_000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun >= 0.15  # the fourth begins after three times 50 ms
