import errno
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.fleet.probe.netlink import Netlink, _decoded, _link, attributes


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def test_links_are_those_of_sysfs() -> None:
    netlink = Netlink()
    links = netlink.links()
    netlink.close()
    names = {path.name for path in Path("/sys/class/net").iterdir() if (path / "type").exists()}
    assert set(links) == names
    for name, link in links.items():
        assert link["mtu"] == int(Path(f"/sys/class/net/{name}/mtu").read_text())
        assert link["index"] == int(Path(f"/sys/class/net/{name}/ifindex").read_text())


def test_the_loopback_address_is_there() -> None:
    netlink = Netlink()
    index = netlink.links()["lo"]["index"]
    assert "127.0.0.1/8" in netlink.addresses()[index]
    netlink.close()


def test_a_refusal_of_the_kernel_is_an_error_with_its_number() -> None:
    netlink = Netlink()
    with pytest.raises(OSError, match=r".") as failure:
        netlink._dcb_attributes("no-such-link", 21)
    assert failure.value.errno == errno.ENODEV
    assert netlink.dcb("no-such-link")["ieee"]["unknown"] == "no such device"
    # The socket is usable after a refusal.
    assert "lo" in netlink.links()
    netlink.close()


@pytest.mark.skipif(shutil.which("dcb") is None, reason="needs the dcb command to compare with: install iproute2")
def test_a_link_without_dcb_is_unknown_as_the_dcb_command_says() -> None:
    netlink = Netlink()
    found = netlink.dcb("lo")
    netlink.close()
    said = subprocess.run(["dcb", "pfc", "show", "dev", "lo"], capture_output=True, text=True).stderr
    assert found["ieee"]["unknown"] in said.lower()
    assert "pfc" not in found


def ieee(**parts: bytes) -> dict[int, bytes]:
    kinds = {"ets": 1, "pfc": 2, "app": 3, "peer_pfc": 5, "buffer": 10, "trust": 11}
    return {kinds[name]: data for name, data in parts.items()}


def test_structures_are_read_as_the_kernel_lays_them_out() -> None:
    """struct ieee_ets, ieee_pfc, dcb_app and dcbnl_buffer of linux/dcbnl.h."""
    ets = struct.pack("3B", 1, 8, 0) + bytes([50, 0, 0, 50, 0, 0, 0, 0]) + bytes(8)
    ets += bytes([2, 2, 0, 2, 1, 255, 9, 0]) + bytes(range(8)) + bytes(24)
    pfc = struct.pack("BBBxHxx8Q8Q", 8, 0b1001000, 0, 7, *range(8), *range(8))
    app = (
        attribute(1, struct.pack("BBH", 5, 3, 26)) + attribute(1, struct.pack("BBH", 5, 6, 48)) + attribute(2, bytes(4))
    )
    buffer = bytes([0, 0, 0, 1, 0, 0, 0, 0]) + struct.pack("8II", 130944, 130944, 0, 0, 0, 0, 0, 0, 262016)
    found = _decoded(
        ieee(ets=ets, pfc=pfc, app=app, buffer=buffer, trust=attribute(1, b"\x05") + attribute(2, b"\xff"))
    )
    assert found["ets"] == {
        "willing": 1,
        "tc_bw": [50, 0, 0, 50, 0, 0, 0, 0],
        "tsa": ["ets", "ets", "strict", "ets", "cbs", "vendor", "reserved", "strict"],
        "prio_tc": list(range(8)),
    }
    assert found["pfc"] == {"enabled": 0b1001000, "delay": 7}
    assert found["app"] == [[5, 3, 26], [5, 6, 48]]
    assert found["buffer"] == {"prio": [0, 0, 0, 1, 0, 0, 0, 0], "size": [130944, 130944, 0, 0, 0, 0, 0, 0]}
    assert found["apptrust"] == [5, 255]


def test_an_answer_that_is_too_short_is_left_out() -> None:
    assert _decoded(ieee(ets=bytes(20), pfc=bytes(3), buffer=bytes(39))) == {}


@given(st.binary(max_size=300))
def test_any_bytes_are_attributes_or_nothing(data: bytes) -> None:
    found = dict(attributes(data))
    assert all(len(value) <= len(data) for value in found.values())
    _decoded(found)
    _link(found)


def test_a_bridge_port_names_its_master_by_index() -> None:
    fields = dict(attributes(attribute(3, b"eth1\0") + attribute(10, struct.pack("I", 7)) + attribute(16, b"\x06")))
    assert _link(fields) == {"name": "eth1", "master": 7, "operstate": "up"}
