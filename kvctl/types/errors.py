"""Errors with stable codes, and the exit codes of every kvctl command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a kvctl process says to its caller; docs/exit-codes.md is generated from this enum."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CHECK_FAILED = 3
    UNREACHABLE = 4
    PARTIAL = 5
    CHANGES_PENDING = 6
    REFUSED = 7
    LOCKED = 8
    INTERRUPTED = 130


class KvctlError(Exception):
    """An error a user can act on: what, where, why, what to do, with a stable code.

    `code` is permanent once released; docs/errors.md is generated from the subclasses and `CODES`.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, code: str, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.what}"]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.why:
            parts.append(f"  why:   {self.why}")
        if self.fix:
            parts.append(f"  fix:   {self.fix}")
        return "\n".join(parts)

    def as_dict(self) -> dict[str, str | int]:
        """The one JSON shape of an error, on every face."""
        return {
            "code": self.code,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "fix": self.fix,
            "exit_code": int(self.exit_code),
        }


class UsageError(KvctlError):
    """Bad input: a flag, an inventory, a configuration file."""

    exit_code = ExitCode.USAGE


class UnreachableError(KvctlError):
    """A node did not answer, or did not let us in."""

    exit_code = ExitCode.UNREACHABLE


class RefusedError(KvctlError):
    """A rule forbids what was asked for."""

    exit_code = ExitCode.REFUSED


class LockedError(KvctlError):
    """Somebody else is at work on the same thing."""

    exit_code = ExitCode.LOCKED
