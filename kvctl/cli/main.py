"""The kvctl command: a lazy group. A verb's module is imported only when that verb runs or shows its help."""

import importlib
import sys
from typing import Any

import click

from kvctl import __version__
from kvctl.types.errors import ExitCode, KvctlError, UsageError

# verb -> (module, line in the group's help). Kept here so that `kvctl --help` imports no verb.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("kvctl.cli.init", "Write a starter inventory."),
    "config": ("kvctl.cli.config", "Show where settings come from; validate the inventory."),
    "node": ("kvctl.cli.node", "Trust a node's host key; give kvctl access to it."),
    "facts": ("kvctl.cli.facts", "Show what was observed on a node; parse a tool's output."),
    "check": ("kvctl.cli.check", "Read every node and judge it."),
    "plan": ("kvctl.cli.plan", "Turn findings into reviewed steps."),
    "provision": ("kvctl.cli.provision", "Carry a plan out, or converge every role."),
    "deploy": ("kvctl.cli.deploy", "Daemons onto nodes that are provisioned."),
    "tui": ("kvctl.cli.tui", "The console in a terminal."),
    "status": ("kvctl.cli.status", "One screen from stored facts, worst first."),
    "run": ("kvctl.cli.run", "List, show, resume and cancel runs."),
    "store": ("kvctl.cli.store", "What a storage daemon holds; scrub it, drain it."),
    "tenant": ("kvctl.cli.tenant", "Tenants: take in, suspend, resume, off-board."),
    "key": ("kvctl.cli.key", "API keys of tenants; new epochs of their domains."),
    "account": ("kvctl.cli.account", "People who sign in to the console, and their roles."),
    "policy": ("kvctl.cli.policy", "What may be where, and for how long: apply, show."),
    "residency": ("kvctl.cli.residency", "Where chunks are, were, and would be outside."),
    "tier": ("kvctl.cli.tier", "Move chunks between tiers, approved and on record."),
    "retention": ("kvctl.cli.retention", "What must go, what the rest is kept by; apply it."),
    "hold": ("kvctl.cli.hold", "What must stay, whatever else says: set, lift."),
    "erase": ("kvctl.cli.erase", "Erase a tenant or a user everywhere, with a receipt."),
    "usage": ("kvctl.cli.usage", "Bytes, requests and tokens by tenant."),
    "approve": ("kvctl.cli.approve", "Look at what waits for approval, and vote."),
    "audit": ("kvctl.cli.audit", "The log of what happened, proofs, packs of evidence."),
    "size": ("kvctl.cli.size", "What a cache of some size is worth, from a trace."),
    "controller": ("kvctl.cli.controller", "Run the controller; back it up; let gateways in."),
    "completion": ("kvctl.cli.completion", "Print the completion script of a shell."),
    "fingerprint": ("kvctl.cli.fingerprint", "Show what stored KV was computed with; compare two engines."),
    "model": ("kvctl.cli.model", "Pin models by their content; compare a directory."),
    "lab": ("kvctl.cli.lab", "Test hosts on this machine, with planted faults."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in `COMMANDS` and loaded one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": None},
)
@click.version_option(__version__, "-V", "--version", prog_name="kvctl")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), help="Colour on stdout. [default: auto]")
def command(debug: bool, color: str | None) -> None:
    """Fleet, data and governance of a shared KV-cache tier on servers you own.

    \b
    Examples:
      kvctl init store1=10.0.0.11:storage gpu1=10.0.0.21:gpu
      kvctl check                     read every node and judge it
      kvctl plan                      what would be changed, and why
      kvctl provision --plan ID       carry that plan out
      kvctl status                    the fleet at a glance

    \b
    Exit codes: 0 ok, 1 failed, 2 usage, 3 a check failed, 4 unreachable,
    5 partial, 6 changes pending, 7 refused, 8 locked, 130 interrupted.
    """


def report(error: KvctlError) -> int:
    """Print an error on stderr and give the exit code it carries."""
    from kvctl.cli.output import note

    note(str(error))
    return int(error.exit_code)


def given(error: Exception) -> KvctlError | None:
    """The same as an error of what was given to kvctl: bytes that are no text, a file that cannot be used."""
    if isinstance(error, UnicodeError):
        why = "its bytes are not UTF-8"
        return UsageError("KV-CLI-014", "what was given is no text", why=why, fix="give a text, or another file")
    if isinstance(error, OSError) and error.filename is not None:
        where = str(error.filename)[:300]
        return UsageError("KV-CLI-015", "a file cannot be read or written", where=where, why=error.strerror or "")
    return None


def main(argv: list[str] | None = None) -> Any:
    """Entry point. Every way out of kvctl passes here, so the exit codes are decided here alone."""
    args = sys.argv[1:] if argv is None else argv
    debug = "--debug" in args
    try:
        "".join(args).encode()  # what is no text is said so before it comes to anything
        result = command.main(args=args, prog_name="kvctl", standalone_mode=False)
        sys.exit(result if isinstance(result, int) else ExitCode.OK)
    except KvctlError as error:
        if debug:
            raise
        sys.exit(report(error))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout went away (`kvctl check | head`); that is its choice.
        sys.stderr.close()
        sys.exit(ExitCode.OK)
    except Exception as error:
        if debug:
            raise
        wrapped = given(error) or KvctlError(
            "KV-BUG-001",
            f"kvctl itself failed: {type(error).__name__}: {error}",
            why="this is a defect of kvctl, not of your fleet",
            fix="run the same command with --debug and report what it prints",
        )
        sys.exit(report(wrapped))
