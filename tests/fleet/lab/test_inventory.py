import hashlib

import pytest

from kvctl.fleet.inventory import load
from kvctl.fleet.lab import cards, images, inventory, layout, nodes


@pytest.fixture
def lab(tmp_path):
    return layout.from_environment({"KVCTL_LAB_DIR": str(tmp_path)})


def write(lab, text):
    found = nodes.nodes_of(lab, text)
    lab.inventory.write_text(inventory.text(lab, found, images.write(lab.images)))
    return load.load(lab.inventory).inventory


@pytest.mark.parametrize("text", ["gpu=1,storage=3", "storage=1", "gpu=2"])
def test_it_is_a_valid_lab_inventory(lab, text):
    read = write(lab, text)
    assert read.site.lab
    assert read.access.netns == "kvctl-lab"
    assert [n.name for n in read.nodes] == [n.name for n in nodes.nodes_of(lab, text)]


def test_the_pinned_image_has_the_pinned_checksum(lab):
    pin = write(lab, "storage=1").roles["storage"].nic.firmware[cards.PSID]
    with open(pin.image, "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == pin.sha256
    assert pin.version == cards.FIRMWARE
