"""An agent as people install it, in a virtual environment of its own in the cache, outside the checkout."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.engine.serving import ROOT

LOCK = ROOT / "requirements-agent.lock"


def agent_home() -> Path:
    """Where mini-swe-agent is, installed at the first call (a minute, 400 MB). AssertionError with pip's reason."""
    cache = os.environ.get("KVCTL_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/kvctl"
    home = Path(cache) / f"agent-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if not (home / "kvctl.stamp").exists():
        _run([sys.executable, "-m", "venv", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(LOCK)])
        (home / "kvctl.stamp").touch()
    return home


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr[-3000:]}"
