"""What a reset, a driver reload or a reboot does to a card: stored becomes running, runtime settings are lost.

After it the host's own boot configuration is in force (`at_boot`), as a site's boot script would set it: nothing that
was set with mlnx_qos, ethtool or sysfs survives on a real card either.
"""

from __future__ import annotations

import copy
from typing import Any

from . import store, tree


def restart(nic: dict[str, Any], at: str = "") -> None:
    """Change `nic` and the files of the tree that belong to it; the caller holds the lock of the state."""
    nic["firmware"]["running"] = nic["firmware"]["stored"]
    for value in nic["nvconfig"].values():
        value["current"] = value["next"]
    at_boot = nic["at_boot"]
    nic["qos"] = copy.deepcopy(at_boot["qos"])
    nic["pause"] = dict(at_boot["pause"])
    store.write_sys("/sys/class/infiniband/%s/fw_ver" % nic["rdma"], nic["firmware"]["running"] + "\n", at)
    for path, text in tree.runtime_files(nic).items():
        store.write_sys(path, text, at)
