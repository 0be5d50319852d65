"""`kvgated --config FILE [--check]`: serve until told to stop."""

import argparse
import asyncio
import gc
import os
import resource
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from kvctl import __version__
from kvctl.daemon.log import Log
from kvctl.daemon.notify import Notify
from kvctl.gateway.config import load
from kvctl.types.errors import ExitCode, KvctlError

DESCRIPTION = "The gateway in front of inference engines. docs/kvgated.md describes the configuration."


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes are those of kvctl: 0 after an orderly end, 2 for a wrong configuration, 1 when starting failed."""
    parser = argparse.ArgumentParser("kvgated", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="YAML; there is no default")
    parser.add_argument("--check", action="store_true", help="judge the configuration and its key files, and end")
    parser.add_argument("--version", action="version", version=f"kvgated {__version__}")
    asked = parser.parse_args(argv)
    try:
        return run(asked.config, check=asked.check)
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except Exception as error:  # noqa: BLE001  a start that fails in a way nobody foresaw still has a code
        sys.stderr.write(traceback.format_exc())
        defect = KvctlError("KV-GATE-060", "a fault of kvgated", why=f"{type(error).__name__}: {error}")
        sys.stderr.write(f"{defect}\n")
        return int(ExitCode.FAILED)


def run(path: Path, *, check: bool) -> int:
    config = load(path)
    # Imported late: `--help` and a wrong configuration need no HTTP library.
    from kvctl.gateway.daemon import Daemon, check_files

    identity = check_files(config)
    if check:
        sys.stdout.write(f"{path}: gateway {config.gateway}, {len(config.engines)} engines: in order\n")
        return int(ExitCode.OK)
    log = Log(sys.stderr)
    log.attach("aiohttp")
    raise_descriptors(log)

    # What was imported stays: a collection that looks through it holds up every stream for tens of milliseconds.
    gc.collect()
    gc.freeze()

    async def serve() -> None:
        await Daemon(config, identity, log, Notify(os.environ, log)).run()

    asyncio.run(serve())
    return int(ExitCode.OK)


def raise_descriptors(log: Log) -> None:
    """As many descriptors as this process may have: a request takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as bad:
        log.warning("descriptor limit not raised", soft=soft, hard=hard, why=str(bad))


if __name__ == "__main__":
    sys.exit(main())
