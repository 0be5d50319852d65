"""A vLLM with another interface than the tier knows is refused at its start, with what is other about it."""

import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass

import pytest

from kvctl.connector.tier_interface import (
    KNOWN,
    TIER_CALLS,
    call_problems,
    name_problems,
    refused,
    version_problems,
)
from tests.engine.serving import ROOT, engine_home, environment


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0", "0.33.1.dev3+g1234", "0.32.0+cpu"])
def test_versions_that_were_compared(version: str):
    assert version_problems(version) == []


@pytest.mark.parametrize("version", ["0.31.2", "0.34.0", "0.3", "0.330.0", "1.0", "dev"])
def test_any_other_version_is_named(version: str):
    (problem,) = version_problems(version)
    assert version in problem
    assert all(known in problem for known in KNOWN)


class Known(ABC):
    def __init__(self, spec: object) -> None:
        self.spec = spec

    @abstractmethod
    def lookup(self, key: bytes, context: object) -> int: ...

    @classmethod
    def define(cls, config: object) -> str:
        return str(config)


CALLS = {"__init__": ("spec",), "lookup": ("key", "context"), "define": ("config",)}


def test_the_interface_as_it_is_known():
    assert list(call_problems(Known, CALLS)) == []


def test_each_way_to_differ_is_named():
    class Other(Known):
        def lookup(self, key: bytes, context: object, deadline: float) -> int:  # type: ignore[override]
            return 0

        @classmethod
        def define(cls, settings: object) -> str:  # type: ignore[override]
            return str(settings)

        @abstractmethod
        def flush(self) -> None: ...

    assert list(call_problems(Other, CALLS | {"drain": ()})) == [
        "Other.lookup takes (key, context, deadline), not (key, context)",
        "Other.define takes (settings), not (config)",
        "Other has no drain",
        "Other.flush is new, and every tier must have it",
    ]


def test_fields_and_what_is_assigned_at_the_start_count_as_names():
    @dataclass
    class Job:
        keys: list[bytes]

        @property
        def context(self) -> None: ...

    class Request:
        def __init__(self) -> None:
            self.salt = ""

    assert list(name_problems(Job, ["keys", "context", "rows"])) == ["Job has no rows"]
    assert list(name_problems(Request, ["salt", "lora"])) == ["Request has no lora"]


def test_the_refusal_says_what_to_serve_with():
    error = refused("0.34.0", ["SecondaryTierManager has no lookup"])
    assert (error.code, error.exit_code) == ("KV-VLLM-008", 7)
    assert "0.34.0" in error.what
    assert "0.33" in error.fix


IMPORTED = "import kvctl.connector.vllm_tier as tier; print('tier', tier.KvctlTier.__abstractmethods__)"
ANOTHER = """
import vllm
from kvctl.types.errors import KvctlError
{change}
try:
    import kvctl.connector.vllm_tier
except KvctlError as error:
    print(error.code, error.why)
"""
CHANGES = {
    "vllm.__version__ = '0.34.0'": "0.34.0",
    "import vllm.v1.kv_offload.tiering.base as base; base.SecondaryTierManager.lookup = lambda self, keys: 0": "(keys)",
    "import vllm.v1.kv_offload.tiering.base as base; del base.TransferJob": "TransferJob",
}


def python(code: str) -> str:
    command = [engine_home() / "bin" / "python", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.engine
def test_the_installed_vllm_has_the_interface():
    assert "tier frozenset()" in python(IMPORTED)
    assert "lookup" in TIER_CALLS


@pytest.mark.engine
@pytest.mark.parametrize("change", CHANGES)
def test_the_installed_vllm_changed_is_refused(change: str):
    (line,) = [line for line in python(ANOTHER.format(change=change)).splitlines() if line.startswith("KV-")]
    assert line.startswith("KV-VLLM-008")
    assert CHANGES[change] in line
