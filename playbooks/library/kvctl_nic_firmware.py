#!/usr/bin/python
"""Ansible module: firmware of network adapters, by PSID."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kvctl_nic_firmware
short_description: Firmware of network adapters, stored against running
description:
  - Reads the stored and the running version with mstflint, flint or devlink, burns the pinned image and resets the
    adapter. Burn and reset run as a transient unit that is never cut.
  - An image is used only for the PSID that it is made for; virtual functions are refused. A burn cannot be undone.
options:
  state:
    description: V(checked) plans; V(burned) brings devices to their pins; V(verified) fails unless the pin runs.
    type: str
    choices: [checked, burned, verified]
    default: burned
  devices:
    description: Devices with netdev, pci, psid, version, image and sha256, as in the nic_firmware role.
    type: list
    elements: dict
    required: true
  run:
    description: Run id; with the step it names the unit.
    type: str
    default: ""
  step:
    description: Step id.
    type: str
    default: ""
  timeout:
    description: Seconds to wait for the unit; it goes on when they are over.
    type: float
    default: 3600
author: kvctl
"""

EXAMPLES = r"""
- name: Burn the pinned firmware
  kvctl_nic_firmware:
    devices: "{{ devices }}"
    run: "{{ kvctl_run }}"
    step: "{{ kvctl_step }}"
"""

RETURN = r"""
images:
  description: Images that the node needs before a burn, by sha256.
  returned: checked
  type: dict
reboot_required:
  description: True when the stored version runs only after a reboot.
  returned: always
  type: bool
"""

from typing import Any, Dict

from ansible.module_utils import kvctl_job, kvctl_nic_firmware_job
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kvctl_module import answer, diff_of
from ansible.module_utils.kvctl_nic_firmware import decide, read
from ansible.module_utils.kvctl_refused import Refused


def plan(module: Any) -> Dict[str, Any]:
    before, after, images = {}, {}, {}
    for device in module.params["devices"]:
        flash = read(device["pci"])
        actions = decide(device, flash)
        if actions:
            before[device["pci"]] = {"stored": flash.stored, "running": flash.running}
            after[device["pci"]] = {"stored": device["version"], "running": device["version"]}
        if actions.burn:
            images[device["sha256"]] = device["image"]
    return {
        "changed": bool(after), "images": images, "reboot_required": False,
        "diff": diff_of(before, after, "firmware"),
    }  # fmt: skip


def checked(module: Any) -> Dict[str, Any]:
    if kvctl_job.begun(module.params["run"], module.params["step"]):
        return {"changed": False, "reattached": True, "images": {}}
    return dict(plan(module), changed=False)


def burned(module: Any) -> Dict[str, Any]:
    key = kvctl_job.key_of(module.params["run"], module.params["step"])
    result: Dict[str, Any] = {"reattached": True}
    if kvctl_job.read_result(key) is None:
        result = plan(module)
        if module.check_mode or not result["changed"]:
            return result
    payload = {"devices": module.params["devices"]}
    job = kvctl_job.run_job(key, kvctl_nic_firmware_job.ENTRY, payload, module.params["timeout"])
    kvctl_job.succeeded(job)
    return dict(result, changed=job["changed"], reboot_required=job["reboot_required"], detail=job["detail"])


def verified(module: Any) -> Dict[str, Any]:
    for device in module.params["devices"]:
        flash = read(device["pci"])
        if flash.psid != device["psid"] or flash.running != device["version"]:
            stored = flash.stored == device["version"]
            raise Refused(
                "KV-FW-020",
                "%s runs %s (PSID %s), wanted %s" % (device["pci"], flash.running, flash.psid, device["version"]),
                "reboot the node: the version is stored" if stored else "run the role's apply",
            )
    return {"changed": False, "reboot_required": False}


STATES = {"checked": checked, "burned": burned, "verified": verified}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "burned"},
            "devices": {"type": "list", "elements": "dict", "required": True},
            "run": {"type": "str", "default": ""},
            "step": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 3600},
        },
        supports_check_mode=True,
    )
    answer(module, STATES[module.params["state"]])


if __name__ == "__main__":
    main()
