from pathlib import Path

import pytest

from kvctl.fleet.probe import pci
from kvctl.fleet.probe.tree import Tree
from tests.fleet.facts.hardware import link, pci_function, put


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("0000:41:00.0", True),
        ("10000:e1:00.0", True),
        ("0000:41:00", False),
        ("41:00.0", False),
        ("virtio2", False),
        ("000g:41:00.0", False),
        ("", False),
    ],
)
def test_an_address_has_domain_bus_device_and_function(text: str, right: bool) -> None:
    assert pci.is_address(text) is right


def test_a_device_that_sits_on_a_function_has_its_address(tmp_path: Path) -> None:
    folder = pci_function(tmp_path, "0000:00:03.0", "0000:00:01.0", {"vendor": "0x1af4"}, "virtio-pci")
    put(tmp_path, f"{folder}/virtio2/uevent", "DRIVER=virtio_net\n")
    link(tmp_path, "/sys/class/net/eth0/device", f"{folder}/virtio2")
    assert pci.address_of(Tree(str(tmp_path)), "/sys/class/net/eth0/device") == "0000:00:03.0"


def test_a_recorded_folder_in_place_of_the_link_tells_by_its_uevent(tmp_path: Path) -> None:
    put(tmp_path, "/sys/class/net/eth0/device/uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:41:00.0\n")
    tree = Tree(str(tmp_path))
    assert pci.address_of(tree, "/sys/class/net/eth0/device") == "0000:41:00.0"
    found = pci.function(tree, "0000:41:00.0", "/sys/class/net/eth0/device")
    assert found["driver"]["v"] == "mlx5_core"


def test_a_device_without_a_bus_has_no_address(tmp_path: Path) -> None:
    put(tmp_path, "/sys/devices/platform/soc/x/uevent", "DRIVER=x\n")
    link(tmp_path, "/sys/class/net/eth0/device", "/sys/devices/platform/soc/x")
    assert pci.address_of(Tree(str(tmp_path)), "/sys/class/net/eth0/device") is None


def test_this_machines_functions_agree_with_sysfs() -> None:
    for path in list(Path(pci.DEVICES).glob("*"))[:5]:
        found = pci.function(Tree(), path.name)
        assert found["vendor"]["v"] == (path / "vendor").read_text().strip()


def test_a_bridge_without_the_capability_does_not_redirect(tmp_path: Path) -> None:
    put(tmp_path, f"{pci.DEVICES}/0000:40:01.1/config", bytes(4096))
    assert pci.acs_control(Tree(str(tmp_path)), "0000:40:01.1")["v"] == 0


def test_a_chain_of_capabilities_that_has_no_end_is_left(tmp_path: Path) -> None:
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    put(tmp_path, f"{pci.DEVICES}/0000:40:01.1/config", bytes(space))
    assert pci.acs_control(Tree(str(tmp_path)), "0000:40:01.1")["v"] == 0


def test_what_is_plugged_into_a_function_is_not_on_pci(tmp_path: Path) -> None:
    """A BMC's network interface on USB, below the host controller's PCI function."""
    put(tmp_path, "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0/uevent", "DRIVER=cdc_ether\n")
    link(tmp_path, "/sys/class/net/usb0/device", "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0")
    assert pci.address_of(Tree(str(tmp_path)), "/sys/class/net/usb0/device") is None
