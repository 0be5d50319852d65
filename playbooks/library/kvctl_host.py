#!/usr/bin/python
"""Ansible module: kernel settings, modules and fstrim of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kvctl_host
short_description: Kernel settings, modules and the fstrim timer, live and for the next boot
description:
  - Sets sysctls live and in /etc/sysctl.d/90-kvctl.conf, loads modules and lists them in
    /etc/modules-load.d/kvctl.conf, and turns fstrim.timer on or off.
  - A sysctl that is read-only or unknown is a failure, and nothing is changed then.
options:
  state:
    description: V(checked) plans; V(present) sets; V(verified) fails on a difference; V(absent) removes the files.
    type: str
    choices: [checked, present, verified, absent]
    default: present
  sysctls:
    description: Values by key.
    type: dict
    default: {}
  modules:
    description: Kernel modules that must be loaded.
    type: list
    elements: str
    default: []
  fstrim_timer:
    description: Whether fstrim.timer runs; without it the timer is left alone.
    type: bool
author: kvctl
"""

EXAMPLES = r"""
- name: Probe the path MTU
  kvctl_host:
    sysctls:
      net.ipv4.tcp_mtu_probing: "1"
"""

RETURN = r""" # """

from typing import Any, Dict

from ansible.module_utils import kvctl_host
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kvctl_module import answer, diff_of
from ansible.module_utils.kvctl_refused import Refused


def work(module: Any) -> Dict[str, Any]:
    state = module.params["state"]
    if state == "absent":
        files = kvctl_host.remove(dry=module.check_mode)
        return {"changed": bool(files), "diff": diff_of({"files": files}, {"files": []}, "host")}
    wanted = {"sysctls": {key: str(value) for key, value in module.params["sysctls"].items()},
              "modules": module.params["modules"], "fstrim_timer": module.params["fstrim_timer"]}  # fmt: skip
    now = kvctl_host.read(wanted)
    diff = kvctl_host.difference(now, wanted)
    if state == "verified" and diff:
        raise Refused("KV-HOST-010", "the host differs: %s" % diff.after, "run the role's apply")
    kvctl_host.refuse(now, diff)
    if state == "present" and diff and not module.check_mode:
        kvctl_host.apply(wanted, diff)
    return {"changed": state == "present" and bool(diff), "diff": diff_of(diff.before, diff.after, "host")}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["checked", "present", "verified", "absent"], "default": "present"},
            "sysctls": {"type": "dict", "default": {}},
            "modules": {"type": "list", "elements": "str", "default": []},
            "fstrim_timer": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    answer(module, work)


if __name__ == "__main__":
    main()
