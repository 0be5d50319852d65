#!/usr/bin/python
"""Ansible module: the lossless class of a node's RoCE interfaces."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kvctl_roce
short_description: Lossless RoCE class of network interfaces, commit-confirmed
description:
  - Compares MTU, pause, DSCP trust and map, PFC, ETS, receive buffers, ECN and traffic marking with what is wanted and
    closes the gap with mlnx_qos, dcb, niccli or lldpad, by driver and by what is installed.
  - The change runs as a transient unit with a timer that puts everything back unless a new connection confirms it.
    The action plugin of the same name makes that connection.
options:
  state:
    description:
      - V(checked) plans and changes nothing; V(applied) closes the gap; V(verified) fails when a gap is left;
        V(absent) stops owning the interfaces and leaves their live state.
      - V(probe), V(confirm) and V(outcome) are the steps of the confirm.
    type: str
    choices: [checked, applied, verified, absent, probe, confirm, outcome]
    default: applied
  interfaces:
    description: Interfaces with their wanted class, as in the roce role.
    type: list
    elements: dict
    default: []
  run:
    description: Run id; with the step it names the unit.
    type: str
    default: ""
  step:
    description: Step id.
    type: str
    default: ""
  key:
    description: Name of the pending change, for probe, confirm and outcome.
    type: str
    default: ""
  confirm_timeout:
    description: Seconds after which an unconfirmed change is put back.
    type: float
    default: 45
  payload:
    description: Bytes moved to the node and, reversed, back by V(probe).
    type: str
    default: ""
author: kvctl
"""

EXAMPLES = r"""
- name: Apply the class
  kvctl_roce:
    interfaces: "{{ interfaces }}"
    run: "{{ kvctl_run }}"
    step: "{{ kvctl_step }}"
"""

RETURN = r"""
pending:
  description: Name of the change that waits for its confirm.
  returned: when a change was started
  type: str
unknown:
  description: Values that could not be read or set, by interface, with the reason.
  returned: always
  type: dict
"""

from typing import Any, Dict, List

from ansible.module_utils import kvctl_class, kvctl_commit, kvctl_connection, kvctl_job, kvctl_roce_job
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kvctl_module import answer, diff_of
from ansible.module_utils.kvctl_refused import Refused

ENTRY = kvctl_roce_job.ENTRY


def plan_all(interfaces: List[Dict[str, Any]]) -> Dict[str, Any]:
    planned = [kvctl_class.plan(interface) for interface in interfaces]
    gap = kvctl_roce_job.describe(planned)
    missing = {} if gap else kvctl_class.missing(interfaces, ENTRY)
    before, after = dict(gap.before), dict(gap.after)
    if missing:
        before["owned"], after["owned"] = missing, dict.fromkeys(missing, "owned")
    return {
        "gap": gap, "missing": missing,
        "result": {
            "changed": bool(gap or missing),
            "diff": diff_of(before, after, "class of " + ", ".join(item.netdev for item in planned)),
            "unknown": {item.netdev: item.observed.unknown for item in planned},
            "backend": {item.netdev: item.backend for item in planned},
        },
    }  # fmt: skip


def applied(module: Any) -> Dict[str, Any]:
    interfaces = module.params["interfaces"]
    key = kvctl_job.key_of(module.params["run"], module.params["step"])
    if kvctl_job.read_result(key) is None:
        plan = plan_all(interfaces)
        if module.check_mode or not plan["result"]["changed"]:
            return dict(plan["result"])
        if not plan["gap"]:
            kvctl_class.own(interfaces, ENTRY)
            return dict(plan["result"])
        result = plan["result"]
    else:
        result = {"changed": True, "reattached": True}
    payload = {"interfaces": interfaces, "confirm_timeout": module.params["confirm_timeout"]}
    job = kvctl_job.run_job(key, ENTRY, payload, 600, until=("applied",))
    if job["state"] == "running":
        return dict(result, pending=key, connection=kvctl_connection.current())
    return ended(job, result)


def ended(job: Dict[str, Any], result: Dict[str, Any]) -> Dict[str, Any]:
    kvctl_job.succeeded(job)
    return dict(result, changed=job["changed"], detail=job["detail"])


def probe(module: Any) -> Dict[str, Any]:
    return {"changed": False, "echo": module.params["payload"][::-1], "connection": kvctl_connection.current()}


def confirm(module: Any) -> Dict[str, Any]:
    key = module.params["key"]
    interfaces = kvctl_commit.confirm(key)
    result = ended(kvctl_job.wait(key, 60), {"changed": True})
    if kvctl_class.missing(interfaces, ENTRY):
        kvctl_class.own(interfaces, ENTRY)
    return result


def outcome(module: Any) -> Dict[str, Any]:
    return ended(kvctl_job.wait(module.params["key"], 300), {"changed": True})


def verified(module: Any) -> Dict[str, Any]:
    plan = plan_all(module.params["interfaces"])
    if plan["gap"]:
        raise Refused("KV-ROCE-023", "the class differs: %s" % plan["gap"].after, "run the role's apply")
    if plan["missing"]:
        raise Refused("KV-ROCE-024", "the class would not survive a boot: %s" % plan["missing"], "run the role's apply")
    return dict(plan["result"], changed=False)


def absent(module: Any) -> Dict[str, Any]:
    netdevs = [interface["netdev"] for interface in module.params["interfaces"]]
    owned = [netdev for netdev in netdevs if netdev in kvctl_class.owned()]
    if owned and not module.check_mode:
        kvctl_class.disown(netdevs)
    return {"changed": bool(owned), "diff": diff_of({"owned": owned}, {"owned": []}, kvctl_class.CLASS)}


def checked(module: Any) -> Dict[str, Any]:
    if kvctl_job.begun(module.params["run"], module.params["step"]):
        return {"changed": False, "reattached": True}
    return dict(plan_all(module.params["interfaces"])["result"], changed=False)


STATES = {
    "checked": checked, "applied": applied, "verified": verified, "absent": absent,
    "probe": probe, "confirm": confirm, "outcome": outcome,
}  # fmt: skip


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "applied"},
            "interfaces": {"type": "list", "elements": "dict", "default": []},
            "run": {"type": "str", "default": ""},
            "step": {"type": "str", "default": ""},
            "key": {"type": "str", "default": "", "no_log": False},
            "confirm_timeout": {"type": "float", "default": 45},
            "payload": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, STATES[module.params["state"]])


if __name__ == "__main__":
    main()
