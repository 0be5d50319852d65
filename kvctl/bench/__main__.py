"""`python -m kvctl.bench`: benchmarks that report their conditions with their numbers."""

import sys

import click

from kvctl.bench.catalogue import command as catalogue
from kvctl.bench.fleet import command as fleet
from kvctl.bench.gateway import command as gateway
from kvctl.bench.ledger import command as ledger
from kvctl.bench.pool import command as pool
from kvctl.bench.store.command import command as store
from kvctl.bench.ttft.command import command as ttft
from kvctl.types.errors import ExitCode, KvctlError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def command() -> None:
    """Benchmarks of kvctl against other tools, on hosts and servers that they start themselves. Need Linux."""


command.add_command(catalogue)
command.add_command(fleet)
command.add_command(gateway)
command.add_command(ledger)
command.add_command(pool)
command.add_command(store)
command.add_command(ttft)


def main(argv: list[str] | None = None) -> int:
    """Run a benchmark; the exit code as for kvctl."""
    try:
        result = command.main(args=argv, prog_name="python -m kvctl.bench", standalone_mode=False)
    except KvctlError as error:
        click.echo(str(error), err=True)
        return int(error.exit_code)
    except click.ClickException as error:
        error.show()
        return int(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return int(ExitCode.INTERRUPTED)
    return result if isinstance(result, int) else int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
