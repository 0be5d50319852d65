"""kvctld: the controller of a site as a process of its own, on a unix socket and over https."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvctl import __version__
from kvctl.types.errors import ExitCode, KvctlError, LockedError

if TYPE_CHECKING:
    import ssl

    from kvctl.api.server import Serving
    from kvctl.controller.core import Controller
    from kvctl.controller.settings import ControllerSettings
    from kvctl.daemon.log import Log
    from kvctl.daemon.notify import Notify

SOCKET = "kvctld.sock"
JOB_SECONDS = 20.0  # that a job under way is given at the end
DESCRIPTION = "The controller of a site. docs/controller.md describes its settings, files and signals."
log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes are those of kvctl: 0 after an orderly end, 2 wrong settings, 8 another controller has the state."""
    parser = argparse.ArgumentParser("kvctld", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-i", "--inventory", metavar="FILE", help="as kvctl finds it when it is not given")
    parser.add_argument("--state-dir", metavar="DIR")
    parser.add_argument("--socket", type=Path, metavar="PATH", help=f"unix socket [default: <state>/<site>/{SOCKET}]")
    parser.add_argument("--listen", metavar="ADDRESS:PORT", help="https, too [default: as controller.yaml says]")
    parser.add_argument("--version", action="version", version=f"kvctld {__version__}")
    asked = parser.parse_args(argv)
    try:
        run(settings_for(asked.inventory, asked.state_dir), asked.socket, asked.listen)
        return int(ExitCode.OK)
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except Exception as error:  # noqa: BLE001  a start that fails in a way nobody foresaw still has a code
        sys.stderr.write(traceback.format_exc())
        sys.stderr.write(f"{KvctlError('KV-CTL-016', 'a fault of kvctld', why=f'{type(error).__name__}: {error}')}\n")
        return int(ExitCode.FAILED)


def settings_for(inventory: str | None, state_dir: str | None) -> ControllerSettings:
    """From the same flags, environment and files as a kvctl command's."""
    from kvctl.cli.settings import resolve
    from kvctl.client.choose import site_settings

    found = resolve({"inventory": inventory, "state_dir": state_dir}, os.environ, Path.cwd())
    return site_settings(found.inventory.value, found.state_dir.value)


def run(settings: ControllerSettings, socket: Path | None = None, listen: str | None = None) -> None:
    """Serve until SIGTERM or SIGINT; then answer what is under way, and close the books.

    LockedError KV-CTL-010 when another controller has this state.
    """
    from kvctl.daemon.log import Log
    from kvctl.daemon.notify import Notify

    own = Log(sys.stderr)
    own.attach("kvctl")
    notify = Notify(os.environ, own)
    notify.status("opening the books")
    path = socket or settings.directory / SOCKET
    with opened(settings) as controller:
        asyncio.run(serve(controller, path, listen, notify, own))
    own.info("stopped", site=settings.site)


@contextlib.contextmanager
def opened(settings: ControllerSettings) -> Iterator[Controller]:
    from kvctl.controller import core

    try:
        with core.opened(settings) as controller:
            yield controller
    except LockedError as locked:
        if not locked.code.startswith("KV-LEDGER-"):
            raise
        raise LockedError(
            "KV-CTL-010", "another controller has this site's state", where=str(settings.directory), why=locked.what,
            fix=f"ask that one: kvctl --controller unix:{settings.directory / SOCKET}",
        ) from None  # fmt: skip


async def serve(controller: Controller, path: Path, listen: str | None, notify: Notify, own: Log) -> None:
    from kvctl.api.app import create_app
    from kvctl.api.console import instead, pages
    from kvctl.api.server import Serving
    from kvctl.controller.accounts import Accounts
    from kvctl.controller.schedule import Job, Schedule, follow_commits, jobs_of

    made = create_app(controller, accounts=Accounts(controller.books), pages=pages, instead=instead)
    serving = Serving(made)
    serving.unix(path)
    jobs = jobs_of(controller)
    https = controller.settings.https
    address = listen or (https.listen if https else None)
    port = 0
    if address:
        context, renew = tls_of(controller, address)
        port = serving.https(address, context)
        jobs.append(Job("certificate", 86400.0, renew))
    schedule = Schedule.of(jobs)
    controller.schedule = schedule
    follow_commits(controller, schedule)
    schedule.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, serving, notify)
    told = loop.create_task(tell_when_ready(serving, notify, own, path, port))
    try:
        await serving.run()
    finally:
        told.cancel()
        path.unlink(missing_ok=True)
        if not await asyncio.to_thread(schedule.stop, JOB_SECONDS):
            log.warning("a job was still running after %.0f s and was left", JOB_SECONDS)


def stop(serving: Serving, notify: Notify) -> None:
    notify.stopping("answering what is under way")
    serving.stop()


async def tell_when_ready(serving: Serving, notify: Notify, own: Log, path: Path, port: int) -> None:
    while not serving.started:
        await asyncio.sleep(0.01)
    notify.ready("serving")
    own.info("serving", socket=str(path), port=port, pid=os.getpid(), version=__version__)


def tls_of(controller: Controller, address: str) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """The https side's context, and what renews its certificate while it is in use."""
    from kvctl.api.server import tls_context
    from kvctl.controller.pki import Authority, default_names

    authority = Authority(controller.directory / "tls", controller.site)
    https = controller.settings.https

    def files() -> tuple[Path, Path]:
        if https and https.certificate:
            return Path(https.certificate), Path(https.key)
        return authority.server(default_names(address))

    context = tls_context(*files(), authority.certificate_path)
    return context, lambda: context.load_cert_chain(*files())
