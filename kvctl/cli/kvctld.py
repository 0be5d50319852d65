"""kvctld: the command line of the daemon."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from kvctl import __version__
from kvctl.cli.settings import resolve
from kvctl.client.offline import serve
from kvctl.types.errors import ExitCode, KvctlError

SOCKET = "kvctld.sock"
DESCRIPTION = "The controller of a site. docs/controller.md describes its settings, files and signals."


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes are those of kvctl: 0 after an orderly end, 2 wrong settings, 8 another controller has the state."""
    parser = argparse.ArgumentParser("kvctld", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-i", "--inventory", metavar="FILE", help="as kvctl finds it when it is not given")
    parser.add_argument("--state-dir", metavar="DIR")
    parser.add_argument("--socket", type=Path, metavar="PATH", help=f"unix socket [default: <state>/<site>/{SOCKET}]")
    parser.add_argument("--listen", metavar="ADDRESS:PORT[,...]", help="https, too [default: as controller.yaml says]")
    parser.add_argument("--version", action="version", version=f"kvctld {__version__}")
    asked = parser.parse_args(argv)
    try:
        serve(*places(asked.inventory, asked.state_dir), asked.socket, asked.listen)
        return int(ExitCode.OK)
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except Exception as error:  # noqa: BLE001  a start that fails in a way nobody foresaw still has a code
        sys.stderr.write(traceback.format_exc())
        sys.stderr.write(f"{KvctlError('KV-CTL-016', 'a fault of kvctld', why=f'{type(error).__name__}: {error}')}\n")
        return int(ExitCode.FAILED)


def places(inventory: str | None, state_dir: str | None) -> tuple[Path | None, Path]:
    """The inventory and the state directory, from the same flags, environment and files as a kvctl command's."""
    found = resolve({"inventory": inventory, "state_dir": state_dir}, os.environ, Path.cwd())
    return found.inventory.value, found.state_dir.value
