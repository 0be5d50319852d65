"""The one error of the node's code: a stable code, what is wrong, and what to do."""

from __future__ import annotations

from typing import Dict


class Refused(Exception):
    """Nothing was changed, or what was changed has been put back, unless `what` says otherwise."""

    def __init__(self, code: str, what: str, fix: str = "") -> None:
        super().__init__("%s: %s%s" % (code, what, ("; fix: " + fix) if fix else ""))
        self.code = code
        self.what = what
        self.fix = fix

    def as_dict(self) -> Dict[str, str]:
        return {"code": self.code, "what": self.what, "fix": self.fix}
