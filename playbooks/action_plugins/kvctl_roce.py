"""The controller's half of a commit-confirmed change: a new TCP connection, 16 KiB both ways, then the confirm."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

PROBE_BYTES = 16384
PROBE_SECONDS = 12


class Silent(Exception):
    """The node did not answer over the new connection in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Silent in the block when it takes longer; a stalled ssh process has no limit of its own."""

    def ring(signum: int, frame: object) -> None:
        raise Silent

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class ActionModule(ActionBase):
    """Runs the module; when it leaves a pending change, confirms it or reports that the node has put it back."""

    supports_check_mode = True
    supports_diff = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        applied: dict[str, Any] = self._execute_module(
            module_name="kvctl_roce", module_args=self._task.args, task_vars=task_vars
        )
        key = applied.get("pending")
        if not key or applied.get("failed"):
            return applied
        timeout = float(self._task.args.get("confirm_timeout", 45))
        verdict = self._confirm(key, applied.get("connection", ""), task_vars, time.monotonic() + timeout)
        if verdict.get("failed"):
            return {**applied, **verdict}
        return {**verdict, **applied}

    def _ask(self, task_vars: Any, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="kvctl_roce", module_args=arguments, task_vars=task_vars
        )
        return answer

    def _confirm(self, key: str, old: str, task_vars: Any, deadline: float) -> dict[str, Any]:
        """Try until the window is over: a link may need seconds to come back after its settings changed."""
        while time.monotonic() < deadline:
            try:
                with within(PROBE_SECONDS):
                    if self._reaches(old, task_vars):
                        return self._ask(task_vars, state="confirm", key=key)
            except (AnsibleConnectionFailure, Silent):
                self._display.vv(f"{key}: no answer over a new connection yet")
        return self._outcome(key, task_vars)

    def _reaches(self, old: str, task_vars: Any) -> bool:
        """Whether a connection other than `old` carries 16 KiB in both directions unchanged."""
        self._connection.reset()
        payload = secrets.token_hex(PROBE_BYTES // 2)
        answer = self._ask(task_vars, state="probe", payload=payload)
        fresh = not old or answer.get("connection") != old
        return fresh and answer.get("echo") == payload[::-1]

    def _outcome(self, key: str, task_vars: Any) -> dict[str, Any]:
        """What became of the change, asked over a connection made after the node has put it back."""
        deadline = time.monotonic() + 120
        while True:
            try:
                self._connection.reset()
                with within(60):
                    return self._ask(task_vars, state="outcome", key=key)
            except (AnsibleConnectionFailure, Silent):
                if time.monotonic() > deadline:
                    raise
