"""ID tokens: whose they are, when everything about them is right (OpenID Connect Core 1.0, 3.1.3.7). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import BadSignatureError, ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import JWKRegistry, Key, RSAKey

from kvctl.controller.identities import Identity, is_subject
from kvctl.types.errors import RefusedError

LEEWAY = 60  # seconds that the provider's clock and this one may differ
RSA_BITS = 2048
KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC"}  # an algorithm's first letters -> the key it takes
WORDS = {
    "algorithm": "it is signed by an algorithm that is not allowed here",
    "at_hash": "it belongs to another access token",
    "aud": "it is for somebody else",
    "auth_time": "when its owner signed in there is not a time, or is to come",
    "azp": "it was issued to somebody else",
    "exp": "its time is over",
    "form": "it is no ID token",
    "iat": "it was not issued just now",
    "iss": "another issuer made it",
    "key": "it is signed by a key that the provider does not publish",
    "nonce": "it belongs to another sign-in",
    "signature": "its signature is not the provider's",
    "sub": "its subject is none",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say. `began`: Unix seconds at which its owner was sent to the provider."""

    issuer: str
    client_id: str
    algorithms: tuple[str, ...]
    nonce: str
    began: float


@dataclass(frozen=True, slots=True)
class Proof:
    """Somebody whom the provider has signed in. `at`: when, in Unix seconds, `acr`: how; None: it does not say."""

    identity: Identity
    at: float | None
    acr: str | None = None


class DeniedError(RefusedError):
    """What came back from the provider does not let anybody in. `reason`: its class, for the log; never a token."""

    def __init__(self, reason: str, code: str, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(code, what, where=where, why=why, fix=fix)
        self.reason = reason


class UnknownKeyError(Exception):
    """The keys that were given have none that the token names: they may have been read before it was made."""


def believed(token: str, keys: Sequence[Mapping[str, Any]], expected: Expected, access: str, now: float) -> Proof:
    """Who the token is about. DeniedError KV-API-084; UnknownKeyError for a key that is not among `keys` (JWKs)."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, RecursionError) as error:
        raise denied("form") from error
    algorithm = header.get("alg")
    if algorithm not in expected.algorithms:
        raise denied("algorithm")
    fitting = candidates(keys, algorithm, header.get("kid"))
    if not fitting:
        raise UnknownKeyError
    # Without a key's name it would be a guess which of several is meant.
    if len(fitting) > 1 and header.get("kid") is None:
        raise denied("key")
    claims = verified(token, fitting[0], algorithm)
    check(claims, header, expected, access, now)
    acr = claims.get("acr")
    return Proof((claims["iss"], claims["sub"]), claims.get("auth_time"), acr if isinstance(acr, str) else None)


def candidates(keys: Sequence[Mapping[str, Any]], algorithm: str, kid: object) -> list[Key]:
    """Public keys of the algorithm's kind, with this name when there is one. What is no such key is passed over."""
    found = []
    for jwk in keys:
        named = kid is None or jwk.get("kid") == kid
        if named and jwk.get("kty") == KINDS[algorithm[:2]] and jwk.get("use", "sig") == "sig":
            if jwk.get("alg", algorithm) != algorithm:
                continue
            try:
                key = JWKRegistry.import_key(dict(jwk))
            except (JoseError, ValueError, TypeError):
                continue
            if not isinstance(key, RSAKey) or key.public_key.key_size >= RSA_BITS:
                found.append(key)
    return found


def verified(token: str, key: Key, algorithm: str) -> dict[str, Any]:
    # A header that nobody here knows is passed over, as RFC 7515 has it; `crit` is not.
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    try:
        return jwt.decode(token, key, registry=registry).claims
    except BadSignatureError as error:
        raise denied("signature") from error
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise denied("form") from error


def check(
    claims: dict[str, Any], header: Mapping[str, Any], expected: Expected, access: str, now: float
) -> None:  # fmt: skip
    essential = {name: {"essential": True} for name in ("sub", "exp", "iat", "nonce")}
    options = {
        **essential, "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
    }  # fmt: skip
    params = {"nonce": expected.nonce, "client_id": expected.client_id, "access_token": access}
    try:
        CodeIDToken(claims, header, options, params).validate(now=int(now), leeway=LEEWAY)
    except ExpiredTokenError as error:
        raise denied("exp") from error
    except ClaimError as error:
        raise denied(str(error.claim).split(",")[0]) from error
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise denied("form") from error
    if not is_subject(claims["sub"]):
        raise denied("sub")
    if claims["iat"] < expected.began - LEEWAY:
        raise denied("iat")
    at = claims.get("auth_time")
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float) or not at <= now + LEEWAY):
        raise denied("auth_time")


def denied(reason: str) -> DeniedError:
    return DeniedError(
        reason, "KV-API-084", "what the OpenID provider says about you is not believed",
        why=WORDS.get(reason, WORDS["form"]),
        fix="sign in again; if it stays, an administrator compares `oidc` in controller.yaml and both clocks",
    )  # fmt: skip
