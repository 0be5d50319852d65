"""The snapshot of a gateway, as a service beside it: `python3 -m kvctl.connector.follow`.

It asks the controller for one that is newer than its own and waits with the question: a revoked key or a suspended
tenant is known within the second. While the controller is away the file stays, and serves until its end.
"""

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from urllib.parse import urlencode

import msgspec

from kvctl.connector.controllerhttp import ControllerAddress, ask, silent
from kvctl.connector.secretfile import write_secret
from kvctl.connector.signed import SignatureError, verify_text
from kvctl.connector.snapshotfile import LABEL, MAX_BYTES
from kvctl.types.errors import KvctlError

PATH = "/v1/snapshot/get"
WAIT = 20.0  # seconds that a question stays open
SLACK = 15.0  # for its answer to come after that
PERIOD = 300.0  # a snapshot without a change is fetched anew, because it ends
RETRY = 5.0
log = logging.getLogger("kvctl.snapshot")


class Answer(msgspec.Struct, frozen=True):
    number: int
    signed: str | None  # None: nothing newer


def newer(address: ControllerAddress, after: int, wait: float) -> Answer:
    """A snapshot with a larger number than `after`, within `wait` seconds. Errors as in `controllerhttp.ask`."""
    query = urlencode({"after": after, "wait": wait})
    data = ask(address, "GET", f"{PATH}?{query}", most=2 * MAX_BYTES, seconds=wait + SLACK)
    try:
        return msgspec.json.decode(data, type=Answer)
    except msgspec.DecodeError as error:
        raise silent(address, f"its answer is no snapshot: {error}") from None


@dataclass
class Follower:
    """Keeps a snapshot's file as the controller says. `ask(after, wait)` reaches it; `trusted` are its public keys."""

    ask: Callable[[int, float], Answer]
    file: Path
    trusted: tuple[bytes, ...]
    clock: Callable[[], float] = time.monotonic
    number: int = 0
    due: float = float("-inf")
    ended: threading.Event = field(default_factory=threading.Event)

    def round(self) -> bool:
        """Ask once and keep what is new; False when that is to be tried again soon."""
        left = self.due - self.clock()
        try:
            answer = self.ask(self.number, min(WAIT, left)) if left > 0 else self.ask(0, 0.0)
            if answer.signed is None:
                return left > 0
            data = answer.signed.encode()
            verify_text(data, LABEL, self.trusted)
            write_secret(self.file, data)
        except (KvctlError, SignatureError) as error:
            log.warning("no newer snapshot: %s", " ".join(str(error).split()))
            return False
        if answer.number != self.number:
            log.info("snapshot %d", answer.number)
        self.number, self.due = answer.number, self.clock() + PERIOD
        return True

    def run(self) -> None:
        while not self.ended.is_set():
            if not self.round():
                self.ended.wait(RETRY)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.connector.follow", description=__doc__)
    parser.add_argument("--controller", required=True, metavar="https://HOST:PORT")
    for name in ("certificate", "key", "ca", "snapshot"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--trusted", required=True, action="append", type=bytes.fromhex, metavar="PUBLIC KEY")
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    address = ControllerAddress(asked.controller, asked.certificate, asked.key, asked.ca)

    def stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    Follower(lambda after, wait: newer(address, after, wait), asked.snapshot, tuple(asked.trusted)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
