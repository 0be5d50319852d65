"""A bucket of an S3-compatible cluster, seen through obstore: settings, credentials, names, errors in plain words."""

import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import S3Store

from kvctl.connector.secretfile import read_secret
from kvctl.types.chunks import KEY_BYTES, Scope
from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import S3Credential

RECORD_ATTRIBUTE = "kvctl-record"  # the header x-amz-meta-kvctl-record
CREDENTIALS_SECONDS = 300.0  # how long a credentials file is believed before it is read again
DELETE_BATCH = 1000  # what one DeleteObjects may name
PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
CODE_IN_ANSWER = re.compile(r"<Code>(\w+)</Code>")
KIND_OF_FAILURE = re.compile(r"kind: (Connect|Timeout|Interrupted|Decode|Request)\b")
STATUS = re.compile(r"status code: (\d{3})")
KINDS = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "Interrupted": "the connection broke",
    "Decode": "the answer broke off",
    "Request": "the request could not be sent",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the objects lie. Times in seconds; a caller never waits longer than `request_seconds` for bytes.

    `prefix` parts the store's nodes: two nodes must not have the same one, since each keeps its own index.
    """

    bucket: str
    endpoint: str  # http://host:port or https://host
    prefix: str
    credentials: Path | None  # None: the bucket asks for none
    region: str = "us-east-1"
    root_certificate: Path | None = None
    connect_seconds: float = 2.0
    request_seconds: float = 15.0
    retries: int = 2
    probe_seconds: float = 2.0  # between two probes of an endpoint that failed
    sweep_seconds: float = 5.0  # between two looks for objects to delete
    readers: int = 16
    writers: int = 8
    queued: int = 64  # reads or writes beyond those under way; then the tier is busy

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise UsageError(
                "KV-STORE-301",
                "an S3 endpoint starts with http:// or https://",
                where=self.endpoint,
                fix="write http://HOST:PORT or https://HOST",
            )
        if not PREFIX.fullmatch(self.prefix):
            raise UsageError(
                "KV-STORE-302",
                "an object prefix is letters, digits, '.', '_', '-' and single '/'",
                where=self.prefix or "(empty)",
                fix="give one such as kvctl/NODE/object",
            )


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"


def load_credentials(path: Path) -> Credentials:
    """Read access_key, secret_key and, if there is one, session_token from a JSON file of mode 0600.

    Raises what `read_secret` raises, and UsageError KV-STORE-303: not JSON, a field missing, empty or unknown.
    """
    try:
        found = json.loads(read_secret(path))
    except ValueError:
        raise _wrong(path, "it is not JSON") from None  # the parser's message would repeat what is in it
    if not isinstance(found, dict) or not all(isinstance(value, str) and value for value in found.values()):
        raise _wrong(path, "it is not an object of texts")
    if not {"access_key", "secret_key"} <= set(found) <= {"access_key", "secret_key", "session_token"}:
        raise _wrong(path, "its fields are access_key, secret_key and session_token")
    return Credentials(**found)


def _wrong(path: Path, why: str) -> UsageError:
    return UsageError(
        "KV-STORE-303",
        "S3 credentials cannot be used",
        where=str(path),
        why=why,
        fix='write {"access_key": "...", "secret_key": "..."} to the file',
    )


def scope_digest(scope: Scope) -> bytes:
    """32 bytes that stand for a scope in names: SHA-256 over tenant, domain and epoch, each with its length."""
    parts = (scope.tenant.encode(), scope.domain.encode(), scope.epoch)
    return sha256(b"kvctl scope 1\0" + b"".join(len(part).to_bytes(4, "little") + part for part in parts)).digest()


def reason(error: Exception) -> str:
    """An error of obstore in a few plain words: neither URL, header nor body of an answer is repeated."""
    text = str(error)
    if "credential provider" in text:
        return "the credentials file cannot be used"
    code, status, kind = CODE_IN_ANSWER.search(text), STATUS.search(text), KIND_OF_FAILURE.search(text)
    if status:
        return f"HTTP {status[1]}" + (f" {code[1]}" if code else "")
    if kind:
        return KINDS[kind[1]]
    return type(error).__name__


class Bucket:
    """The few requests that a tier makes. Every one ends within its timeout; failures are BaseError or OSError."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if settings.credentials is not None:
            load_credentials(settings.credentials)  # a mistake in the file shows at start, not at the first request
        self._store = S3Store(
            settings.bucket,
            config=s3_config(settings),  # type: ignore[arg-type]
            client_options=client_options(settings),  # type: ignore[arg-type]
            retry_config={
                "max_retries": settings.retries,
                "retry_timeout": timedelta(seconds=settings.request_seconds / 2),
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1)},
            },
            credential_provider=provider(settings.credentials) if settings.credentials else None,
        )
        self._create = True  # until the cluster says that it knows no If-None-Match

    def __repr__(self) -> str:
        return f"Bucket({self.settings.bucket!r}, {self.settings.prefix!r})"

    def name(self, digest: bytes, key: bytes) -> str:
        return f"{self.settings.prefix}/{digest.hex()}/{key.hex()}"

    def get(self, name: str) -> "GetResult":
        """Start a GET; FileNotFoundError when there is no such object."""
        return obstore.get(self._store, name)

    def can_read(self) -> bool:
        """Whether the bucket answers a GET, be it that there is no such object."""
        try:
            self.get(f"{self.settings.prefix}/probe/none")
        except FileNotFoundError as error:
            return "NoSuchBucket" not in str(error)
        except (BaseError, OSError):
            return False
        return True

    def head(self, name: str) -> tuple[int, str | None]:
        """An object's size and its packed record, if it has one; FileNotFoundError when there is no such object."""
        result = obstore.get(self._store, name, options={"head": True})
        return result.meta["size"], result.attributes.get(RECORD_ATTRIBUTE)

    def put(self, name: str, data: memoryview, record: str, *, create: bool) -> str | None:
        """Write an object whole; its version id when the bucket keeps versions.

        Raises AlreadyExistsError with `create`, when there is one of this name and the cluster knows If-None-Match.
        """
        kept = {RECORD_ATTRIBUTE: record, "Content-Type": "application/octet-stream"}
        if create and self._create:
            try:
                return kept_version(obstore.put(self._store, name, data, attributes=kept, mode="create"))
            except (NotSupportedError, BaseError) as error:
                if isinstance(error, AlreadyExistsError) or "status code: 501" not in str(error):
                    raise
                self._create = False
        return kept_version(obstore.put(self._store, name, data, attributes=kept, use_multipart=False))

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is not there is no error."""
        for first in range(0, len(names), DELETE_BATCH):
            obstore.delete(self._store, list(names[first : first + DELETE_BATCH]))

    def listing(self, digest: bytes) -> Iterator[tuple[bytes, int]]:
        """(key, size) of every object below a scope's digest."""
        below = f"{self.settings.prefix}/{digest.hex()}"
        for page in obstore.list(self._store, below, chunk_size=1000):
            for meta in page:
                key = hex_bytes(meta["path"].rsplit("/", 1)[1])
                if key is not None:
                    yield key, meta["size"]

    def digests(self) -> list[bytes]:
        """The scopes' digests that have objects below this prefix."""
        found = obstore.list_with_delimiter(self._store, self.settings.prefix)["common_prefixes"]
        parsed = (hex_bytes(path.rstrip("/").rsplit("/", 1)[1]) for path in found)
        return [digest for digest in parsed if digest is not None]

    def probe(self) -> str | None:
        """Write, read and delete a small object; its version id when the bucket keeps versions."""
        name = f"{self.settings.prefix}/probe/{secrets.token_hex(8)}"
        wanted = secrets.token_bytes(16)
        version = self.put(name, memoryview(wanted), "", create=False)
        found = bytes(self.get(name).bytes())
        self.delete([name])
        if found != wanted:
            raise OSError("the endpoint gave other bytes than were written")
        return version


def hex_bytes(text: str) -> bytes | None:
    """32 bytes from their hex digits; None for a name that is not one of ours."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return None
    return value if len(value) == KEY_BYTES and value.hex() == text else None


def kept_version(result: Any) -> str | None:
    """The version id of a PUT's answer. A bucket whose versioning is suspended says "null", and keeps none."""
    version: str | None = result["version"]
    return None if version == "null" else version


def s3_config(settings: Settings) -> dict[str, Any]:
    """obstore takes AWS_* from the environment for whatever is not said: say everything that decides where bytes go."""
    return {
        "endpoint": settings.endpoint,
        "aws_endpoint_url_s3": settings.endpoint,
        "region": settings.region,
        "virtual_hosted_style_request": False,
        "skip_signature": settings.credentials is None,
        "s3_express": False,
        "request_payer": False,
        "disable_bulk_delete": False,
        "conditional_put": "etag",
        # TLS guards the body already; hashing it for the signature as well costs as much as sending it.
        "unsigned_payload": settings.endpoint.startswith("https://"),
    }


def client_options(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "allow_http": settings.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=settings.connect_seconds),
        "timeout": timedelta(seconds=settings.request_seconds),
        "pool_idle_timeout": timedelta(seconds=30),
        "user_agent": "kvstored",
    }
    if settings.root_certificate is not None:
        options["root_certificate"] = settings.root_certificate.read_bytes()
    return options


def provider(path: Path) -> Callable[[], "S3Credential"]:
    """What obstore asks for credentials, every `CREDENTIALS_SECONDS`: a new file needs no restart."""

    def current() -> "S3Credential":
        found = load_credentials(path)
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.session_token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=CREDENTIALS_SECONDS),
        }

    return current
