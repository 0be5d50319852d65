import pytest

from kvctl.fleet.lab import layout, nodes
from kvctl.types.errors import ExitCode, UsageError


def test_defaults_and_overrides():
    default = layout.from_environment({})
    assert (default.name, str(default.directory), str(default.cache)) == (
        "kvctl-lab", "/var/lib/kvctl-lab", "/var/cache/kvctl/lab",
    )  # fmt: skip
    names = {"KVCTL_LAB_NAME": "second", "KVCTL_LAB_DIR": "/tmp/x", "KVCTL_LAB_CACHE": "/tmp/c"}
    other = layout.from_environment(names)
    assert (other.machine("gpu1"), str(other.inventory), str(other.cache)) == (
        "second-gpu1", "/tmp/x/inventory.yaml", "/tmp/c",
    )  # fmt: skip


def test_two_labs_have_different_networks():
    default, other = layout.from_environment({}), layout.from_environment({"KVCTL_LAB_NAME": "second"})
    assert default.subnets() == ("10.77", "10.78")
    assert not set(default.subnets()) & set(other.subnets())


def test_a_lab_knows_its_own_machines_only():
    lab = layout.from_environment({})
    assert lab.node_of("kvctl-lab-storage2") == "storage2"
    assert lab.node_of("kvctl-lab-x-storage2") is None
    assert lab.node_of("kvctl-lab") is None


@pytest.mark.parametrize("name", ["UPPER", "has space", "../etc", "much-too-long-a-name", "-x", "a/b"])
def test_bad_names_are_refused(name):
    with pytest.raises(UsageError) as caught:
        layout.from_environment({"KVCTL_LAB_NAME": name})
    assert caught.value.code == "KV-LAB-003"


def test_nodes_keep_their_addresses_when_others_are_added():
    lab = layout.from_environment({})
    small, large = nodes.nodes_of(lab, "gpu=1,storage=1"), nodes.nodes_of(lab, "gpu=4,storage=8")
    assert set(small) < set(large)
    assert len({n.address for n in large}) == len({n.unique for n in large}) == 12
    assert nodes.node_named(lab, "storage8") in large


@pytest.mark.parametrize("text", ["", "gpu", "gpu=x", "gpu=-1", "disk=1", "gpu=1,gpu=2", "gpu=0", "storage=251"])
def test_bad_node_lists_are_refused(text):
    with pytest.raises(UsageError) as caught:
        nodes.nodes_of(layout.from_environment({}), text)
    assert (caught.value.code, caught.value.exit_code) == ("KV-LAB-004", ExitCode.USAGE)
