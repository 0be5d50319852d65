"""Real hosts for the tests marked `lab`: booted once, with every role of the lab, and ended at the end."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Lab:
    """A lab that is up, and kvctl as its user would run it."""

    env: dict[str, str]
    state: Path  # the site's state directory

    def kvctl(
        self, *args: str, ok: tuple[int, ...] | None = (0,), timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run kvctl; fail the test when the exit code is not one of `ok` (None: any)."""
        done = subprocess.run(
            [sys.executable, "-m", "kvctl", *args],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        if ok is not None and done.returncode not in ok:
            pytest.fail(f"kvctl {' '.join(args)} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kvctl", *args],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )

    def json(self, *args: str, ok: tuple[int, ...] | None = None) -> Any:
        return json.loads(self.kvctl(*args, "-o", "json", ok=ok).stdout)

    def bad(self) -> list[tuple[str, str]]:
        """(check, node) of every finding that needs a hand, from a fresh check."""
        return sorted({(f["check"], f["node"]) for f in self.json("check")["findings"] if f["bad"]})

    def await_clean(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while bad := self.bad():
            assert time.monotonic() < deadline, bad

    def on(self, node: str, command: str, ok: bool = True) -> str:
        """Run a command as root on a node."""
        done = self.kvctl("lab", "shell", node, "--", "sh", "-c", command, ok=(0,) if ok else None)
        return done.stdout


def environment(base: Path, name: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KVCTL_")}
    cache = os.environ.get("KVCTL_LAB_CACHE")
    return kept | {
        "KVCTL_LAB_NAME": name,
        "KVCTL_LAB_DIR": str(base / name),
        "KVCTL_STATE_DIR": str(base / f"{name}-state"),
        "XDG_CONFIG_HOME": str(base / f"{name}-config"),
        "NO_COLOR": "1",
        **({"KVCTL_LAB_CACHE": cache} if cache else {}),
    }


@pytest.fixture(scope="session")
def lab_base() -> Iterator[Path]:
    """A short path: unix sockets and overlay options have limits."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("lab hosts need root on Linux: run ./dev test as root")
    if not shutil.which("systemd-nspawn") or not shutil.which("mmdebstrap"):
        pytest.skip("lab hosts need systemd-container and mmdebstrap: run ./dev test, which installs them")
    base = Path("/var/tmp/kvctl-tests")
    base.mkdir(mode=0o700, exist_ok=True)
    yield base
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(lab_base: Path) -> Iterator[Lab]:
    """One GPU and three storage nodes, provisioned and clean."""
    made = Lab(environment(lab_base, "kvtest"), lab_base / "kvtest-state" / "kvtest")
    made.kvctl("lab", "down")
    made.kvctl("lab", "up", timeout=600)
    try:
        made.kvctl("provision", "--yes", timeout=600)
        yield made
    finally:
        made.kvctl("lab", "down")
