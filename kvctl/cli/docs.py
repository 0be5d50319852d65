"""`python -m kvctl.cli.docs`: write the generated pages below docs/. A test says when they are stale."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kvctl.cli.main import COMMANDS
from kvctl.cli.main import command as root
from kvctl.types.errors import ExitCode

CODE = re.compile(r"KV-[A-Z]+-\d{3}")
MADE = "<!-- made by `python -m kvctl.cli.docs`; do not edit -->\n"
MEANING = {
    ExitCode.OK: "Done; nothing wrong.",
    ExitCode.FAILED: "It was tried and failed.",
    ExitCode.USAGE: "A flag, the inventory or the configuration is wrong; nothing was done.",
    ExitCode.CHECK_FAILED: "A check failed, or a critical check is unknown and not waived.",
    ExitCode.UNREACHABLE: "No node answered.",
    ExitCode.PARTIAL: "Some nodes are done, others were not reached or failed.",
    ExitCode.CHANGES_PENDING: "There are changes to make; only with --detailed-exitcode.",
    ExitCode.REFUSED: "A rule forbids it: a stale plan, a drive with data, a policy or a hold.",
    ExitCode.LOCKED: "Somebody else is at work on the same site or node.",
    ExitCode.INTERRUPTED: "Stopped by Ctrl-C; what was and was not done is printed.",
}


def pages() -> dict[str, str]:
    """Path below docs/ -> text, of every generated page."""
    from kvctl.fleet.inventory import reference

    made = {f"verbs/{name}.md": verb_page(name) for name in COMMANDS}
    made["verbs/README.md"] = verb_index()
    made["exit-codes.md"] = exit_codes()
    made["errors.md"] = errors()
    made["inventory.md"] = MADE + reference.markdown()
    made["checks.md"] = MADE + checks()
    return made


def checks() -> str:
    from kvctl.client.catalogue import markdown

    return markdown()


def verb_page(name: str) -> str:
    parts = [MADE, f"# kvctl {name}\n", COMMANDS[name][1], ""]
    group = root.get_command(click.Context(root), name)
    assert group is not None
    for path, command in commands(f"kvctl {name}", group):
        context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
        if path != f"kvctl {name}":
            parts.append(f"## {path}\n")
        parts += ["```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


def commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            if inner is not None and not inner.hidden:
                yield from commands(f"{path} {name}", inner)


def verb_index() -> str:
    rows = [f"| [{name}]({name}.md) | {line} |" for name, (_, line) in COMMANDS.items()]
    return "\n".join([MADE, "# Verbs\n", "| verb | |", "|---|---|", *rows, ""])


def exit_codes() -> str:
    rows = [f"| {int(code)} | {code.name.lower().replace('_', ' ')} | {MEANING[code]} |" for code in ExitCode]
    return "\n".join([MADE, "# Exit codes\n", "| code | name | meaning |", "|---|---|---|", *rows, ""])


def errors() -> str:
    """Every error code in the source, with the sentence and the remedy that go with it."""
    found = error_codes(Path(__file__).resolve().parent.parent)
    rows = [f"## {code}\n\n{what}\n\n{fix}\n" for code, (what, fix) in sorted(found.items())]
    intro = (
        "Every error says what, where, why and what to do. Codes are stable. "
        "`...` stands for what is only known at run time.\n"
    )
    return "\n".join([MADE, "# Error codes\n", intro, *rows])


def error_codes(package: Path) -> dict[str, tuple[str, str]]:
    """Code -> (what, fix) from the calls in the package's source."""
    found: dict[str, tuple[str, str]] = {}
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                texts = [text_of(a) for a in node.args]
                for at, text in enumerate(texts):
                    if CODE.fullmatch(text):
                        fix = next((text_of(k.value) for k in node.keywords if k.arg == "fix"), "")
                        what = texts[at + 1] if at + 1 < len(texts) else ""
                        kept = found.get(text, ("", ""))
                        found[text] = (kept[0] or what, kept[1] or fix)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                text = str(node.value.value)
                if CODE.fullmatch(text):
                    found.setdefault(text, ("", ""))
    return found


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in node.values)
    return ""


def main() -> None:
    docs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    for name, text in pages().items():
        target = docs / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        click.echo(str(target), err=True)


if __name__ == "__main__":
    main()
