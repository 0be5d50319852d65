#!/usr/bin/python
"""Ansible module: cache drives, by serial."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kvctl_nvme
short_description: LBA format, file system, mount and queue of NVMe cache drives
description:
  - Drives are known by serial and looked up at every step. A drive that carries a file system, a RAID or LVM signature,
    a partition table or unknown data is refused unless C(may_format) is true for it; a drive that is mounted or held
    is refused in any case.
  - Format, mkfs and sanitize run as a transient unit that is never cut. They cannot be undone.
options:
  state:
    description: V(checked) plans; V(prepared) closes the gap; V(verified) fails on a gap; V(unmounted) takes the mount
      and its files away; V(sanitized) purges the drives in O(approved) and writes a record.
    type: str
    choices: [checked, prepared, verified, unmounted, sanitized]
    default: prepared
  drives:
    description: Drives with serial, pci, lba, layout, mount, discard, may_format and may_mkfs, as in the nvme role.
    type: list
    elements: dict
    required: true
  approved:
    description: Serials that may be sanitized.
    type: list
    elements: str
    default: []
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
    default: 7200
author: kvctl
"""

EXAMPLES = r"""
- name: Prepare the cache drives
  kvctl_nvme:
    drives: "{{ drives }}"
    run: "{{ kvctl_run }}"
    step: "{{ kvctl_step }}"
"""

RETURN = r"""
detail:
  description: What the unit did.
  returned: when a unit ran
  type: str
"""

import os
from typing import Any, Dict, List

from ansible.module_utils import kvctl_job, kvctl_nvme, kvctl_nvme_job, kvctl_nvme_mount, kvctl_nvme_state
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kvctl_module import answer, diff_of
from ansible.module_utils.kvctl_nvme_sanitize import refuse as refuse_sanitize
from ansible.module_utils.kvctl_refused import Refused


def plans(drives: List[Dict[str, Any]]) -> Dict[str, Any]:
    return {wanted["serial"]: kvctl_nvme.plan(wanted, kvctl_nvme_state.read(wanted["serial"])) for wanted in drives}


def planned(drives: List[Dict[str, Any]]) -> Dict[str, Any]:
    found = plans(drives)
    before = {serial: plan.before for serial, plan in found.items() if plan.after}
    after = {serial: plan.after for serial, plan in found.items() if plan.after}
    return {
        "destroys": [serial for serial, plan in found.items() if plan.destroys],
        "result": {"changed": bool(after), "diff": diff_of(before, after, "drives")},
    }


def checked(module: Any) -> Dict[str, Any]:
    if kvctl_job.begun(module.params["run"], module.params["step"]):
        return {"changed": False, "reattached": True}
    return dict(planned(module.params["drives"])["result"], changed=False)


def run_job(module: Any, key: str, payload: Dict[str, Any]) -> Dict[str, Any]:
    job: Dict[str, Any] = kvctl_job.run_job(key, kvctl_nvme_job.ENTRY, payload, module.params["timeout"])
    return dict(kvctl_job.succeeded(job))


def prepared(module: Any) -> Dict[str, Any]:
    drives = module.params["drives"]
    key = kvctl_job.key_of(module.params["run"], module.params["step"])
    attach = kvctl_job.read_result(key) is not None
    plan = {"result": {"changed": True, "reattached": True}} if attach else planned(drives)
    if not attach and (module.check_mode or not plan["result"]["changed"]):
        return dict(plan["result"])
    detail = ""
    if attach or plan["destroys"]:
        detail = run_job(module, key, {"drives": drives})["detail"]
    for wanted in drives:
        kvctl_nvme_mount.settle(wanted)
    return dict(plan["result"], detail=detail)


def verified(module: Any) -> Dict[str, Any]:
    plan = planned(module.params["drives"])
    if plan["result"]["changed"]:
        raise Refused(
            "KV-NVME-024", "drives differ: %s" % plan["result"]["diff"]["after"].strip(), "run the role's apply"
        )
    return dict(plan["result"], changed=False)


def unmounted(module: Any) -> Dict[str, Any]:
    changed = [w["serial"] for w in module.params["drives"] if kvctl_nvme_mount.take_away(w, dry=module.check_mode)]
    return {"changed": bool(changed), "diff": diff_of({"mounted": changed}, {"mounted": []}, "drives")}


def sanitized(module: Any) -> Dict[str, Any]:
    key = kvctl_job.key_of(module.params["run"], module.params["step"])
    serials = [wanted["serial"] for wanted in module.params["drives"]]
    if kvctl_job.read_result(key) is None:
        for serial in serials:
            namespace = kvctl_nvme_state.find(serial)[1]
            content = kvctl_nvme_state.read_content(os.path.join("/dev", namespace), namespace)[0]
            refuse_sanitize(serial, content, module.params["approved"])
    result = {"changed": True, "diff": diff_of({"sanitize": []}, {"sanitize": serials}, "drives")}
    if module.check_mode:
        return result
    payload = {"drives": module.params["drives"], "approved": module.params["approved"], "sanitize": True}
    return dict(result, detail=run_job(module, key, payload)["detail"])


STATES = {
    "checked": checked, "prepared": prepared, "verified": verified, "unmounted": unmounted, "sanitized": sanitized,
}  # fmt: skip


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "prepared"},
            "drives": {"type": "list", "elements": "dict", "required": True},
            "approved": {"type": "list", "elements": "str", "default": []},
            "run": {"type": "str", "default": ""},
            "step": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 7200},
        },
        supports_check_mode=True,
    )
    answer(module, STATES[module.params["state"]])


if __name__ == "__main__":
    main()
