"""The first process of a lab host: brings the hardware up, then becomes systemd.

Before systemd, because it decides at its start whether it has device units: only when /sys is writable, and with what
the udev database says then. Only the empty tmpfs that holds the parts of /sys is made writable, not the parts.
"""

from __future__ import annotations

import os

from . import devices, mounting, store, tree
from .restart import restart

SYSTEMD = "/usr/lib/systemd/systemd"


def main(argv: list[str]) -> int:
    """Power on. Ends only when the hardware cannot be set up; the reason is on the console."""
    mounting.make_top_writable()
    with store.changing() as state:
        for nic in state["nics"]:
            restart(nic)
        tree.build(state)
        mounting.mount_all(state)
    devices.refresh(reload=False)
    # The merged tree is an overlay; without this systemd takes only a sysfs for one.
    os.execve(SYSTEMD, [SYSTEMD, *argv], {**os.environ, "SYSTEMD_DEVICE_VERIFY_SYSFS": "0"})


def replug(argv: list[str]) -> int:
    """Show a changed state on a running host, such as a pulled drive."""
    with store.changing() as state:
        tree.build(state)
        mounting.mount_all(state)
    devices.refresh()
    return 0
