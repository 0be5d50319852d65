"""What this machine does itself: a run is taken up again where the keys to its nodes are."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from kvctl.tui.words import plain
from kvctl.types.errors import KvctlError
from kvctl.types.requests import RunNamed

BEGUN = 10.0  # seconds after which one that has not ended is under way


class Resume:
    """`kvctl run resume` in a session of its own: it goes on when this console ends. `options`: of the inventory."""

    def __init__(self, options: Sequence[str] = (), begun: float = BEGUN) -> None:
        self._options, self._begun = options, begun

    def __call__(self, request: RunNamed) -> dict[str, Any]:
        """What is to be said of it. KvctlError KV-TUI-003 when it ended with an error."""
        argv = [sys.executable, "-m", "kvctl", "run", "resume", request.run, *self._options]
        with tempfile.TemporaryFile() as told:  # no pipe: it must not break when this console ends
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=told, start_new_session=True
            )
            try:
                code = process.wait(self._begun)
            except subprocess.TimeoutExpired:
                return {"said": f"{request.run} is under way, and goes on when this console ends"}
            told.seek(0)
            why = [plain(line.strip()) for line in told.read().decode(errors="replace").splitlines() if line.strip()]
        if code:
            raise KvctlError(
                "KV-TUI-003", f"{request.run} did not end well", why="; ".join(why[-3:]) or f"exit code {code}",
                fix=f"kvctl run resume {request.run}, on the machine where it began",
            )  # fmt: skip
        return {"said": f"{request.run} has finished"}
