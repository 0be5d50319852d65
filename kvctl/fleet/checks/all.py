"""Imports every module of checks, which registers them."""

from kvctl.fleet.checks import (
    cm,
    counters,
    ecn,
    firmware,
    gdr,
    host,
    intel,
    link,
    net,
    nic,
    nvconfig,
    nvme,
    pcie,
    probed,
    qos,
    storage,
    switch,
    unfed,
)

MODULES = (
    cm, counters, ecn, firmware, gdr, host, intel, link, net, nic, nvconfig, nvme, pcie, probed, qos, storage, switch,
    unfed,
)  # fmt: skip
