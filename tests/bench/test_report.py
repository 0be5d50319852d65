"""The report in its three forms, byte for byte as in golden/."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kvctl.bench.measures import Sample, converge_document, facts_document, startup_document, targets
from kvctl.bench.report import render

GOLDEN = Path(__file__).with_name("golden")


def document() -> dict[str, Any]:
    """A run with made-up numbers in which all but two targets are met."""
    facts = facts_document(
        16,
        [
            Sample("kvctl", 1, 4.5, 1.5, 9.0, 3),
            Sample("kvctl-no-tools", 1, 2.5, 1.25, 2.75, 3),
            Sample("ansible", 1, 9.25, 7.5, 10.0, 0),
            Sample("pyinfra", 1, 2.0, 1.5, 2.0, 0),
        ],
    )
    startup = startup_document(
        {"python": [0.02, 0.025], "kvctl --help": [0.08, 0.085], "kvctl status": [0.31, 0.33]},
    )
    converge = [
        converge_document(4, [Sample("kvctl", 1, 10.0, 6.0, 8.0, 0), Sample("ansible-playbook", 1, 8.0, 4.0, 7.0, 0)])
    ]
    return {
        "schema": 1,
        "benchmark": "fleet",
        "conditions": {
            "at": "2027-03-01T09:00:00Z",
            "hosts": 16,
            "rounds": 1,
            "cpu": "Example 9000",
            "cores": 2,
            "memory_bytes": 24 * 2**30,
            "kernel": "6.12.0",
            "load_before": [0.05, 0.1, 0.2],
            "versions": {"python": "3.11.7", "kvctl": "0.1.0"},
        },
        "targets": [asdict(one) for one in targets(facts, startup, converge)],
        "facts": facts,
        "startup": startup,
        "converge": converge,
        "commands": {"kvctl": "kvctl check", "ansible": "ansible all -i DIR/setup-hosts.yml -m ansible.builtin.setup"},
    }


@pytest.mark.parametrize(("fmt", "file"), [("table", "fleet.txt"), ("markdown", "fleet.md"), ("json", "fleet.json")])
def test_the_report_is_as_recorded(fmt: str, file: str) -> None:
    assert render(document(), fmt) + "\n" == (GOLDEN / file).read_text()


def test_json_carries_every_sample_and_condition() -> None:
    found = json.loads(render(document(), "json"))
    assert found == json.loads(json.dumps(document()))
    assert found["facts"]["samples"][2]["wall"] == 9.25
    assert found["conditions"]["load_before"] == [0.05, 0.1, 0.2]


def test_a_run_without_converge_has_no_such_section() -> None:
    assert "Converge" not in render(document() | {"converge": []}, "table")
