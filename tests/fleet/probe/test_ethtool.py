from pathlib import Path

import pytest

from kvctl.fleet.probe.ethtool import Ethtool


@pytest.fixture
def ethtool() -> Ethtool:
    return Ethtool()


def physical() -> list[str]:
    return [path.name for path in Path("/sys/class/net").iterdir() if (path / "device").exists()]


@pytest.mark.skipif(not physical(), reason="this machine has no network interface on a bus")
def test_the_driver_is_that_of_sysfs(ethtool: Ethtool) -> None:
    for name in physical():
        told = ethtool.driver(name)["v"]
        assert told["driver"] == (Path(f"/sys/class/net/{name}/device/driver")).resolve().name


def test_what_a_device_does_not_support_is_unknown(ethtool: Ethtool) -> None:
    assert ethtool.pause("lo")["unknown"] == "operation not supported"
    assert ethtool.counters("lo")["unknown"]
    assert "v" not in ethtool.fec("lo")


def test_a_device_that_is_not_there_is_unknown(ethtool: Ethtool) -> None:
    assert ethtool.driver("no-such-link")["unknown"] == "no such device"


@pytest.mark.skipif(not physical(), reason="this machine has no network interface on a bus")
def test_counters_have_names_and_only_grow(ethtool: Ethtool) -> None:
    name = physical()[0]
    first, second = ethtool.counters(name), ethtool.counters(name)
    if "unknown" in first:
        pytest.skip(f"the driver of {name} has no counters")
    assert set(first["v"]) == set(second["v"])
    assert all(second["v"][key] >= value for key, value in first["v"].items())
