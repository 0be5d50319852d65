#!/usr/bin/python
"""Ansible module: kvnoded on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kvctl_node
short_description: kvnoded, its unit, and the class that it keeps
description:
  - Installs kvnoded as one archive that the action plugin of the same name builds on the controller, its hardened
    unit, and the owned class with its boot unit.
  - An interface that differs from its class is refused, because kvnoded would change the network unconfirmed.
options:
  state:
    description: V(checked) plans; V(present) installs; V(verified) asks kvnoded; V(absent) uninstalls.
    type: str
    choices: [checked, present, verified, absent]
    default: present
  interfaces:
    description: Interfaces whose class kvnoded keeps, as in the roce role.
    type: list
    elements: dict
    default: []
  version:
    description: Version that kvnoded must say it is.
    type: str
    default: ""
  sha256:
    description: Checksum of the archive; the action plugin gives it.
    type: str
    default: ""
  archive:
    description: Path of the archive on the node; the action plugin copies it.
    type: str
    default: ""
author: kvctl
"""

EXAMPLES = r"""
- name: Install kvnoded
  kvctl_node:
    version: 0.1.0
"""

RETURN = r"""
needs_archive:
  description: The archive must be copied to the node first.
  returned: when it is missing or differs
  type: bool
"""

from typing import Any, Dict

from ansible.module_utils import kvctl_node, kvctl_roce_job
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kvctl_module import answer, diff_of
from ansible.module_utils.kvctl_refused import Refused

ENTRY = kvctl_roce_job.ENTRY


def present(module: Any) -> Dict[str, Any]:
    params = module.params
    if not module.check_mode:  # in check mode the roce role has left a gap on purpose
        kvctl_node.refuse_unsettled(params["interfaces"])
    found = kvctl_node.gaps(params["sha256"], params["interfaces"], ENTRY)
    wanted = {"archive": params["sha256"], "running": "this archive", "enabled": "yes"}
    result = {"changed": bool(found), "diff": diff_of(found, {k: wanted.get(k, "as wanted") for k in found}, "kvnoded")}
    if module.check_mode or not found or params["state"] == "checked":
        return dict(result, changed=bool(found) and params["state"] == "present")
    archive = b""
    if "archive" in found:
        if not params["archive"]:
            return dict(result, needs_archive=True)
        with open(params["archive"], "rb") as stream:
            archive = stream.read()
    kvctl_node.install(archive, params["interfaces"], found, ENTRY)
    return result


def verified(module: Any) -> Dict[str, Any]:
    found = kvctl_node.gaps(module.params["sha256"], module.params["interfaces"], ENTRY)
    if found:
        raise Refused("KV-NODE-010", "kvnoded is not as wanted: %s" % found, "run the role's apply")
    health = kvctl_node.await_answer(module.params["sha256"])
    if module.params["version"] and health.get("version") != module.params["version"]:
        raise Refused("KV-NODE-011", "kvnoded is %s, wanted %s" % (health.get("version"), module.params["version"]))
    return {"changed": False, "health": health}


def absent(module: Any) -> Dict[str, Any]:
    gone = kvctl_node.remove(module.params["interfaces"], dry=module.check_mode)
    return {"changed": bool(gone), "diff": diff_of({"present": gone}, {"present": []}, "kvnoded")}


STATES = {"checked": present, "present": present, "verified": verified, "absent": absent}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "present"},
            "interfaces": {"type": "list", "elements": "dict", "default": []},
            "version": {"type": "str", "default": ""},
            "sha256": {"type": "str", "default": ""},
            "archive": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, STATES[module.params["state"]])


if __name__ == "__main__":
    main()
