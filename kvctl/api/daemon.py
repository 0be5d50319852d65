"""What kvctld is: the controller of a site as a process of its own, on a unix socket and over https."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kvctl import __version__
from kvctl.types.errors import LockedError

if TYPE_CHECKING:
    import ssl

    from kvctl.api.server import Serving
    from kvctl.controller.core import Controller
    from kvctl.controller.settings import ControllerSettings
    from kvctl.daemon.log import Log
    from kvctl.daemon.notify import Notify

SOCKET = "kvctld.sock"
JOB_SECONDS = 20.0  # that a job under way is given at the end
log = logging.getLogger(__name__)


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
    from kvctl.api.server import Serving, open_tcp
    from kvctl.controller.accounts import Accounts
    from kvctl.controller.listening import addresses, placed, url
    from kvctl.controller.schedule import Job, Schedule, follow_commits, jobs_of

    made = create_app(controller, accounts=Accounts(controller.books), pages=pages, instead=instead)
    serving = Serving(made)
    serving.unix(path)
    jobs = jobs_of(controller)
    https = controller.settings.https
    places = addresses(listen or (https.listen if https else ""))
    port = 0
    if places:
        context, renew = tls_of(controller, places)
        ports = [serving.https(place, context, lambda where: placed(where, open_tcp)) for place in places]
        port = ports[0]
        controller.listens = url(places[0], port)
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


def tls_of(controller: Controller, places: list[str]) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """The https side's context, and what renews its certificate while it is in use."""
    from kvctl.api.server import tls_context
    from kvctl.controller.listening import plain
    from kvctl.controller.pki import Authority, default_names

    authority = Authority(controller.directory / "tls", controller.site)
    https = controller.settings.https

    def files() -> tuple[Path, Path]:
        if https and https.certificate:
            return Path(https.certificate), Path(https.key)
        names = [name for place in places for name in default_names(plain(place))]
        return authority.server(list(dict.fromkeys(names)))

    context = tls_context(*files(), authority.certificate_path)
    return context, lambda: context.load_cert_chain(*files())
