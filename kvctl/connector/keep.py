"""The leases of an engine, as a service beside it: `python3 -m kvctl.connector.keep`.

It asks the controller which scopes there are and waits with the question until that changes: a tenant that is
suspended, an epoch that ends or a new domain is known within the second. Leases are renewed every five minutes. A
controller that is away takes nothing: what was leased serves until its end.
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
from kvctl.connector.keys import Identity, KeyLease
from kvctl.connector.renew import Renewer, Wanted, fetch, refuses
from kvctl.types.errors import KvctlError

PATH = "/v1/lease/scopes"
WAIT = 20.0  # seconds that a question stays open
SLACK = 15.0  # for its answer to come after that
PERIOD = 300.0  # seconds between renewals
RETRY = 15.0  # after the controller did not answer
MOST = 4 << 20  # bytes of an answer
log = logging.getLogger("kvctl.leases")


class LeasedScope(msgspec.Struct, frozen=True):
    tenant: str
    domain: str
    epoch: str


class Scopes(msgspec.Struct, frozen=True):
    """An answer: `number` grows with every change that concerns scopes."""

    number: int
    scopes: tuple[LeasedScope, ...]


def scopes(address: ControllerAddress, holder: bytes, after: int, wait: float) -> Scopes:
    """The scopes that this connector may have, as soon as there are others than at `after`, or after `wait` seconds.

    Errors as in `controllerhttp.ask`.
    """
    query = urlencode({"holder": holder.hex(), "after": after, "wait": wait})
    data = ask(address, "GET", f"{PATH}?{query}", most=MOST, seconds=wait + SLACK)
    try:
        return msgspec.json.decode(data, type=Scopes)
    except msgspec.DecodeError as error:
        raise silent(address, f"its answer names no scopes: {error}") from None


@dataclass
class Keeper:
    """Keeps a directory of leases as the controller says. `ask(after, wait)` and `get(tenant, domain)` reach it."""

    ask: Callable[[int, float], Scopes]
    get: Callable[[str, str], KeyLease]
    directory: Path
    period: float = PERIOD
    retry: float = RETRY
    clock: Callable[[], float] = time.monotonic
    number: int = 0
    known: frozenset[LeasedScope] = frozenset()
    due: float = float("-inf")
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.renewer = Renewer(self.get, self._left_over())

    def _left_over(self) -> list[Wanted]:
        """Files of an earlier run: they go unless their scope is named again."""
        return [Wanted("", "", path) for path in sorted(self.directory.glob("*.json"))]

    def round(self) -> bool:
        """Ask once, and do what the answer says; False when that is to be tried again soon."""
        wait = min(WAIT, max(0.0, self.due - self.clock()))
        try:
            answer = self.ask(self.number, wait)
        except KvctlError as error:
            log.warning("the controller names no scopes: %s: %s", error.what, error.why)
            if refuses(error):
                self._take(Scopes(0, ()))
            self.renewer.drop_over()
            return False
        changed = frozenset(answer.scopes) != self.known
        self._take(answer)
        if changed or self.clock() >= self.due:
            failed = self.renewer.renew()
            self.due = self.clock() + (self.retry if failed else self.period)
            log.info("leases of %d scopes, %d not renewed", len(self.known), len(failed))
        return True

    def _take(self, answer: Scopes) -> None:
        self.number, self.known = answer.number, frozenset(answer.scopes)
        self.renewer.want([Wanted(one.tenant, one.domain, self.directory / file_name(one)) for one in answer.scopes])

    def run(self) -> None:
        while not self.ended.is_set():
            if not self.round():
                self.ended.wait(self.retry)


def file_name(scope: LeasedScope) -> str:
    """Names have no dot. A new epoch has a file of its own: the old one's goes when it is not named any more."""
    return f"{scope.tenant}.{scope.domain}.{scope.epoch[:16]}.json"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.connector.keep", description=__doc__)
    parser.add_argument("--controller", required=True, metavar="https://HOST:PORT")
    for name in ("certificate", "key", "ca", "identity", "leases"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="ask once which scopes there are, and end")
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    address = ControllerAddress(asked.controller, asked.certificate, asked.key, asked.ca)
    try:
        holder = Identity.load(asked.identity).public
        if asked.check:
            sys.stdout.write(f"scopes: {len(scopes(address, holder, 0, 0.0).scopes)}\n")
            return 0
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    keeper = Keeper(
        lambda after, wait: scopes(address, holder, after, wait),
        lambda tenant, domain: fetch(address, tenant, domain, holder), asked.leases,
    )  # fmt: skip

    def stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)  # also out of an open question; files are replaced whole or not at all

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
