"""A real `vllm serve` on CPU with the tier, a real kvstored behind it, and a client that sees tokens and times."""

import hashlib
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvctl.connector.handle import PARAMETER, Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey, write_lease
from kvctl.types.chunks import Scope
from tests.store.daemon import Daemon

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-engine.lock"
BLOCK = 128  # tokens of a block on CPU: here, of a chunk
ROW = 6 * 2 * 2 * 64 * 4 * BLOCK  # bytes of a chunk: layers, K and V, heads, values, float32
START = 240.0  # seconds for an engine to be ready on a busy machine
HOST = 96 << 20  # bytes of the host tier
DOMAIN = "user"
NUMBERS = itertools.count()


def engine_home() -> Path:
    """Where `./dev test` puts the engine; the test is skipped where it did not."""
    cache = os.environ.get("KVCTL_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/kvctl"
    home = Path(cache) / f"engine-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if not (home / "bin" / "vllm").exists():
        pytest.skip(f"no engine in {home}: run ./dev test, which installs it")
    return home


def tiny_model(home: Path, folder: Path, seed: int = 0) -> None:
    """The tiny model's files in `folder`; made once a seed and kept beside the engine."""
    kept = home / f"tiny-{seed}"
    if not (kept / "model.safetensors").exists():
        making = home / f"tiny-{seed}.{os.getpid()}"
        command = [home / "bin" / "python", "-m", "kvctl.connector.tiny_model", making, "--seed", str(seed)]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
        making.rename(kept)
    shutil.copytree(kept, folder, dirs_exist_ok=True)


class Site:
    """A store, two tenants with leases for the engine, and the gateway whose handles it takes."""

    def __init__(self, folder: Path, **sections: object) -> None:
        """`sections`: of the store's configuration."""
        self.folder = folder
        (folder / "mount").mkdir(parents=True)
        (folder / "leases").mkdir()
        self.daemon = Daemon(folder, module="kvctl.store.main", **sections)
        self.daemon.connector.save(folder / "engine.key")
        self.gateway = Identity.generate()
        self.leases = {name: self._lease(name) for name in ("acme", "globex")}

    def _lease(self, tenant: str) -> KeyLease:
        scope = Scope(tenant, DOMAIN, os.urandom(16))
        lease = KeyLease(RootKey(scope, os.urandom(32)), self.daemon.token(scope=scope), int(time.time()) + 3600)
        write_lease(self.folder / "leases" / f"{tenant}.json", lease)
        return lease

    def options(self, **changes: object) -> dict[str, object]:
        node = {"name": "storage1", "addresses": [self.daemon.unix], "public_key": self.daemon.identity.public.hex()}
        return {
            "type": "KvctlTier",
            "module_path": "kvctl.connector.vllm_tier",
            "identity": str(self.folder / "engine.key"),
            "leases": str(self.folder / "leases"),
            "gateways": [self.gateway.public.hex()],
            "stores": [node],
            "assumed_tokens_per_second": 1000,
            **changes,
        }

    def salt(self, tenant: str = "acme") -> str:
        key = self.leases[tenant].key
        return cache_salt(key.salt_key, key.scope.domain)

    def handle(self, tenant: str = "acme", *, signer: Identity | None = None, lasts: float = 600, **more: Any) -> str:
        scope = self.leases[tenant].scope
        made = Handle(
            tenant=scope.tenant,
            domain=scope.domain,
            epoch=scope.epoch,
            salt_digest=salt_digest(self.salt(tenant)),
            expires_at=int(time.time() + lasts),
            **more,
        )
        return sign(made, signer or self.gateway)

    def body(self, tenant: str = "acme", handle: str | None = None) -> dict[str, object]:
        """What the gateway adds to a request."""
        return {
            "cache_salt": self.salt(tenant),
            "kv_transfer_params": {PARAMETER: handle or self.handle(tenant)},
        }


@dataclass
class Answered:
    tokens: list[int] = field(default_factory=list)
    cached: int = 0
    first: float = 0.0  # seconds to the first token


def prompt(length: int, name: str = "") -> list[int]:
    chance = random.Random(f"{name} {length}")
    return [0, *(chance.randrange(6, 4096) for _ in range(length - 1))]


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=300)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Engine:
    """`more`: arguments of `vllm serve` behind the usual ones, in whose place they go. It listens on `socket`."""

    def __init__(
        self, home: Path, model: Path, folder: Path, options: Mapping[str, object], *more: str, name: str = "engine"
    ) -> None:
        self._home = home
        self._model = model
        self._log = folder / f"{name}.log"
        self._options = options
        self._more = more
        self.socket = folder / f"{name}.sock"
        self._name = f"kvctl-test-{os.getpid()}-{name}-{next(NUMBERS)}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Engine":
        extra = {
            "spec_name": "CpuTieringSpec",
            "spec_module_path": "kvctl.connector.cpu_tiering",
            "cpu_bytes_to_use": HOST,
            "secondary_tiers": [self._options],
        }
        transfer = {
            "engine_id": self._name,
            "kv_connector": "KvctlConnector",
            "kv_connector_module_path": "kvctl.connector.vllm_tier",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": extra,
        }
        command = [
            *(self._home / "bin" / "vllm", "serve", self._model, "--served-model-name", "tiny"),
            *("--uds", str(self.socket), "--max-model-len", "10240", "--dtype", "float32"),
            *(
                "--shutdown-timeout",
                "10",
                "--enforce-eager",
                "--enable-prompt-tokens-details",
                "--no-enable-prefix-caching",
            ),
            *("--prefix-caching-hash-algo", "sha256_cbor", "--kv-transfer-config", json.dumps(transfer)),
            *self._more,
        ]
        self.socket.unlink(missing_ok=True)  # of an engine before
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdout=log, stderr=log, start_new_session=True
            )
        self._until_ready()
        return self

    def _until_ready(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise AssertionError(f"the engine ended:\n{self.log[-6000:]}")
            try:
                if self._ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"the engine is not ready after {START} s:\n{self.log[-6000:]}")

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
        for left in Path("/dev/shm").glob(f"vllm_offload_{self._name}*"):  # of an engine that was killed
            left.unlink()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        connection = Connection(self.socket)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def forget(self) -> None:
        """Drop what the engine holds itself, so that the next prompt comes from a store or is computed."""
        assert self._ask("POST", "/reset_prefix_cache?reset_external=true")[0] == 200

    def metric(self, line: str) -> float:
        """The sum over engines and labels of a sample whose line begins so; labels may be named in it."""
        name, _, labels = line.partition("{")
        rows = [row for row in self._ask("GET", "/metrics")[1].splitlines() if row.startswith(name + "{")]
        return sum(float(row.rpartition(" ")[2]) for row in rows if labels.rstrip("}") in row)

    @property
    def told(self) -> str:
        """What the tier counted and is not zero, one sample a line."""
        rows = [row for row in self._ask("GET", "/metrics")[1].splitlines() if row.startswith("kvctl_tier_")]
        return "\n".join(row for row in rows if float(row.rpartition(" ")[2]))

    def complete(self, ids: Sequence[int], more: Mapping[str, object], count: int = 8) -> Answered:
        """Greedy tokens for a prompt of token ids, streamed."""
        return streamed(self.socket, completion(ids, count) | more)


def completion(ids: Sequence[int], count: int = 8) -> dict[str, object]:
    return {
        "model": "tiny",
        "prompt": list(ids),
        "max_tokens": count,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }


def streamed(path: Path, body: Mapping[str, object], headers: Mapping[str, str] = {}) -> Answered:
    """What a completion gave, from an engine or a gateway that listens on a unix socket."""
    connection = Connection(path)
    begun = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    found = Answered()
    for line in answer:
        if line.startswith(b"data: {"):
            take(found, json.loads(line[6:]), begun)
    connection.close()
    return found


def take(found: Answered, event: dict[str, Any], begun: float) -> None:
    assert "error" not in event, event
    for choice in event.get("choices", ()):
        if choice.get("token_ids") and not found.tokens:
            found.first = time.monotonic() - begun
        found.tokens += choice.get("token_ids") or []
    details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
    found.cached = details.get("cached_tokens") or found.cached


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{(os.cpu_count() or 1) - 1}",
        "VLLM_SERVER_DEV_MODE": "1",
    }


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel hands out while the engine takes a minute to start."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
