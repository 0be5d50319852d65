import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvctl.cli.fingerprint import command
from kvctl.types.errors import ExitCode, KvctlError

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "fingerprints.json").read_text())


@pytest.fixture(autouse=True)
def _no_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, vector in zip(("a.json", "b.json"), VECTORS, strict=True):
        Path(name).write_text(json.dumps(vector))


def run(*args, data=None):
    return CliRunner().invoke(command, args, input=data, standalone_mode=False)


def test_it_prints_every_field_in_at_most_100_columns():
    done = run("a.json")
    assert done.return_value == ExitCode.OK
    lines = done.stdout.splitlines()
    assert ["digest", VECTORS[0]["digest"]] in [line.split() for line in lines]
    assert ["rope_scaling.factor", "8.0"] in [line.split() for line in lines]
    assert {line.split()[0] for line in lines if line} >= VECTORS[0].keys() - {"schema", "config"}
    assert max(len(line) for line in lines) <= 100


def test_its_json_can_be_given_back_to_it():
    done = run("a.json", "-o", "json")
    assert json.loads(done.stdout) == VECTORS[0]
    assert run("-", "-o", "json", data=done.stdout).stdout == done.stdout


def test_equal_fingerprints_end_with_0():
    done = run("--diff", "a.json", "a.json")
    assert done.return_value == ExitCode.OK
    assert done.stdout.strip() == ""
    assert "equal" in done.stderr


def test_differing_fields_are_named_and_end_with_3():
    done = run("--diff", "a.json", "b.json")
    assert done.return_value == ExitCode.CHECK_FAILED
    lines = [line.split() for line in done.stdout.splitlines() if line]
    at = lines.index(["tensor_parallel", "A", "1"])
    assert lines[at + 1] == ["tensor_parallel", "B", "4"]
    assert ["weights", "A", VECTORS[0]["weights"]] in lines
    assert ["weights", "B", VECTORS[1]["weights"]] in lines
    assert not [line for line in lines if line[0] == "layout"]
    at = lines.index(["CONFIG", "IN", "VALUE"])
    assert ["rope_scaling.factor", "A", "8.0"] in lines[at:]
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_differences_as_json_hold_the_values():
    answer = json.loads(run("--diff", "a.json", "b.json", "-o", "json").stdout)
    assert (answer["schema"], answer["equal"]) == ("kvctl.fingerprint.diff/1", False)
    found = {item.pop("field"): item for item in answer["differences"]}
    assert found["lora"] == {"left": None, "right": VECTORS[1]["lora"]}
    assert found["config.rope_theta"] == {"left": 500000.0, "right": 10000}
    assert found["config.name"] == {"right": "é"}


def test_differences_as_csv_are_one_line_a_field():
    lines = run("--diff", "a.json", "b.json", "-o", "csv").stdout.splitlines()
    assert lines[0] == "field,left,right"
    assert "tensor_parallel,1,4" in lines
    assert "config.name,(not there),\\u00e9" in [line.replace('"', "") for line in lines]


@pytest.mark.parametrize("args", [(), ("a.json", "--diff", "a.json", "b.json"), ("--diff", "a.json")])
def test_one_file_or_two_to_compare(args):
    assert CliRunner().invoke(command, args).exit_code == ExitCode.USAGE


@pytest.mark.parametrize(("file", "code"), [("gone.json", "KV-CONN-023"), (".", "KV-CONN-023"), ("-", "KV-CONN-020")])
def test_what_is_no_fingerprint_is_a_usage_error(file, code):
    error = run(file, data="{}").exception
    assert isinstance(error, KvctlError)
    assert (error.code, error.exit_code) == (code, ExitCode.USAGE)
    assert error.where == ("standard input" if file == "-" else file)
