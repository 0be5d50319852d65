"""A real vLLM on CPU for a lab: where it is installed, its command line, and what its environment must say."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kvctl
from kvctl.fleet.lab.processes import run
from kvctl.types.errors import UsageError

MODEL = "tiny"
BLOCK = 128  # tokens of a block on CPU; here also of a chunk
MAX_TOKENS = 16384
HOST_TIER = 512 << 20  # bytes; a context of MAX_TOKENS takes 96 MiB
PACKAGE_ROOT = Path(kvctl.__file__).parents[1]


def engine_cache(environ: Mapping[str, str] | None = None) -> Path:
    """Where engines are installed on this machine."""
    env = os.environ if environ is None else environ
    return Path(env.get("KVCTL_CACHE") or f"{env.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/kvctl")


def engine_home(environ: Mapping[str, str] | None = None) -> Path:
    """KVCTL_ENGINE, or the newest complete installation in kvctl's cache. UsageError KV-LAB-050 without one."""
    env = os.environ if environ is None else environ
    if given := env.get("KVCTL_ENGINE"):
        found = [Path(given)]
    else:
        stamps = engine_cache(env).glob("engine-*/kvctl.stamp")
        found = [stamp.parent for stamp in sorted(stamps, key=lambda path: path.stat().st_mtime, reverse=True)]
    for home in found:
        if (home / "bin" / "vllm").exists():
            return home
    raise UsageError(
        "KV-LAB-050", "there is no engine to serve with", why="no virtual environment with vLLM was found",
        fix="./dev test installs one, or name a virtual environment in KVCTL_ENGINE",
    )  # fmt: skip


def tiny_model(home: Path, folder: Path) -> None:
    """The tiny model's files in `folder`."""
    shutil.copytree(kept_model(home), folder, dirs_exist_ok=True)


def kept_model(home: Path) -> Path:
    """The directory of the tiny model; made once and kept beside the engine. UsageError KV-LAB-051."""
    kept = home / "tiny-0"
    if not (kept / "model.safetensors").exists():
        making = home / f"tiny-0.{os.getpid()}"
        python = str(home / "bin" / "python")
        made = subprocess.run(
            [python, "-m", "kvctl.connector.tiny_model", str(making)], env=environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise UsageError("KV-LAB-051", "the tiny model could not be made", where=python, why=made.stderr[-400:])
        making.rename(kept)
    for file in kept.iterdir():
        file.chmod(0o644)  # an engine's own user reads it
    return kept


def argv(home: Path, model: Path, sock: Path, engine_id: str, tier: Mapping[str, Any]) -> list[str]:
    """`vllm serve` on a unix socket, with plain copies in the place of a GPU's and kvctl's tier behind them."""
    transfer = {
        "engine_id": engine_id,
        "kv_connector": "KvctlConnector",
        "kv_connector_module_path": "kvctl.connector.vllm_tier",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "spec_name": "CpuTieringSpec",
            "spec_module_path": "kvctl.connector.cpu_tiering",
            "cpu_bytes_to_use": HOST_TIER,
            "secondary_tiers": [dict(tier)],
        },
    }
    return [
        *(str(home / "bin" / "vllm"), "serve", str(model), "--served-model-name", MODEL, "--uds", str(sock)),
        *("--max-model-len", str(MAX_TOKENS), "--dtype", "float32", "--enforce-eager", "--shutdown-timeout", "10"),
        *("--enable-prompt-tokens-details", "--no-enable-prefix-caching", "--prefix-caching-hash-algo", "sha256_cbor"),
        *("--kv-transfer-config", json.dumps(transfer)),
    ]


def environment() -> dict[str, str]:
    """This process's, and what vLLM on CPU needs. The development routes, on a private socket, reset its caches."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return {
        **kept,
        "PYTHONPATH": str(PACKAGE_ROOT),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))),
        "VLLM_SERVER_DEV_MODE": "1",
    }


def version(home: Path) -> str:
    """Of the installed vLLM."""
    code = "from importlib.metadata import version; print(version('vllm'))"
    return run([str(home / "bin" / "python"), "-c", code], what="ask the engine's version").strip()
