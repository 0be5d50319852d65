"""What engines are to run: the description that `kvctl deploy serving` and `gateway` take. docs/serving.md has it."""

import re
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from kvctl.daemon.fields import Size, Strict, custom
from kvctl.types.errors import UsageError

HELP = "see docs/serving.md"
OPTION = re.compile(r"[a-z][a-z0-9-]{0,63}")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL")
MOST_SECONDS = 3600
# Set by the deployment; another value would open the engine to others, or make what it stores another's.
OWN_OPTIONS = {
    "model", "served-model-name", "uds", "host", "port", "api-key", "api-server-count", "kv-transfer-config", "kv-role",
    "prefix-caching-hash-algo", "shutdown-timeout", "config", "root-path", "ssl-keyfile", "ssl-certfile", "headless",
}  # fmt: skip
OWN_VARIABLES = {"PYTHONHASHSEED", "PYTHONPATH", "LD_PRELOAD", "VLLM_API_KEY", "VLLM_PLUGINS", "VLLM_SERVER_DEV_MODE"}
OWN_TIER = {
    "type", "module_path", "identity", "leases", "gateways", "pool", "controllers", "stores", "single_tenant", "model",
    "weights", "tokenizer",
}  # fmt: skip
PLAIN = re.compile(r"/[^\s%$\"'\\]*")  # a path that can stand in a unit
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp", "/dev/shm")  # from the engine's unit
FilePath = Annotated[str, Meta(pattern=rf"\A{PLAIN.pattern}\Z", max_length=1024)]


class ModelPlace(Strict, frozen=True):
    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]  # as it was pinned, and as clients ask
    directory: FilePath  # on the nodes


class Spec(Strict, frozen=True):
    """`engine`: a directory on the nodes, or an archive on this machine."""

    schema: Literal["1", 1]
    engine: Annotated[str, Meta(min_length=1, max_length=1024)]
    model: ModelPlace
    packages: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")] | None = (
        None  # digest of what the engine consists of
    )
    device: Literal["cuda", "cpu"] = "cuda"
    host_tier: Size = Size(32 << 30)
    blocks_per_chunk: Annotated[int, Meta(ge=1, le=4096)] | None = None
    slots: Annotated[int, Meta(ge=1, le=1 << 16)] = 64
    start_seconds: Annotated[int, Meta(ge=10, le=MOST_SECONDS)] = 600
    probe_tokens: Annotated[int, Meta(ge=256, le=1 << 17)] = 2048
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    tier: dict[str, Any] = msgspec.field(default_factory=dict)


def load(path: Path) -> Spec:
    """UsageError KV-DEP-010 for a file that is no description, naming what is wrong."""
    try:
        return parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(str(path), str(error)) from error


def parse(text: str, where: str) -> Spec:
    """UsageError KV-DEP-010."""
    try:
        spec = msgspec.convert(yaml.safe_load(text), Spec, strict=False, dec_hook=custom)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise _wrong(where, " ".join(str(error).split())) from error
    for why in broken(spec):
        raise _wrong(where, why)
    return spec


def broken(spec: Spec) -> list[str]:
    """What the fields' types do not say."""
    found = []
    for name in spec.arguments:
        if not OPTION.fullmatch(name):
            found.append(f"arguments: {name!r} is no option of vllm serve; write it without dashes before it")
        elif name in OWN_OPTIONS or name.startswith(("kv-", "ssl-")):
            found.append(f"arguments: {name} is set by the deployment")
    for name, value in spec.environment.items():
        if not VARIABLE.fullmatch(name) or any(c in value for c in "\n\"\\%$'"):
            found.append(f"environment: {name!r} cannot stand in a unit")
        elif name in OWN_VARIABLES:
            found.append(f"environment: {name} is set by the deployment, or must not be set")
        elif SECRET.search(name):
            found.append(f"environment: {name} looks like a secret; a unit's environment is no place for one")
    if hidden(spec.model.directory):
        found.append(f"model.directory: the engine's unit sees nothing below {', '.join(HIDDEN)}")
    found += [f"tier: {name} is set by the deployment" for name in sorted(spec.tier.keys() & OWN_TIER)]
    return found


def hidden(path: str) -> bool:
    """Whether the engine's unit has something else in this path's place, or nothing."""
    return any(Path(normpath(path)).is_relative_to(place) for place in HIDDEN)


def _wrong(where: str, why: str) -> UsageError:
    return UsageError("KV-DEP-010", "the description of the engines is not right", where=where, why=why, fix=HELP)
