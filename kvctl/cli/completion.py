"""kvctl completion: shell completion with verbs, options and node names."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from kvctl.types.errors import KvctlError


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      kvctl completion bash > ~/.local/share/bash-completion/completions/kvctl
      kvctl completion zsh > ~/.zfunc/_kvctl
      kvctl completion fish > ~/.config/fish/completions/kvctl.fish
    """
    from kvctl.cli.main import command as root

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(root, {}, "kvctl", "_KVCTL_COMPLETE").source())


def node_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names from the inventory that a command would use; none when there is no inventory."""
    from kvctl.cli.settings import resolve_settings
    from kvctl.fleet.inventory.load import load

    try:
        path: Path = resolve_settings(inventory=ctx.params.get("inventory")).require_inventory()
        nodes = load(path).inventory.nodes
    except KvctlError:
        return []  # a completion has nowhere to say what is wrong
    return [CompletionItem(n.name, help=n.role) for n in nodes if n.name.startswith(incomplete)]
