"""What the hardware does when the host boots, before anything else runs. Arguments: "boot" or "remount"."""

from __future__ import annotations

import sys

from . import devices, mounting, store, tree
from .restart import restart


def main(argv: list[str]) -> int:
    booting = argv != ["remount"]
    with store.changing() as state:
        if booting:
            for nic in state["nics"]:
                restart(nic)
        tree.build(state)
        mounting.mount_all(state)
    devices.refresh(reload=not booting)
    return 0
