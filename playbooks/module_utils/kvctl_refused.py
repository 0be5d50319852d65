"""The one error of the node's code: a stable code, what is wrong, and what to do."""

from __future__ import annotations

from typing import Dict

# What failed, where the rest of the message is what a tool said.
FAILED = {
    "KV-ROCE-020": "a setting of the class was not made",
    "KV-NET-023": "the watch over the change was not set up",
    "KV-HOST-004": "a kernel module was not loaded",
    "KV-HOST-006": "a timer was not switched",
    "KV-JOB-006": "a job on the node was cut short",
    "KV-JOB-008": "a job on the node failed by itself",
    "KV-JOB-009": "a job on the node failed",
    "KV-FW-011": "the image was not burnt",
    "KV-NVME-020": "the drive was not formatted",
    "KV-NVME-021": "the file system was not made",
    "KV-NVME-033": "the drive was not sanitized",
    "KV-NVME-025": "the drive's queue was not set",
    "KV-NVME-026": "the drive's file system was not mounted",
    "KV-NVME-027": "the drive's file system was not unmounted",
}


class Refused(Exception):
    """Nothing was changed, or what was changed has been put back, unless `what` says otherwise."""

    def __init__(self, code: str, what: str, fix: str = "") -> None:
        super().__init__("%s: %s%s" % (code, what, ("; fix: " + fix) if fix else ""))
        self.code = code
        self.what = what
        self.fix = fix

    def as_dict(self) -> Dict[str, str]:
        return {"code": self.code, "what": self.what, "fix": self.fix}
