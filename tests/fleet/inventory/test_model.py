import pytest
from pydantic import ValidationError

from kvctl.fleet.inventory.model import Inventory, Node, Site


def node(name: str, **fields: object) -> Node:
    return Node.model_validate({"name": name, "address": name, "role": "storage", **fields})


def test_references_are_checked_without_the_loader() -> None:
    site = Site(name="oslo")
    inventory = Inventory(site=site, nodes=(node("a"), node("b")))
    assert inventory.role_of(inventory.nodes[0]).drives is not None
    for nodes in ((node("a"), node("a")), (node("a", role="tape"),), (node("a", pool="p"),)):
        with pytest.raises(ValidationError):
            Inventory(site=site, nodes=nodes)


def test_an_inventory_of_no_nodes_is_refused() -> None:
    with pytest.raises(ValidationError):
        Inventory(site=Site(name="oslo"), nodes=())
