"""The controller: its books, its keys, its stores, and the services that work on them."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.controller import settings as settings_file
from kvctl.controller.authorize import authorize
from kvctl.controller.books import Books
from kvctl.controller.listening import url
from kvctl.controller.refusals import Refusals
from kvctl.controller.services import service
from kvctl.controller.settings import ControllerSettings
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal

if TYPE_CHECKING:
    from kvctl.controller.keystore import KeyStore
    from kvctl.controller.schedule import Schedule

log = logging.getLogger(__name__)
Service = Callable[["Controller", Principal, Any], dict[str, Any]]


class Controller:
    """One site's controller in this process. `settings` name its directory, inventory and stores."""

    def __init__(self, settings: ControllerSettings, books: Books) -> None:
        # One tuple: threads that read the file at the same time never pair one's settings with the other's stamp.
        self._read = settings, settings_file.stamp(settings.directory)
        self.settings_trouble: KvctlError | None = None
        self.books = books
        self.refusals = Refusals(books.commit)
        self.schedule: Schedule | None = None  # of a kvctld; None in a process that lives for one call
        self.listens = ""  # where this process has its https side: https://HOST:PORT

    @property
    def settings(self) -> ControllerSettings:
        """As the settings file says now: a deployment writes stores, gateways and connectors into it.

        While it is not right, somebody being at it perhaps, what it said before goes on: nobody could be revoked else.
        """
        settings, before = self._read
        stamp = settings_file.stamp(settings.directory)
        if stamp != before:
            try:
                settings, self.settings_trouble = settings_file.renewed(settings), None
            except UsageError as error:
                self.settings_trouble = error
                log.error("settings as before: %s", error)
            self._read = settings, stamp
        return settings

    @settings.setter
    def settings(self, settings: ControllerSettings) -> None:
        self._read = settings, self._read[1]

    @property
    def console(self) -> str:
        """Where a browser finds the console, as far as this controller can tell: as it listens, or is set to."""
        return self.listens or (url(self.settings.https.listen) if self.settings.https else "")

    @property
    def directory(self) -> Path:
        return self.settings.directory

    @property
    def site(self) -> str:
        return self.settings.site

    @cached_property
    def keystore(self) -> "KeyStore":
        from kvctl.controller.keystore import KeyStore

        return KeyStore(self.directory / "keys")

    def call(self, name: str, who: Principal, request: Any) -> dict[str, Any]:
        """Do one operation as this principal. What was refused is on record, too."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise UsageError("KV-CTL-004", f"there is no operation {name!r}")
        try:
            request = authorize(operation, who, request)
        except RefusedError as refused:
            self.refusals.record(who, {"operation": name, "code": refused.code})
            raise
        return service(name)(self, who, request)

    def close(self) -> None:
        try:
            self.refusals.settle(every=True)
        finally:
            self.books.close()


@contextlib.contextmanager
def opened(settings: ControllerSettings) -> Iterator[Controller]:
    """The controller in this process, for as long as the block lasts."""
    books = Books(settings.directory, settings.site)
    controller = Controller(settings, books)
    try:
        from kvctl.controller.tenants import complete

        complete(controller)
        yield controller
    finally:
        controller.close()
