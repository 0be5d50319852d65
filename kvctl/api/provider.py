"""The OpenID provider, as it is asked: what it says about itself, its keys, and a code made into a proof.

Authlib speaks to it. Every answer has a deadline, a length and the one certificate authority that is set; no redirect
is followed, no proxy of the environment is used, and no token outlives the call that got it.
"""

import json
import logging
import ssl
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from kvctl.api.idtoken import DeniedError, Expected, Proof, UnknownKeyError, believed, denied
from kvctl.api.pending import Flow
from kvctl.connector.secretfile import read_secret
from kvctl.controller.settings import OidcSettings
from kvctl.types.errors import KvctlError, UnreachableError

DEADLINE = 10.0  # seconds for one answer, all of it
MOST_BYTES = 1 << 20
MOST_KEYS = 100
KEPT = 3600.0  # seconds for which what it says about itself, and its keys, are not asked again
WELL_KNOWN = "/.well-known/openid-configuration"
CALLBACK = "/login/oidc/callback"
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
log = logging.getLogger(__name__)


class Short(httpx2.AsyncBaseTransport):
    """Answers of a bounded length, as they are sent: one that is packed has no length before it is unpacked."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("its answer is packed")
            body = bytearray()
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            async for part in response.stream:
                body += part
                if len(body) > MOST_BYTES:
                    raise ValueError(f"its answer has more than {MOST_BYTES >> 20} MiB")
        finally:
            await response.aclose()
        kind = response.headers.get("content-type", "")
        return httpx2.Response(response.status_code, headers={"content-type": kind}, content=bytes(body))

    async def aclose(self) -> None:
        await self._inner.aclose()


class Provider:
    """One provider as it is set. Made anew when its settings change."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self.redirect_uri = settings.console.rstrip("/") + CALLBACK
        self._said: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[Mapping[str, Any]]] | None = None
        self._trust: ssl.SSLContext | None = None

    async def address(self, flow: Flow) -> str:
        """Where the browser goes to sign in. UnreachableError KV-API-081, 082."""
        about = await self._about()
        more = {"prompt": "login", "max_age": "0"} if flow.step_up else {}
        if flow.step_up and self.settings.step_up_acr:
            more["acr_values"] = " ".join(self.settings.step_up_acr)
        async with await self._client() as client:
            url, _ = client.create_authorization_url(
                about["authorization_endpoint"], state=flow.state, code_verifier=flow.verifier, nonce=flow.nonce, **more
            )
        return str(url)

    async def prove(self, code: str, flow: Flow) -> Proof:
        """Who came back with this code. DeniedError KV-API-083, 084; UnreachableError KV-API-081, 082."""
        about = await self._about()
        asking = partial(_fetch_token, url=about["token_endpoint"], code=code, code_verifier=flow.verifier)
        try:
            answer = await self._ask(asking, secret=await self._secret())
        except OAuthError as error:
            log.warning("the OpenID provider did not take the code: %.80r", error.error)
            raise refused(error.error) from None
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise denied("form")
        settings = self.settings
        expected = Expected(settings.issuer, settings.client_id, settings.algorithms, flow.nonce, flow.began)
        judge = partial(believed, token, expected=expected, access=access if isinstance(access, str) else "")
        if self._keys is not None and time.monotonic() - self._keys[0] < KEPT:
            try:
                return judge(keys=self._keys[1], now=time.time())
            except UnknownKeyError:
                log.info("the OpenID provider has another key: its keys are read again")
        keys = await self._read_keys(about["jwks_uri"])
        self._keys = time.monotonic(), keys
        try:
            return judge(keys=keys, now=time.time())
        except UnknownKeyError:
            raise denied("key") from None

    async def _about(self) -> dict[str, Any]:
        if self._said is not None and time.monotonic() - self._said[0] < KEPT:
            return self._said[1]
        issuer = self.settings.issuer
        about = await self._get(issuer.rstrip("/") + WELL_KNOWN)
        if about.get("issuer") != issuer:
            log.error("the OpenID provider says that it is %.200r, not %r", about.get("issuer"), issuer)
            raise lies("it says that it is another issuer than `oidc.issuer` has")
        for field in NEEDED:
            if not str(about.get(field, "")).startswith("https://"):
                raise lies(f"its {field} is not https://")
        self._said = time.monotonic(), about
        return about

    @property
    def names_itself(self) -> bool:
        """Whether it said that it sends `iss` with each answer (RFC 9207)."""
        return self._said is not None and self._said[1].get("authorization_response_iss_parameter_supported") is True

    async def _read_keys(self, address: str) -> list[Mapping[str, Any]]:
        keys = (await self._get(address)).get("keys")
        if not isinstance(keys, list) or len(keys) > MOST_KEYS or not all(isinstance(one, dict) for one in keys):
            raise lies(f"its keys are no list of at most {MOST_KEYS} keys")
        return keys

    async def _get(self, address: str) -> dict[str, Any]:
        return await self._ask(partial(_fetch_document, address=address))

    async def _ask(self, asking: Any, secret: str | None = None) -> dict[str, Any]:
        """What it answers, a JSON object. UnreachableError KV-API-081."""
        try:
            with anyio.fail_after(DEADLINE):
                async with await self._client(secret) as client:
                    found = await asking(client)
        except TimeoutError as error:
            raise away(f"it did not answer within {DEADLINE:.0f} s") from error
        except httpx2.TransportError as error:
            log.warning("the OpenID provider cannot be reached: %s", error)
            raise away("it cannot be reached; the controller's log says more") from error
        except httpx2.HTTPStatusError as error:
            raise away(f"it answered with status {error.response.status_code}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError) as error:
            log.warning("the OpenID provider's answer cannot be used: %.200s", error)
            raise away("its answer cannot be used; the controller's log says more") from error
        return dict(found)

    async def _client(self, secret: str | None = None) -> Any:
        if self._trust is None:
            self._trust = await anyio.to_thread.run_sync(self._read_trust)
        inner = httpx2.AsyncHTTPTransport(verify=self._trust, trust_env=False)
        return AsyncOAuth2Client(
            self.settings.client_id, secret, token_endpoint_auth_method=self.settings.client_auth, scope="openid",
            redirect_uri=self.redirect_uri, code_challenge_method="S256", transport=Short(inner), timeout=DEADLINE,
            follow_redirects=False, trust_env=False,
        )  # fmt: skip

    def _read_trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.settings.ca or None)
        except (OSError, ValueError) as error:
            log.error("oidc.ca cannot be used: %s: %s", self.settings.ca, error)
            raise away("`oidc.ca` cannot be used; the controller's log says more") from error

    async def _secret(self) -> str:
        """Read each time: a new one needs no restart."""
        path = Path(self.settings.client_secret_file)
        try:
            return (await anyio.to_thread.run_sync(read_secret, path)).decode().strip()
        except (KvctlError, UnicodeDecodeError) as error:
            log.error("oidc.client_secret_file cannot be used: %s", error)
            raise away("the client's secret cannot be read; the controller's log says more") from error


async def _fetch_token(client: Any, *, url: str, code: str, code_verifier: str) -> Any:
    return await client.fetch_token(url, grant_type="authorization_code", code=code, code_verifier=code_verifier)


async def _fetch_document(client: Any, *, address: str) -> Any:
    response = await client.request("GET", address, withhold_token=True, headers={"accept": "application/json"})
    response.raise_for_status()
    found = json.loads(response.content)
    if not isinstance(found, dict):
        raise ValueError("its answer is no JSON object")
    return found


def away(why: str) -> UnreachableError:
    return UnreachableError(
        "KV-API-081", "the OpenID provider cannot be asked", why=why,
        fix="try again later; accounts with a password sign in as always",
    )  # fmt: skip


def lies(why: str) -> UnreachableError:
    return UnreachableError(
        "KV-API-082", "the OpenID provider is not the one that is set", why=why,
        fix="an administrator compares `oidc` in controller.yaml with what the provider publishes",
    )  # fmt: skip


def refused(said: object) -> DeniedError:
    """What it said is shown only when it is one of the short words that OAuth 2.0 has for it."""
    plain = isinstance(said, str) and said.isascii() and said.replace("_", "").isalpha()
    return DeniedError(
        "refused", "KV-API-083", "the OpenID provider did not sign you in",
        why=f"it says: {str(said)[:40]}" if plain else "it does not say why",
        fix="sign in again, or ask whoever runs the provider",
    )  # fmt: skip
