"""The reference page names every check, once, under an anchor that links reach."""

import re

from kvctl.fleet.checks.catalogue import markdown
from kvctl.fleet.checks.registry import specs

PAGE = markdown()


def test_every_check_has_a_section_and_an_anchor():
    for spec in specs():
        assert PAGE.count(f'<a id="{spec.anchor}"></a>') == 1
        assert PAGE.count(f"\n### {spec.id}\n") == 1
        assert f"| [{spec.id}](#{spec.anchor}) | {spec.severity.value} |" in PAGE


def test_links_lead_to_anchors():
    anchors = set(re.findall(r'<a id="([^"]+)">', PAGE))
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) == anchors


def test_what_no_fact_feeds_is_listed_with_its_reason():
    for spec in specs():
        if not spec.fed:
            section = PAGE.split(f"\n### {spec.id}\n")[1].split("<a id=")[0]
            assert f"Not applicable on every node: {spec.notes}" in section


def test_no_template_is_left_unfilled():
    assert not re.findall(r"\{[a-z_]+\}", PAGE)


def test_data_loss_and_reboots_are_said():
    section = PAGE.split("\n### nvme.lba\n")[1].split("<a id=")[0]
    assert "(destroys data)" in section
    assert "needs a reboot or reset" in PAGE.split("\n### nic.fw.running\n")[1].split("<a id=")[0]


def test_one_table_row_a_line():
    assert all(line.count("|") == 5 for line in PAGE.splitlines() if line.startswith("| ["))
