"""A small OpenID provider for tests: https, real keys, real signed tokens, and every way to be wrong on purpose.

It shares no code with kvctl's client side: neither Authlib nor joserfc, only `cryptography`. It is not for use: it has
one client, signs everybody in who asks, as whom the test says, and keeps everything in memory.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kvctl.controller.pki import Authority

CLIENT, SECRET = "kvctl-test", "a-client-secret-of-this-test"
SIGN_IN = "<!doctype html><title>Provider</title><h1>Provider</h1><p><a href='{0}'>Sign in as {1}</a></p>"


def b64(data: bytes | str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value: int, size: int = 0) -> str:
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """One key pair under a name."""

    def __init__(self, kid: str, alg: str = "RS256", bits: int = 2048) -> None:
        self.kid, self.alg = kid, alg
        if alg == "ES256":
            self.private: Any = ec.generate_private_key(ec.SECP256R1())
        else:
            self.private = rsa.generate_private_key(65537, bits)

    @property
    def jwk(self) -> dict[str, Any]:
        made: dict[str, Any] = {"kid": self.kid, "use": "sig", "alg": self.alg}
        public = self.private.public_key()
        found = public.public_numbers()
        if self.alg == "ES256":
            return {**made, "kty": "EC", "crv": "P-256", "x": number(found.x, 32), "y": number(found.y, 32)}
        return {**made, "kty": "RSA", "n": number(found.n), "e": number(found.e)}

    @property
    def pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return bytes(self.private.public_key().public_bytes(serialization.Encoding.PEM, form))

    def sign(self, text: bytes) -> bytes:
        if self.alg == "ES256":
            r, s = decode_dss_signature(self.private.sign(text, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return bytes(self.private.sign(text, padding.PKCS1v15(), hashes.SHA256()))


def signed(claims: dict[str, Any], header: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    text = f"{b64(json.dumps(header))}.{b64(json.dumps(claims))}"
    return f"{text}.{b64(sign(text.encode()))}"


class OpenId:
    """The provider. Tests set its fields between two sign-ins."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "tls", "idp")
        certificate, key = authority.server(("localhost", "127.0.0.1"))
        self.ca = authority.certificate_path
        self.client_secret = folder / "client.secret"
        self.client_secret.write_text(SECRET + "\n")
        self.client_secret.chmod(0o600)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"provider": self}))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.issuer = f"https://127.0.0.1:{self._server.server_address[1]}/realm"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._first = SigningKey("first")
        self.fair()

    def fair(self) -> None:
        """As a provider should be."""
        self.keys = [self._first]
        self.subject = "4f1c2a7e"
        self.ask = False  # shows a page with a link instead of signing in at once
        self.claims: dict[str, Any] = {}  # in the place of what a token has; None: left out
        self.header: dict[str, Any] = {}
        self.make: Callable[[dict[str, Any], dict[str, Any]], str] | None = None  # the whole token
        self.about: dict[str, Any] = {}  # in the place of what the discovery document has
        self.raw: dict[str, bytes | tuple[int, dict[str, str]]] = {}  # path -> an answer as it is
        self.since: float | None = None  # when its person signed in; None: with each request
        self.issued: dict[str, dict[str, str]] = {}  # code -> the request that it answers
        self.seen: list[str] = []  # paths that were asked for
        self.hang = threading.Event()  # cleared: it goes on
        self.hangs_at = ""

    def __enter__(self) -> "OpenId":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()

    def settings(self, console: str, **more: Any) -> dict[str, Any]:
        """`oidc` of a controller.yaml."""
        return {
            "issuer": self.issuer, "client_id": CLIENT, "client_secret_file": str(self.client_secret),
            "console": console, "ca": str(self.ca), "name": "Example", **more,
        }  # fmt: skip

    def document(self) -> dict[str, Any]:
        made = {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
        }  # fmt: skip
        return made | self.about

    def authorize(self, asked: dict[str, str]) -> str:
        """The address that the browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["code_challenge"]) == 43
        assert len(asked["state"]) >= 32
        assert len(asked["nonce"]) >= 32
        code = secrets.token_urlsafe(16)
        self.issued[code] = asked | {"at": str(time.time())}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        if authorization.startswith("Basic "):
            name, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
        else:
            name, secret = form.get("client_id", ""), form.get("client_secret", "")
        if (name, secret) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        asked = self.issued.pop(form.get("code", ""), None)
        if asked is None or form.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest()) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 60,
            "id_token": self.token(asked),
        }  # fmt: skip

    def token(self, asked: dict[str, str]) -> str:
        now, key = int(time.time()), self.keys[0]
        claims = {
            "iss": self.issuer, "sub": self.subject, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": asked["nonce"], "auth_time": int(now if self.since is None else self.since),
            "email": "root@example.org", "preferred_username": "chief",
        }  # fmt: skip
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        header = {"alg": key.alg, "kid": key.kid, "typ": "JWT"} | self.header
        header = {name: value for name, value in header.items() if value is not None}
        return self.make(header, claims) if self.make else signed(claims, header, key.sign)


def of_mac(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda text: hmac.digest(secret, text, "sha256")


class Handler(BaseHTTPRequestHandler):
    provider: OpenId
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _waited(self, path: str) -> bytes | tuple[int, dict[str, str]] | None:
        self.provider.seen.append(path)
        if path == self.provider.hangs_at:
            self.provider.hang.wait(60)
        return self.provider.raw.get(path)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/realm")
        raw = self._waited(path)
        if isinstance(raw, tuple):
            self._send(raw[0], b"{}", **raw[1])
        elif raw is not None:
            self._send(200, raw)
        elif path == "/.well-known/openid-configuration":
            self._json(200, self.provider.document())
        elif path == "/keys":
            self._json(200, {"keys": [key.jwk for key in self.provider.keys]})
        elif path == "/authorize":
            back = self.provider.authorize(dict(parse_qsl(parts.query)))
            if self.provider.ask:
                page = SIGN_IN.format(back.replace("&", "&amp;"), self.provider.subject)
                self._send(200, page.encode(), content_type="text/html")
            else:
                self._send(303, b"", location=back)
        elif path == "/favicon.ico":
            self._send(204, b"")
        else:
            self._send(404, b"")

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        path = urlsplit(self.path).path.removeprefix("/realm")
        raw = self._waited(path)
        if raw is not None:
            self._send(200, raw if isinstance(raw, bytes) else b"")
        elif path == "/token":
            self._json(*self.provider.exchange(form, self.headers.get("authorization", "")))
        else:
            self._send(404, b"")

    def _json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        # Who asked may have had enough, as it should of an endless answer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.wfile.write(body)
