"""A controller with answers of the real shapes, that can be made to hang or to fail."""

import threading
from typing import Any

from kvctl.types.errors import KvctlError

RUN = "r-20260101-000000-abcd"


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "node": name, "role": "storage", "state": "in-service", "reason": "", "faults": 0, "critical": 0, "worst": "",
        "read_age": 12.0, "error": "", **fields,
    }  # fmt: skip


def finding(name: str, check: str = "qos.pfc", **fields: Any) -> dict[str, Any]:
    return {
        "check": check, "node": name, "subject": "enp65s0f0np0", "verdict": "fail", "severity": "critical",
        "observed": "off", "expected": "priority 3", "why": "", "source": "mlnx_qos -i enp65s0f0np0",
        "evidence": "read-back", "bad": True, "at": 1767225600.0,
        "remedy": {"role": "roce", "text": "turn PFC on for priority 3", "reboot": False, "destroys_data": False},
        **fields,
    }  # fmt: skip


def step(number: int, name: str, *because: str) -> dict[str, Any]:
    return {
        "id": f"s{number:02}", "node": name, "role": "roce", "verb": "apply", "args": {}, "preconditions": {},
        "changes": [{"subject": "enp65s0f0np0", "name": "pfc", "before": "off", "after": "3"}],
        "because": list(because), "uncut": "no", "reboot": False, "cuts_ssh": False, "destroys_data": [],
    }  # fmt: skip


def run(state: str = "running", **fields: Any) -> dict[str, Any]:
    return {
        "id": RUN, "state": state, "started": "2026-01-01T00:00:00.000Z", "ended": None, "plan": "p-1", "steps": 4,
        "done": 1, "failed": 0, "not_done": 3, "changed": 2, **fields,
    }  # fmt: skip


def event(idx: int, kind: str, outcome: str = "ok") -> dict[str, Any]:
    return {
        "idx": idx, "ts": "2026-01-01T00:00:00", "kind": kind, "actor": "unix:root", "actor_tenant": None,
        "tenant": None, "outcome": outcome, "data": {},
    }  # fmt: skip


def answers() -> dict[str, Any]:
    faulty = node("storage2", faults=2, critical=1, worst="qos.pfc enp65s0f0np0")
    return {
        "fleet.status": {"nodes": [faulty, node("storage1", read_age=7200.0), node("gpu1", role="gpu")]},
        "fleet.findings": {"findings": [
            finding("storage2", "host.clock", severity="warning", subject=""), finding("storage2"),
            finding("gpu9", "net.mtu"),
        ]},
        "fleet.plan": {"plan": {
            "id": "p-1", "created": "2026-01-01T00:00:00Z", "facts_at": {"storage2": "2026-01-01T00:00:00Z"},
            "steps": [step(1, "storage2", "qos.pfc"), step(2, "gpu1", "qos.pfc")], "refusals": [],
        }},
        "controller.status": {"site": "paris"},
        "tenant.ls": {"tenants": [
            {"tenant": "acme", "entity": "Acme SA", "state": "active", "sla": "gold"},
            {"tenant": "zeta", "entity": "Zeta AG", "state": "suspended", "sla": "silver"},
        ]},
        "usage.show": {
            "stored": [{"tenant": "acme", "store": "s1", "tier": "flash", "copies": 2, "bytes": 3 << 30}],
            "requests": [{"tenant": "acme", "model": "m", "requests": 7}],
            "stores": [{"store": "s1", "state": "ok", "why": "", "seen_at": None}], "gateways": [],
        },
        "move.ls": {"moves": [{
            "id": "m-1", "tenant": "acme", "state": "running", "source": "flash", "target": "object", "moved": 10,
            "bytes": 1 << 20, "approval_state": "approved", "progress": None,
        }]},
        "approve.ls": {"approvals": [{
            "id": "a-1", "kind": "tier.move", "tenant": "acme", "state": "pending", "requester": "local:ann",
            "required": 2, "yes": 1, "reason": "", "expires": "2026-01-02T00:00:00",
        }]},
        "run.ls": {"runs": [run(), run("failed", id="r-20250101-000000-abcd", failed=1)]},
        "run.show": {**run(), "steps_view": [
            {"id": "s01", "node": "storage2", "role": "roce", "state": "done", "changed": [1], "why": ""},
            {"id": "s02", "node": "gpu1", "role": "roce", "state": "running", "changed": [], "why": ""},
        ]},
        "audit.log": {"size": 2, "events": [event(1, "run.cancelled", "denied"), event(0, "tenant.created")]},
        "store.ls": {"stores": [{"store": "s1", "state": "ok", "seen_at": None, "why": ""}]},
        "run.cancel": run("running"),
        "run.resume": {"said": "under way"},
        "approve.show": {
            "id": "a-1", "kind": "tier.move", "tenant": "acme", "state": "pending", "requester": "local:ann",
            "required": 2, "reason": "", "expires": "2026-01-02T00:00:00", "payload_sha256": "ab" * 32, "votes": [],
            "payload": {"source": "flash", "target": "object"}, "impact": {"chunks": 10}, "history": [],
        },
        "approve.vote": {"approval": "a-1", "kind": "tier.move", "state": "approved"},
        "tier.propose": {
            "move": "m-2", "approval": "a-2",
            "impact": {"chunks": 10, "bytes": 2048, "stores": {"s1": 10}, "holds": []},
            "decisions": [{"store": "s1", "tier": "object", "verdict": "allow", "rule": "eu-only"}], "warnings": [],
        },
    }  # fmt: skip


class Stub:
    """`hang`: no call returns until `released`. `error`: raised by every call."""

    def __init__(self) -> None:
        self.answers = answers()
        self.asked: list[tuple[str, Any]] = []
        self.hang = False
        self.error: KvctlError | None = None
        self.refused: dict[str, KvctlError] = {}
        self.released = threading.Event()

    def call(self, name: str, request: Any) -> dict[str, Any]:
        self.asked.append((name, request))
        if self.hang:
            self.released.wait(30)
        if error := self.error or self.refused.get(name):
            raise error
        return self.answers[name]

    def count(self, name: str) -> int:
        return sum(asked == name for asked, _ in self.asked)
