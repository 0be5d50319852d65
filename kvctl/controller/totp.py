"""One-time codes of authenticator apps (RFC 6238: SHA-1, six digits, 30 seconds), and recovery codes beside them."""

import hashlib
import hmac
import secrets

import pyotp

STEP = 30  # seconds of one code
EITHER_SIDE = 1  # codes before and after the present one: clocks of telephones are not ours
RECOVERY = 10  # codes
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
GROUPS, LENGTH = 3, 5  # of a recovery code: 74 bits


def new_secret() -> str:
    return pyotp.random_base32()


def uri(secret: str, name: str, site: str) -> str:
    """What an authenticator app reads, as text or as a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=name, issuer_name=f"kvctl {site}")


def step_of(secret: str, code: str, now: float) -> int | None:
    """Which 30 seconds a code is of; None when it is none of those around `now` (Unix seconds)."""
    made, found, given = pyotp.HOTP(secret), None, code.encode(errors="replace")
    for step in range(int(now) // STEP - EITHER_SIDE, int(now) // STEP + EITHER_SIDE + 1):
        if step >= 0 and hmac.compare_digest(made.at(step).encode(), given):
            found = step
    return found


def recovery_codes() -> list[str]:
    return [
        "-".join("".join(secrets.choice(LETTERS) for _ in range(LENGTH)) for _ in range(GROUPS))
        for _ in range(RECOVERY)
    ]


def plain(code: str) -> str:
    """A code as it was typed, in its one form."""
    return "".join(code.split()).replace("-", "").lower()[:64]


def digest(recovery: str) -> str:
    return hashlib.sha256(plain(recovery).encode()).hexdigest()
