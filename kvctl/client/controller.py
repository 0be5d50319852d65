"""The controller as faces see it: one method, two carriers.

`Direct` opens the books in this process for the length of a call. `Http` (kvctl.client.http) asks a kvctld.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any, Protocol

from kvctl.types.principals import Principal, Role

if TYPE_CHECKING:
    from kvctl.controller.settings import ControllerSettings


class ControllerClient(Protocol):
    """What every face uses. Raises KvctlError with the same codes over either carrier."""

    def call(self, name: str, request: Any) -> dict[str, Any]: ...


# Whoever may open the state directory, or the controller's socket, runs this site. Others approve and audit.
LOCAL_ROLES = frozenset({Role.OPERATOR, Role.ADMIN})


def local_principal(uid: int | None = None) -> Principal:
    """The operating system's user: this process's, or the peer's of a socket."""
    number = os.geteuid() if uid is None else uid
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = str(number)
    return Principal(f"unix:{name}", LOCAL_ROLES, fresh=True)


class Direct:
    """The controller's services in this process, over a local state directory."""

    def __init__(self, settings: ControllerSettings, who: Principal | None = None) -> None:
        self._settings = settings
        self._who = who or local_principal()

    def call(self, name: str, request: Any) -> dict[str, Any]:
        from kvctl.controller.core import opened

        with opened(self._settings) as controller:
            return controller.call(name, self._who, request)
