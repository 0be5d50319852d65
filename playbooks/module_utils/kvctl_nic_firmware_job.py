"""What runs as a unit for the nic_firmware role: burn, then reset; never cut, never repeated."""

from __future__ import annotations

from typing import Any, Dict, List

from .kvctl_command import execute, run
from .kvctl_job import Report
from .kvctl_nic_firmware import Actions, Flash, burn_commands, check_image, decide, read, reset_command
from .kvctl_refused import Refused

ENTRY = "kvctl_nic_firmware_job"
BURN_SECONDS = 1800.0


def work(payload: Dict[str, Any], report: Report) -> Dict[str, Any]:
    """Bring every device of the payload to its pin; the ports of one card share a flash, so each is read afresh."""
    changed = False
    waiting: List[str] = []
    for device in payload["devices"]:
        flash = read(device["pci"])
        actions = decide(device, flash)
        if actions.burn:
            check_image(device, flash)
            report(detail="burning %s into %s" % (device["version"], device["pci"]), changed=True)
            execute(burn_commands(device, flash), "KV-FW-011", BURN_SECONDS)
            changed = True
            stored = read(device["pci"]).stored
            if stored != device["version"]:
                raise Refused(
                    "KV-FW-012", "%s stores %s after the burn" % (device["pci"], stored), "see the tool's log"
                )
        if actions.reset:
            report(detail="resetting " + device["pci"])
            changed = reset(device, flash, actions, waiting) or changed
    detail = "reboot needed by %s" % ", ".join(waiting) if waiting else "the pinned versions run"
    return {"changed": changed, "reboot_required": bool(waiting), "detail": detail}


def reset(device: Dict[str, Any], flash: Flash, actions: Actions, waiting: List[str]) -> bool:
    """Make the stored version run; a platform that supports no reset leaves the device waiting for a reboot."""
    command = reset_command(device, flash)
    if command is not None and run(command["argv"], 600).rc == 0 and read(device["pci"]).running == device["version"]:
        return True
    waiting.append(device["pci"])
    return False


def verb(words: List[str]) -> int:
    return 2
