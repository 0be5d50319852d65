"""A site: its nodes by name, its directory, and how a face finds it again without reading the inventory."""

import os
from pathlib import Path

import pytest

from kvctl.controller.site import open_site
from kvctl.controller.site_index import recall
from kvctl.types.errors import UsageError

TEXT = """\
site: {name: oslo}
nodes:
- {name: b, address: 192.0.2.2, role: storage}
- {name: a, address: 192.0.2.1, role: gpu}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    file = tmp_path / "inventory.yaml"
    file.write_text(TEXT)
    return file


def test_nodes_come_in_the_inventorys_order_and_none_means_all(inventory: Path, tmp_path: Path) -> None:
    site = open_site(inventory, tmp_path / "state")
    assert [n.name for n in site.select(())] == ["b", "a"]
    assert [n.name for n in site.select(("a", "b"))] == ["b", "a"]
    assert site.directory == tmp_path / "state" / "oslo"
    assert not site.directory.exists()


def test_a_name_that_is_no_node_is_an_error_with_those_that_are(inventory: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_site(inventory, tmp_path / "state").select(("a", "c"))
    assert (caught.value.code, caught.value.what, caught.value.fix) == (
        "KV-INV-020",
        "no such node: c",
        "nodes are b, a",
    )


def test_a_site_is_recalled_until_its_inventory_changes(inventory: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert recall(state, inventory) is None
    open_site(inventory, state)
    assert recall(state, inventory) == "oslo"
    inventory.write_text(TEXT.replace("oslo", "rome"))
    os.utime(inventory, ns=(1, 1))
    assert recall(state, inventory) is None
    open_site(inventory, state)
    assert recall(state, inventory) == "rome"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}'])
def test_a_spoilt_index_is_no_index(inventory: Path, tmp_path: Path, text: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "inventories.json").write_text(text)
    assert recall(state, inventory) is None
    open_site(inventory, state)
    assert recall(state, inventory) == "oslo"


def test_an_inventory_that_is_gone_is_not_recalled(inventory: Path, tmp_path: Path) -> None:
    open_site(inventory, tmp_path / "state")
    inventory.unlink()
    assert recall(tmp_path / "state", inventory) is None
