"""The command as a process: exit codes, streams, no traceback, and what it does not import."""

import json
import subprocess
import sys

import pytest

from kvctl.cli.main import COMMANDS, main
from kvctl.types.errors import ExitCode


def run(*args, env=None):
    argv = [sys.executable, "-m", "kvctl", *args]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, cwd="/", env=env, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def env(tmp_path):
    """A user with nothing configured."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "KVCTL_LAB_DIR": str(tmp_path / "no-lab"),
        "KVCTL_STATE_DIR": str(tmp_path / "state"),
    }


def test_help_names_every_verb_and_starts_with_examples():
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.index("Examples:") < done.stdout.index("Commands:")
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_verb_explains_itself_with_examples(name):
    done = run(name, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout


def test_a_mistyped_verb_is_a_usage_error_with_the_nearest_one(env):
    done = run("chek", env=env)
    assert done.returncode == ExitCode.USAGE
    assert "'check'" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "args",
    [
        ("check", "-i", "/nonexistent.yaml"),
        ("check",),
        ("plan", "--limit"),
        ("run", "show", "r-20260101-000000-aaaa"),
        ("check", "--concurrency", "0"),
        ("provision", "--plan", "p-000000000000", "--converge"),
        ("facts", "parse", "no-such-tool", "-"),
    ],
)
def test_bad_input_is_exit_2_with_words_and_no_traceback(args, env):
    done = run(*args, env=env)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_debug_shows_the_traceback(env):
    assert "Traceback" in run("--debug", "check", env=env).stderr


def modules(*args, env=None):
    """Names of all modules that a kvctl process imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kvctl", *args],
        capture_output=True, text=True, timeout=60, check=False, cwd="/", env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


HEAVY = {"duckdb", "_duckdb", "paramiko", "pydantic", "yaml", "fastapi", "textual", "ansible_runner", "msgspec"}


def test_help_imports_nothing_heavy():
    assert modules("--help") & HEAVY == set()


def test_status_reads_neither_inventory_nor_checks(env, tmp_path):
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("site: {name: t}\nnodes:\n- {name: a, address: 192.0.2.1, role: storage}\n")
    first = run("status", "-i", str(inventory), env=env)
    assert first.returncode == 0, first.stderr
    assert "no node was read yet" in first.stdout
    seen = modules("status", "-i", str(inventory), env=env)
    assert seen & {"paramiko", "pydantic", "yaml", "kvctl.fleet.checks.run", "ansible_runner"} == set()


def test_colour_is_a_setting_of_the_group_and_says_so(env):
    done = run("--color", "never", "config", "show", "--origin", "-o", "json", env=env)
    assert json.loads(done.stdout)["settings"]["color"] == {"value": "never", "origin": "--color"}
    assert run("--color", "blue", "config", "show", env=env).returncode == ExitCode.USAGE


def test_what_an_error_quotes_cannot_drive_the_terminal(env):
    done = run("check", "-i", "/no\x1b[2Jwhere.yaml", env=env)
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["tenant", "show", "\udcff"], "KV-CLI-014"),
        (["policy", "apply", "bytes", "--dry-run"], "KV-CLI-014"),
        (["residency", "whatif", "bytes"], "KV-CLI-014"),
        (["audit", "verify", "--keep", "nowhere/kept"], "KV-CLI-015"),
        (["audit", "export", "x" * 400], "KV-CLI-015"),
    ],
)
def test_bytes_that_are_no_text_and_files_that_cannot_be_used_are_the_callers(
    tmp_path, monkeypatch, capsys, args, code
):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVCTL_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert (ended.value.code, code in capsys.readouterr().err) == (ExitCode.USAGE, True)
