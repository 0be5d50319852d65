"""The catalogue's benchmark runs end to end, and says what it was held to."""

import json

from click.testing import CliRunner

from kvctl.bench.catalogue import LIMITS, command


def test_a_small_one_runs_and_has_its_limits_and_conditions(tmp_path):
    done = CliRunner().invoke(command, ["--rows", "2000", "--rounds", "1", "--dir", str(tmp_path), "-o", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert {one["name"]: one["limit"] for one in document["questions"] if one["limit"]} == LIMITS
    assert all(one["seconds"] > 0 for one in document["questions"])
    assert document["ingest"]["rows_per_second"] > 0
    assert document["conditions"]["cpu"]
    assert list(tmp_path.iterdir()) == []


def test_as_a_table(tmp_path):
    done = CliRunner().invoke(command, ["--rows", "2000", "--rounds", "1", "--dir", str(tmp_path)])
    assert "retention plan" in done.output
    assert "2,000 rows" in done.output
