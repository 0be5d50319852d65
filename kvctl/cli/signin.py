"""A controller asked as a person of the site, whose password is typed."""

import sys

from kvctl.client.controller import ControllerClient
from kvctl.types.errors import RefusedError, UsageError

CODE_NEEDED = "KV-API-075"


def signed_in(client: ControllerClient, account: str) -> ControllerClient:
    """The same controller as a person. UsageError KV-CLI-010 when nobody is there to type the password."""
    import getpass

    from kvctl.client.choose import sign_in

    if not sys.stdin.isatty():
        raise UsageError("KV-CLI-010", "nobody is there to type a password", fix="run it on a terminal")
    password = getpass.getpass(f"password of {account}: ")
    try:
        return sign_in(client, account, password)
    except RefusedError as refused:
        if refused.code != CODE_NEEDED:
            raise
    return sign_in(client, account, password, getpass.getpass(f"code of {account}'s authenticator: "))
