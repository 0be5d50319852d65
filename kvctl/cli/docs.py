"""`python -m kvctl.cli.docs`: write the generated pages below docs/. A test says when they are stale."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kvctl.cli.entry import HELP
from kvctl.cli.main import COMMANDS
from kvctl.cli.main import command as root
from kvctl.types.errors import ExitCode
from kvctl.types.resources import PACKAGE, resource

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


def group_help() -> str:
    """What `kvctl --help` prints on a terminal of 80 columns."""
    return root.get_help(click.Context(root, info_name="kvctl", terminal_width=80, max_content_width=80)) + "\n"


def verb_index() -> str:
    rows = [f"| [{name}]({name}.md) | {line} |" for name, (_, line) in COMMANDS.items()]
    return "\n".join([MADE, "# Verbs\n", "| verb | |", "|---|---|", *rows, ""])


def exit_codes() -> str:
    rows = [f"| {int(code)} | {code.name.lower().replace('_', ' ')} | {MEANING[code]} |" for code in ExitCode]
    return "\n".join([MADE, "# Exit codes\n", "| code | name | meaning |", "|---|---|---|", *rows, ""])


def errors() -> str:
    """Every error code in the source, with the sentence and the remedy that go with it."""
    found = error_codes(PACKAGE, resource("playbooks"))
    rows = [f"## {code}\n\n{what}\n\n{fix}\n" for code, (what, fix) in sorted(found.items())]
    intro = (
        "Every error says what, where, why and what to do. Codes are stable. "
        "`...` stands for what is only known at run time.\n"
    )
    return "\n".join([MADE, "# Error codes\n", intro, *rows])


def error_codes(*roots: Path) -> dict[str, tuple[str, str]]:
    """Code -> (what, fix), from the calls, tables and texts in the Python files below the roots."""
    found: dict[str, tuple[str, str]] = {}
    for file in sorted(f for folder in roots for f in folder.rglob("*.py")):
        tree = ast.parse(file.read_text())
        names = constants(tree)
        for node in ast.walk(tree):
            for code, what, fix in mentions(node, names):
                kept = found.get(code, ("", ""))
                found[code] = (kept[0] or what, kept[1] or fix)
    return found


def constants(tree: ast.Module) -> dict[str, str]:
    """Module-level names that stand for a code."""
    return {
        target.id: text_of(node.value, {})
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and CODE.fullmatch(text_of(node.value, {}))
    }


def mentions(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """(code, what, fix) wherever a code stands: first argument of a call, key of a table, head of a text."""
    if isinstance(node, ast.Call):
        texts = [text_of(a, names) for a in node.args]
        fix = next((text_of(k.value, names) for k in node.keywords if k.arg == "fix"), "")
        for at, text in enumerate(texts):
            if CODE.fullmatch(text):
                said = [t or "..." for t in texts[at + 1 : at + 3]] + ["", ""]
                yield text, said[0], fix or said[1]
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            code = text_of(key, names) if key else ""
            if CODE.fullmatch(code):
                yield code, text_of(value, names), ""
    elif isinstance(node, ast.Constant | ast.JoinedStr):
        headed = re.match(rf"({CODE.pattern}):?\s+(.*)", text_of(node, names), re.DOTALL)
        if headed:
            yield headed[1], headed[2], ""


def text_of(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%\(?\w*\)?[srd]", "...", text_of(node.left, names))
    if isinstance(node, ast.BinOp):
        return (text_of(node.left, names) or "...") + (text_of(node.right, names) or "...")
    return ""


def main() -> None:
    docs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    HELP.write_text(group_help())
    for name, text in pages().items():
        target = docs / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        click.echo(str(target), err=True)


if __name__ == "__main__":
    main()
