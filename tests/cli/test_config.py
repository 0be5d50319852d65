"""Settings and `kvctl config`, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvctl.cli.config import command
from kvctl.cli.settings import KEYS, inventory_path, resolve, resolve_settings
from kvctl.types.errors import UsageError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "inventory.example.yaml"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory, an empty home and no kvctl variable but a lab directory that is not there."""
    for name in KEYS:
        monkeypatch.delenv(f"KVCTL_{name.upper()}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("KVCTL_LAB_DIR", str(tmp_path / "lab"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def run(*args: str) -> Result:
    return CliRunner().invoke(command, list(args), standalone_mode=False)


def user_config(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config" / "kvctl" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_the_first_source_wins(tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_settings(timeout=None).timeout.origin == "default"
    user_config(tmp_path, "# mine\ntimeout = 5\nssh = 'system'\n")
    assert resolve_settings(timeout=None).timeout == type(resolve_settings().timeout)(
        5.0, f"{tmp_path}/config/kvctl/config.toml:2"
    )
    (clean / "kvctl.toml").write_text("timeout = 6\n")
    assert resolve_settings(timeout=None).timeout.value == 6.0
    assert resolve_settings().ssh.value == "system"
    monkeypatch.setenv("KVCTL_TIMEOUT", "7.5")
    assert resolve_settings(timeout=None).timeout.value == 7.5
    assert resolve_settings(timeout=None).timeout.origin == "KVCTL_TIMEOUT"
    assert resolve_settings(timeout=8.0).timeout.origin == "--timeout"


def test_a_flag_left_alone_does_not_override_a_file(clean: Path) -> None:
    (clean / "kvctl.toml").write_text("timeout = 6\nconcurrency = 3\noutput = 'json'\n")
    shown = json.loads(run("show", "--origin").stdout)["settings"]
    assert shown["timeout"] == {"value": 6.0, "origin": f"{clean}/kvctl.toml:1"}
    assert shown["concurrency"]["value"] == 3
    shown = json.loads(run("show", "--origin", "--timeout", "60").stdout)["settings"]
    assert shown["timeout"] == {"value": 60.0, "origin": "--timeout"}


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCTL_CONCURRENCY", "")
    assert resolve_settings().concurrency.origin == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMEOUT", "nan"),
        ("TIMEOUT", "0"),
        ("TIMEOUT", "soon"),
        ("CONCURRENCY", "0"),
        ("CONCURRENCY", "2.5"),
        ("CONCURRENCY", "99999999999999"),
        ("OUTPUT", "xml"),
        ("COLOR", "blue"),
        ("SSH", "telnet"),
    ],
)
def test_values_that_are_not_allowed(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"KVCTL_{name}", value)
    with pytest.raises(UsageError) as caught:
        resolve_settings()
    assert (caught.value.code, caught.value.where) == ("KV-CFG-003", f"KVCTL_{name}")
    assert "allowed:" in caught.value.why


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("timeout = \n", "KV-CFG-001", ""),
        ("a = " + "[" * 10_000, "KV-CFG-001", ""),
        ("\ntimeot = 1\n", "KV-CFG-002", ":2"),
        ("[kvctl]\ntimeout = 1\n", "KV-CFG-002", ":1"),
        ("timeout = true\n", "KV-CFG-003", ":1"),
        ("concurrency = 'x'\n", "KV-CFG-003", ":1"),
        ("inventory = ''\n", "KV-CFG-003", ":1"),
    ],
)
def test_settings_files_that_are_wrong(clean: Path, text: str, code: str, line: str) -> None:
    (clean / "kvctl.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        resolve_settings()
    assert (caught.value.code, caught.value.where) == (code, f"{clean}/kvctl.toml{line}")
    if code == "KV-CFG-002" and "timeot" in text:
        assert "did you mean 'timeout'" in caught.value.fix


def test_paths_belong_to_the_place_that_names_them(
    tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_config(tmp_path, "inventory = 'site.yaml'\nstate_dir = '~/state'\n")
    settings = resolve_settings()
    assert settings.inventory.value == tmp_path / "config" / "kvctl" / "site.yaml"
    assert settings.state_dir.value == tmp_path / "home" / "state"
    monkeypatch.setenv("KVCTL_INVENTORY", "other.yaml")
    assert resolve_settings().inventory.value == clean / "other.yaml"


def test_the_state_directory_follows_xdg(tmp_path: Path) -> None:
    environ = {"HOME": "/home/ada", "KVCTL_LAB_DIR": "/nowhere"}
    assert resolve({}, environ, tmp_path).state_dir.value == Path("/home/ada/.local/state/kvctl")
    assert resolve({}, {**environ, "XDG_STATE_HOME": "/s"}, tmp_path).state_dir.value == Path("/s/kvctl")
    relative = resolve({}, {**environ, "XDG_STATE_HOME": "s"}, tmp_path)
    assert relative.state_dir.value == Path("/home/ada/.local/state/kvctl")


def test_where_the_inventory_is_looked_for(tmp_path: Path, clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        inventory_path(resolve_settings())
    assert caught.value.code == "KV-INV-001"
    assert "kvctl init" in caught.value.fix
    lab = tmp_path / "lab" / "inventory.yaml"
    lab.parent.mkdir()
    lab.write_text(EXAMPLE.read_text())
    assert inventory_path(resolve_settings()) == lab
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "lab" in captured.err
    (clean / "inventory.yaml").write_text(EXAMPLE.read_text())
    assert inventory_path(resolve_settings()) == clean / "inventory.yaml"
    assert capsys.readouterr().err == ""


def test_show_names_the_inventory_and_its_hash(clean: Path) -> None:
    (clean / "inventory.yaml").write_text(EXAMPLE.read_text())
    about = json.loads(run("show", "-o", "json").stdout)["inventory"]
    assert about["path"] == str(clean / "inventory.yaml")
    assert len(about["sha256"]) == 64
    table = run("show", "--origin")
    assert about["sha256"] in table.stderr
    assert "ORIGIN" in table.stdout
    (clean / "inventory.yaml").write_text("nodes: [}")
    assert "not valid" in json.loads(run("show", "-o", "json").stdout)["inventory"]["state"]


def test_validate_says_yes_and_counts() -> None:
    result = run("validate", str(EXAMPLE))
    assert result.return_value == 0
    assert result.stdout == ""
    assert "5 nodes, 2 roles, 3 pools, 1 waivers" in result.stderr
    document = json.loads(run("validate", str(EXAMPLE), "-o", "json").stdout)
    assert (document["valid"], document["errors"]) == (True, [])


def test_validate_names_every_error(clean: Path) -> None:
    (clean / "inventory.yaml").write_text("site: {nam: x}\nnodes: [{name: a}]\n")
    result = run("validate")
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2
    for part in ("inventory.yaml:1:8 site.nam:", "did you mean 'name'", "nodes[0].address: is required"):
        assert part in str(result.exception)
    as_json = run("validate", "-o", "json")
    assert as_json.return_value == 2
    errors = json.loads(as_json.stdout)["errors"]
    assert [(e["line"], e["column"]) for e in errors if e["field"] == "site.nam"] == [(1, 8)]
    assert len(errors) == 4
    absent = run("validate", "absent.yaml", "-o", "json")
    assert json.loads(absent.stdout)["errors"][0]["code"] == "KV-INV-001"
    assert absent.return_value == 2


def test_schema_is_json() -> None:
    assert json.loads(run("schema").stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_path_says_what_exists(clean: Path) -> None:
    (clean / "kvctl.toml").write_text("timeout = 6\n")
    rows = {row["what"]: row for row in json.loads(run("path", "-o", "json").stdout)["paths"]}
    assert rows["project file"] == {"what": "project file", "exists": "yes", "path": f"{clean}/kvctl.toml"}
    assert rows["inventory"]["path"] is None


def test_settings_are_light() -> None:
    """Every command resolves settings, so that must load neither pydantic nor yaml nor click."""
    code = (
        "import sys, kvctl.cli.settings as s; s.resolve_settings();"
        "print({'pydantic', 'yaml', 'click'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT)}
    )
    assert run.stdout.strip() == "set()", run.stderr


def test_the_process_exits_with_2(clean: Path) -> None:
    (clean / "inventory.yaml").write_text("nodes: [}")
    run = subprocess.run(
        [sys.executable, "-m", "kvctl", "config", "validate"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT), "HOME": str(clean)},
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert "inventory.yaml:1:9" in run.stderr
    assert "Traceback" not in run.stderr
