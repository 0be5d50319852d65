"""Generated pages are those in docs/, and every error code has one meaning."""

import re
from pathlib import Path

import pytest

from kvctl.cli.docs import CODE, MEANING, error_codes, group_help, pages
from kvctl.cli.entry import HELP
from kvctl.types.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
PAGES = pages()  # once: it asks every verb for its help


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_fresh(name):
    """When this fails: python -m kvctl.cli.docs"""
    page = ROOT / "docs" / name
    assert page.exists()
    assert page.read_text() == PAGES[name]


def test_the_stored_help_is_what_the_group_says():
    """When this fails: python -m kvctl.cli.docs"""
    assert HELP.read_text() == group_help()


def test_every_exit_code_is_explained():
    assert set(MEANING) == set(ExitCode)


def test_every_code_in_the_source_has_its_sentence():
    roots = (ROOT / "kvctl", ROOT / "playbooks")
    found = error_codes(*roots)
    used = {code for root in roots for file in root.rglob("*.py") for code in CODE.findall(file.read_text())}
    assert used - set(found) == set()
    assert [code for code, (what, _) in found.items() if not what] == []


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        prose = re.sub(r"`[^`\n]*`", "", page.read_text())
        for link in re.findall(r"\]\(([^)#\s]+)\)", prose):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} -> {link}"
