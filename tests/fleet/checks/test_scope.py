"""Which ports are fabric ports, and which face each other."""

from dataclasses import replace

from kvctl.fleet.checks.scope import Fleet, Host, cache_drives, fabric_ports
from kvctl.fleet.inventory.model import Rail
from kvctl.types.facts import known

from . import fleet as f


def fleet(inv, facts):
    return Fleet(inv, tuple(Host(n, inv.role_of(n), facts[n.name]) for n in inv.nodes if n.name in facts))


def two_rails(facts):
    """A second port on every node, in the next subnet."""

    def second(node, i):
        nic = replace(node.nics[0], netdev="enp66s0f0np0", addresses=known((f"10.79.0.{i}/16",), "netlink"))
        return replace(node, nics=(*node.nics, nic))

    return {name: second(node, i) for i, (name, node) in enumerate(facts.items(), 1)}


def with_rails(inv, *rails):
    for name in inv.roles:
        inv = f.role(inv, name, rails=rails)
    return inv


def facing(inv, facts, node, netdev):
    return {p.name for p in fleet(inv, facts).facing[(node, netdev)]}


ALL_STORAGE = {f"storage{i}:enp65s0f0np0" for i in (1, 2, 3)}


def test_the_management_port_is_not_a_fabric_port():
    inv, facts = f.inventory(), f.clean()
    host = fleet(inv, facts).hosts[1]
    assert [p.nic.netdev for p in fabric_ports(host)] == [f.NETDEV]
    bare = replace(host, role=host.role.model_copy(update={"rails": ()}))
    assert [p.nic.netdev for p in fabric_ports(bare)] == [f.NETDEV]


def test_a_gpu_faces_every_storage_node_on_its_rail():
    assert facing(f.inventory(), f.clean(), "gpu1", f.NETDEV) == ALL_STORAGE


def test_rails_face_by_subnet():
    rails = (
        Rail(interface="enp65s0f0np0", subnet="10.78.0.0/16"),
        Rail(interface="enp66s0f0np0", subnet="10.79.0.0/16"),
    )
    inv, facts = with_rails(f.inventory(), *rails), two_rails(f.clean())
    assert facing(inv, facts, "gpu1", "enp65s0f0np0") == ALL_STORAGE
    swapped = f.role(inv, "gpu", rails=tuple(reversed(rails)))
    assert facing(swapped, facts, "gpu1", "enp65s0f0np0") == ALL_STORAGE


def test_rails_without_subnets_face_by_position():
    rails = (Rail(interface="enp65s0f0np0"), Rail(interface="enp66s0f0np0"))
    inv, facts = with_rails(f.inventory(), *rails), two_rails(f.clean())
    assert facing(inv, facts, "gpu1", "enp66s0f0np0") == {n.replace("65", "66") for n in ALL_STORAGE}


def test_without_rails_ports_face_by_their_addresses():
    inv, facts = with_rails(f.inventory()), two_rails(f.clean())
    assert facing(inv, facts, "gpu1", "enp65s0f0np0") == ALL_STORAGE


def test_without_rails_and_addresses_nothing_faces():
    facts = {n: f.with_fact({n: v}, n, "nic.addresses", ("fe80::1/64",))[n] for n, v in f.clean().items()}
    assert facing(with_rails(f.inventory()), facts, "gpu1", f.NETDEV) == set()


def test_cache_drives_are_local_and_not_excluded():
    host = fleet(f.inventory(), f.clean()).hosts[1]
    assert [d.place for d in cache_drives(host)] == [("storage1", "KV2D0"), ("storage1", "KV2D1")]
    chosen = host.role.drives.model_copy(update={"serials": ("KV2D1",)})
    host = replace(host, role=host.role.model_copy(update={"drives": chosen}))
    assert [d.place[1] for d in cache_drives(host)] == ["KV2D1"]
