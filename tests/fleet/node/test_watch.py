"""Kernel messages as events, and what is said when a library is missing."""

import sys

import pytest

from kvctl.fleet.node import watch
from kvctl.fleet.node.watch import Link, Sources


@pytest.mark.parametrize(
    ("message", "link"),
    [
        ({"event": "RTM_NEWLINK", "attrs": [("IFLA_IFNAME", "eth1"), ("IFLA_OPERSTATE", "UP"), ("IFLA_MTU", 9000)]},
         Link("eth1", True, 9000)),
        ({"event": "RTM_NEWLINK", "attrs": [("IFLA_IFNAME", "eth1"), ("IFLA_OPERSTATE", "DOWN")]}, Link("eth1", False)),
        ({"event": "RTM_DELLINK", "attrs": [("IFLA_IFNAME", "eth1"), ("IFLA_OPERSTATE", "UP")]}, Link("eth1", None)),
        ({"event": "RTM_NEWADDR", "attrs": [("IFA_LABEL", "eth1")]}, None),
        ({"event": "RTM_NEWLINK", "attrs": []}, None),
        ({"event": "RTM_DELLINK", "family": 7, "attrs": [("IFLA_IFNAME", "eth1")]}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_link_messages(message, link):
    assert watch.link_of(message) == link


def test_sysfs_gives_the_same_event():
    assert watch.read_link("lo").mtu is not None
    assert watch.read_link("no-such-if0") == Link("no-such-if0", None)


def test_a_missing_library_is_said_not_hidden(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyudev", None)
    sources = Sources()
    watch.watch_devices(None, sources)
    assert "pyudev is not installed" in sources.devices


def test_a_watcher_that_ends_is_reported():
    sources = Sources()

    def broken(events, sources):
        raise OSError("no buffer space")

    watch.guarded("links", broken, None, sources)
    for thread in __import__("threading").enumerate():
        if thread.name == "links":
            thread.join()
    assert sources.links == "stopped: OSError: no buffer space"
    assert sources.lost == ["links"]
