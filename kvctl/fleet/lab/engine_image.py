"""The engine of a lab's GPU hosts: this machine's installation, there as a real node's image would have it.

It lies in a read-only bind of this machine's cache, beside a bind of its Python; a copy would be 2.5 GB a host.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

from kvctl.fleet.lab.serving_engine import HOST_TIER, MAX_TOKENS, MODEL, engine_cache, engine_home, kept_model
from kvctl.types.errors import UsageError

CACHE, PYTHON = "/opt/kvctl-lab/cache", "/opt/kvctl-lab/python"
HOME, MODEL_DIRECTORY = "/opt/engine", "/opt/model"


def shared() -> dict[Path, str]:
    """What a GPU host shares with this machine, read-only: engines, installed or to be, and the Python they run on."""
    cache = place()
    cache.mkdir(parents=True, exist_ok=True)
    return {cache: CACHE, Path(sys.base_prefix): PYTHON}


def place() -> Path:
    given = os.environ.get("KVCTL_ENGINE")
    return Path(given).absolute().parent if given else engine_cache().absolute()


def commands() -> str:
    """For a host's shell: engine and model in their places.

    UsageError KV-LAB-050, KV-LAB-051 as for any engine; KV-LAB-061 when hosts have another Python than the engine.
    """
    home = engine_home().absolute()
    return script(home, kept_model(home), python_of(home))


def python_of(home: Path) -> str:
    """Such as "3.11"; the Python of this process must be the engine's."""
    lines = (home / "pyvenv.cfg").read_text().splitlines()
    rows = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    if Path(rows["home"]).resolve() != (Path(sys.base_prefix) / "bin").resolve():
        raise UsageError(
            "KV-LAB-061", "the engine runs on another Python than the lab's hosts have", where=str(home),
            why=f"{rows['home']}, and the hosts have {sys.base_prefix}",
            fix="remove that engine and install it again: ./dev engine",
        )  # fmt: skip
    return ".".join(rows["version"].split(".")[:2])


def script(home: Path, model: Path, version: str) -> str:
    """A virtual environment whose interpreter and packages are the shared ones."""
    inside = f"{CACHE}/{home.relative_to(place())}"
    return f"""
        mkdir -p {HOME}/bin
        printf 'home = {PYTHON}/bin\\nversion = {version}\\n' >{HOME}/pyvenv.cfg
        ln -sfn {PYTHON}/bin/python{version} {HOME}/bin/python
        ln -sfn {shlex.quote(inside)}/lib {HOME}/lib
        ln -sfn {shlex.quote(f"{inside}/{model.name}")} {MODEL_DIRECTORY}
        echo {PYTHON}/lib >/etc/ld.so.conf.d/kvctl-lab.conf
        ldconfig
    """


def description() -> str:
    """What `kvctl deploy serving` is told: docs/serving.md."""
    document: dict[str, Any] = {
        "schema": 1,
        "engine": HOME,
        "model": {"name": MODEL, "directory": MODEL_DIRECTORY},
        "device": "cpu",
        "host_tier": f"{HOST_TIER >> 20}MiB",
        "slots": 16,
        "arguments": {
            "max-model-len": MAX_TOKENS,
            "dtype": "float32",
            "enforce-eager": True,
            "no-enable-prefix-caching": True,
        },
        "environment": {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": threads()},
        "tier": {"assumed_tokens_per_second": 1000},
    }
    return "# Written by kvctl lab engine.\n" + yaml.safe_dump(document, sort_keys=False)


def threads() -> str:
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
