"""Findings: what a check says of one subject on one node."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Verdict(StrEnum):
    """FOLLOWS: wrong only because of another finding that names the cause; it counts in no exit code."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    WAIVED = "waived"
    FOLLOWS = "follows"
    NOT_APPLICABLE = "not-applicable"


class Evidence(StrEnum):
    """How far a verdict reaches: a stand-in's answer, what the kernel or device says, or what traffic showed."""

    SIMULATED = "simulated"
    READ_BACK = "read-back"
    EFFECT = "effect"


@dataclass(frozen=True, slots=True)
class Remedy:
    """The role and verb that put it right; `role` empty means hands or a vendor must."""

    role: str = ""  # roce | nic_firmware | nvme | host | node
    text: str = ""  # what a person reads
    reboot: bool = False
    destroys_data: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    check: str  # qos.pfc.host
    node: str
    subject: str  # enp65s0f0np0, a drive's serial, "" for the node itself
    verdict: Verdict
    severity: Severity
    observed: str = ""  # texts for people; `-` when there is nothing to show
    expected: str = ""
    why: str = ""  # for unknown, waived, follows, not-applicable
    source: str = ""  # where the observed value was read
    evidence: Evidence = Evidence.READ_BACK
    remedy: Remedy = Remedy()

    @property
    def bad(self) -> bool:
        """True when this finding alone makes `kvctl check` exit 3."""
        if self.verdict is Verdict.FAIL:
            return self.severity is not Severity.INFO
        return self.verdict is Verdict.UNKNOWN and self.severity is Severity.CRITICAL
