"""What a command on a node gave."""

from dataclasses import dataclass
from typing import Protocol

OUTPUT_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    """`rc` is -1 when a signal ended the command. `ended_at` is the controller's clock, seconds since the epoch."""

    rc: int
    out: bytes
    err: bytes
    ended_at: float = 0.0  # when its last output and its status were here


class Stream(Protocol):
    """A running command with an open stdin."""

    def readline(self, timeout: float) -> str:
        """The next line without its newline; "" at the end of the output. UnreachableError KV-SSH-007."""
        ...

    def write(self, data: bytes) -> None:
        """OSError when the command or the connection is gone."""
        ...

    @property
    def alive(self) -> bool: ...

    def error_text(self) -> str: ...

    def close(self) -> None: ...
