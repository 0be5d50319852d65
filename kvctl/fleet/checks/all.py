"""Imports every module of checks, which registers them."""

from kvctl.fleet.checks import (
    certificates,
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
    certificates, cm, counters, ecn, firmware, gdr, host, intel, link, net, nic, nvconfig, nvme, pcie, probed, qos,
    storage, switch, unfed,
)  # fmt: skip
