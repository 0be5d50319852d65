"""A real terminal: a tmux server of its own, into which keys are typed, and what is on its screen."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def kvctl(*arguments: str, **environ: str) -> list[str]:
    """The words of `kvctl tui` in an environment of its own."""
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", **environ}
    return ["env", "-i", *(f"{name}={value}" for name, value in given.items()), sys.executable, "-m", "kvctl", "tui",
            *arguments]  # fmt: skip


def settings(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "KVCTL_STATE_DIR": str(folder)}


class Terminal:
    """`send` types keys as tmux names them."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]

    def start(self, command: Sequence[str], width: int = 80, height: int = 24) -> None:
        text = f"{shlex.join(command)}; echo left $?; read wait"
        self._run("new-session", "-d", "-x", str(width), "-y", str(height), text)

    def send(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def resize(self, width: int, height: int) -> None:
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *options: str) -> str:
        return self._run("capture-pane", "-p", *options)

    def shows(self, *texts: str, without: tuple[str, ...] = (), patience: float = PATIENCE) -> str:
        end = time.monotonic() + patience
        while not all(text in (seen := self.screen()) for text in texts) or any(text in seen for text in without):
            assert time.monotonic() < end, f"{texts} without {without} not in\n{seen}"
            time.sleep(0.05)
        return seen

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout
