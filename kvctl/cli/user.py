"""Naming an end user to a verb: the id is personal data. It may come from a file or a pipe, and is printed nowhere."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kvctl.types.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def user_options(function: F) -> F:
    for option in (
        click.option("--user", help="The user's id; other users of this machine may see it while kvctl runs."),
        click.option("--user-file", type=click.File(), help="A file whose first line is the user's id; - for stdin."),
        click.option("--subject", metavar="PSEUDONYM", help="Or the user's pseudonym, 32 hexadecimal digits."),
    ):
        function = option(function)
    return function


def user_id(user: str | None, user_file: Any) -> str | None:
    """The id that the options give. UsageError KV-CLI-012 for two of them, or an empty file."""
    if user_file is None:
        return user
    if user is not None:
        raise UsageError("KV-CLI-012", "the user was named twice", fix="--user or --user-file")
    line: str = user_file.readline().rstrip("\r\n")
    if not line:
        raise UsageError("KV-CLI-012", "the file names no user", fix="its first line is the user's id")
    return line
