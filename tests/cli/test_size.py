"""kvctl size on a slice of a real trace."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvctl.cli.size import command
from kvctl.types.errors import ExitCode, KvctlError

TRACE = Path(__file__).parents[1] / "data/traces/conversation_head400.jsonl"
FULL = (
    *("--model", "llama-3.1-8b", "--prefill", "2048=0.2s,16384=2.1s", "--gpus", "1"),
    *("--tier", "flash:bandwidth=10GB/s,latency=1ms,drives=4,drive=3.84TB,dwpd=1,warranty=5"),
)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("KVCTL_OUTPUT", "KVCTL_COLOR"):
        monkeypatch.setenv(name, "")


def size(*arguments, jobs="1"):
    return CliRunner().invoke(command, [str(TRACE), "--jobs", jobs, *arguments])


def refused(*arguments):
    error = size(*arguments).exception
    assert isinstance(error, KvctlError)
    assert error.exit_code is ExitCode.USAGE
    return error


def test_a_trace_alone_gives_hit_rates_and_says_what_else_to_give():
    done = size("-c", "300000tokens,1Mtokens")
    assert done.exit_code == 0
    assert "lru+duel    300k" in done.stdout
    assert "belady      1M" in done.stdout
    assert "400 requests in 0.04 h" in done.stderr
    assert "not computed: capacity in bytes and bytes written: give --bytes-per-token or --model" in done.stderr
    assert "drives" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_has_every_section_and_the_full_figures():
    document = json.loads(size("-c", "40GiB", "-p", "lru,belady", *FULL, "-o", "json").stdout)
    assert document["schema"] == "kvctl.size/1"
    assert document["trace"]["requests"] == 400
    lru, bound = document["hits"]
    assert lru["capacity_tokens"] == 40 * 2**30 // 131072
    assert 0 < lru["hit_rate"] <= bound["hit_rate"] <= document["trace"]["ideal_hit_rate"]
    assert bound["written_blocks"] is None
    assert [row["policy"] for row in document["endurance"]] == ["lru"]
    assert document["break_even"][0]["tokens"] > 0
    assert {row["tier"] for row in document["savings"]} == {"flash"}
    assert document["missing"] == ["what the store itself rewrites in flash, so lives are shorter: give rewrite"]


def test_a_table_of_everything_fits_the_screen():
    done = size("-c", "40GiB,500GB", *FULL)
    assert [line for line in done.stdout.splitlines() if line.startswith("#")] == [
        "# hit rate by capacity",
        "# lives of the drives",
        "# from which length on reading beats computing",
        "# saved a day",
        "# agents on one shared capacity (rule of thumb)",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_csv_and_json_lines_have_one_row_a_figure():
    lines = [json.loads(line) for line in size("-c", "40GiB", "-p", "lru", *FULL, "-o", "jsonl").stdout.splitlines()]
    rows = list(csv.DictReader(io.StringIO(size("-c", "40GiB", "-p", "lru", *FULL, "-o", "csv").stdout)))
    assert len(lines) == len(rows)
    hit = next(r for r in rows if r["measure"] == "hit_rate")
    assert (hit["section"], hit["policy"], hit["tier"]) == ("hits", "lru", "")
    assert float(hit["value"]) == next(r["value"] for r in lines if r["measure"] == "hit_rate")


def test_processes_change_nothing_but_the_time():
    arguments = ("-c", "300000tokens,1Mtokens", "-o", "json")
    assert size(*arguments, jobs="2").stdout == size(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-c", "1TiB"), "KV-SIZE-010"),
        (("-c", "3M"), "KV-SIZE-006"),
        (("-p", "mru"), "KV-SIZE-009"),
        (("--model", "gpt-9"), "KV-SIZE-007"),
        (("--model", "llama-3.1-8b", "--bytes-per-token", "9"), "KV-SIZE-011"),
        (("--kv-dtype", "fp8"), "KV-SIZE-014"),
        (("--tier", "flash"), "KV-SIZE-008"),
        (("--prefill", "9000=1s,1000=2s"), "KV-SIZE-012"),
        (("--prefill", "0s"), "KV-SIZE-012"),
        (("--prefill", "1000=1h"), "KV-SIZE-006"),
    ],
)
def test_a_mistake_has_its_code_and_a_way_out(arguments, code):
    error = refused(*arguments)
    assert error.code == code
    assert error.fix


def test_a_broken_trace_is_named_with_its_line(tmp_path):
    broken = tmp_path / "t.jsonl"
    broken.write_bytes(TRACE.read_bytes() + b'{"timestamp": 1}\n')
    error = CliRunner().invoke(command, [str(broken)]).exception
    assert isinstance(error, KvctlError)
    assert (error.code, error.where) == ("KV-SIZE-003", f"{broken}:401")
