"""What the controller answers, the same on every face. `document()` is the versioned JSON contract."""

from dataclasses import asdict, dataclass
from typing import Any

from kvctl.types.errors import ExitCode, KvctlError
from kvctl.types.findings import Finding, Severity, Verdict
from kvctl.types.plans import Plan


@dataclass(frozen=True, slots=True)
class Unreachable:
    node: str
    code: str
    why: str
    fix: str

    @classmethod
    def of(cls, node: str, error: KvctlError) -> "Unreachable":
        return cls(node, error.code, error.why or error.what, error.fix)


@dataclass(frozen=True, slots=True)
class CheckReport:
    site: str
    at: str
    lab: bool
    nodes: tuple[str, ...]  # those that were asked for
    findings: tuple[Finding, ...]  # worst first
    unreachable: tuple[Unreachable, ...] = ()
    seconds: float = 0.0

    @property
    def bad(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.bad)

    @property
    def exit_code(self) -> ExitCode:
        if self.bad:
            return ExitCode.CHECK_FAILED
        if self.unreachable:
            return ExitCode.UNREACHABLE if len(self.unreachable) == len(self.nodes) else ExitCode.PARTIAL
        return ExitCode.OK

    def counts(self) -> dict[str, int]:
        return {str(v): sum(f.verdict is v for f in self.findings) for v in Verdict}

    def document(self) -> dict[str, Any]:
        return {
            "schema": "kvctl.check/1",
            "site": self.site,
            "lab": self.lab,
            "at": self.at,
            "seconds": round(self.seconds, 3),
            "nodes": list(self.nodes),
            "summary": self.counts(),
            "findings": [asdict(f) | {"bad": f.bad} for f in self.findings],
            "unreachable": [asdict(u) for u in self.unreachable],
            "exit_code": int(self.exit_code),
        }


@dataclass(frozen=True, slots=True)
class PlanReport:
    plan: Plan
    check: CheckReport

    def document(self) -> dict[str, Any]:
        return {"schema": "kvctl.plan/1", "plan": asdict(self.plan), "check": self.check.document()}


def critical(finding: Finding) -> bool:
    """True when this finding alone keeps a node out of service."""
    return finding.bad and finding.severity is Severity.CRITICAL
