"""Each fault makes something wrong in the simulated hardware, and mending makes it as it was."""

import copy

import pytest

from kvctl.fleet.lab import faults
from kvctl.fleet.lab.standins import store

SIMULATED = [fault for fault in faults.FAULTS.values() if fault.plant is not None]


@pytest.mark.parametrize("fault", SIMULATED, ids=lambda f: f.name)
def test_a_mended_node_is_as_it_was(hardware, fault):
    before = copy.deepcopy(store.load(str(hardware)))
    faults.apply(fault, str(hardware), mend=False)
    broken = store.load(str(hardware))
    assert broken != before
    faults.apply(fault, str(hardware), mend=True)
    after = store.load(str(hardware))
    for drive in after["drives"]:
        drive.pop("gone", None)
    after["nics"][0].pop("port_up", None)
    assert after == before


def test_initial_faults_exist_and_each_names_a_check():
    assert {name for _, name in faults.INITIAL} == {"mtu", "nic-firmware", "pfc-off", "trust-pcp", "lba-512"}
    assert all(faults.FAULTS[name].check for _, name in faults.INITIAL)


def test_a_fault_outlives_a_reboot(hardware):
    from kvctl.fleet.lab.standins import restart

    faults.apply(faults.FAULTS["pfc-off"], str(hardware), mend=False)
    with store.changing(str(hardware)) as state:
        restart.restart(state["nics"][0], str(hardware))
    assert store.load(str(hardware))["nics"][0]["qos"]["pfc"] == [0] * 8
