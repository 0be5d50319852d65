"""The inventory as Ansible reads it. It holds no secret: keys and host keys are files that SSH is pointed at."""

from typing import Any

from kvctl.fleet.inventory.model import Inventory, Node


def ansible_inventory(inventory: Inventory) -> dict[str, Any]:
    """{"all": {"hosts": {name: vars}, "children": {"role_storage": {"hosts": {name: {}}}, "pool_...": ...}}}.

    Nodes with another user than root become root by `sudo -n`. Group names take `_` for `-`, as Ansible asks.
    """
    children: dict[str, Any] = {}
    for node in inventory.nodes:
        for group in _groups(node):
            children.setdefault(group, {"hosts": {}})["hosts"][node.name] = {}
    return {"all": {"hosts": {node.name: host_vars(node) for node in inventory.nodes}, "children": children}}


def host_vars(node: Node) -> dict[str, Any]:
    """Connection variables of one node, and what kvctl knows it by."""
    become = node.user != "root"
    return {
        "ansible_host": node.address.strip("[]"),
        "ansible_port": node.port,
        "ansible_user": node.user,
        "ansible_become": become,
        **({"ansible_become_method": "sudo", "ansible_become_flags": "-H -S -n"} if become else {}),
        "kvctl_role": node.role,
        "kvctl_pool": node.pool,
        "kvctl_failure_domain": node.failure_domain,
    }


def _groups(node: Node) -> list[str]:
    groups = [f"role_{node.role}"] + ([f"pool_{node.pool}"] if node.pool else [])
    return [group.replace("-", "_") for group in groups]
