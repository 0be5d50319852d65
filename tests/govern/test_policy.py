"""The policy file: what it can say, what it cannot, and with which words that is told."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvctl.govern.countries import COUNTRIES
from kvctl.govern.policy import EMPTY, seconds
from kvctl.govern.policyfile import merged
from kvctl.types.errors import UsageError

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "policy.example.yaml"
HEAD = "schema: kvctl.policy/1\n"
BASE = """\
entities: [{name: Acme, country: FR}]
sites: [{name: paris, country: FR, entity: Acme}]
"""


def wrong(text):
    with pytest.raises(UsageError) as bad:
        merged(EMPTY, text)
    return bad.value


def outcome(text):
    try:
        merged(EMPTY, text)
    except UsageError as error:
        return error.code
    return "in force"


def test_the_example_can_be_put_in_force():
    policy = merged(EMPTY, EXAMPLE.read_text())
    assert policy.places
    assert policy.residency
    assert policy.retention
    assert policy.subprocessors
    assert all(policy.at(place.site) for place in policy.places.values())


def test_norway_is_a_country():
    policy = merged(EMPTY, HEAD + "residency: [{tenant: acme, storage_countries: [NO, SE]}]\n")
    assert policy.residency["acme"].storage_countries == ("NO", "SE")


def test_what_is_left_out_means_what_the_page_says():
    policy = merged(
        EMPTY, HEAD + BASE + "residency: [{tenant: a, storage_countries: [SE, DE, SE]}]\n"
        "retention: [{tenant: a, class: agent}]\nplaces: [{store: s1, site: paris}]\n",
    )  # fmt: skip
    rules = policy.residency["a"]
    assert rules.storage_countries == rules.processing_countries == rules.support_countries == ("DE", "SE")
    kept = policy.retention["a/agent"]
    assert (kept.minimum, kept.maximum, kept.idle) == (0, None, None)
    where = policy.where("s1", "disk")
    assert (where.country, where.entity_country, where.controlled_by) == ("FR", "FR", "FR")
    assert policy.where("s2", "disk") is None


def test_a_named_tier_goes_before_the_rest():
    policy = merged(
        EMPTY, HEAD + "entities: [{name: A, country: FR}]\nsites: [{name: p, country: FR, entity: A}, "
        "{name: q, country: DE, entity: A}]\nplaces: [{store: s1, site: p}, {store: s1, tier: object, site: q}]\n",
    )  # fmt: skip
    assert [policy.where("s1", tier).site for tier in ("flash", "object")] == ["p", "q"]


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("", "KV-POL-002", ""),
        ("- 1", "KV-POL-002", ""),
        ("a: [", "KV-POL-001", ""),
        (HEAD + "x: &a 1\ny: *a\n", "KV-POL-001", "aliases"),
        (HEAD + "sites: []\nsites: []\n", "KV-POL-001", "line 3: 'sites' is there twice"),
        ("[" * 5000, "KV-POL-001", ""),
        (HEAD + "#" * (1 << 20), "KV-POL-001", "larger"),
        ("schema: kvctl.policy/2\n", "KV-POL-002", "line 1 (schema)"),
        (HEAD + "residences: []\n", "KV-POL-002", "residences"),
        (HEAD + "sites:\n  - {name: p, country: FR, entity: A, colour: red}\n", "KV-POL-002", "line 3 (sites[0])"),
        (HEAD + "retention:\n  - {tenant: a, class: toast}\n", "KV-POL-002", "line 3 (retention[0].class)"),
        (HEAD + "residency:\n  - {tenant: a/b, storage_countries: []}\n", "KV-POL-002", "line 3 (residency[0].tenant)"),
        (HEAD + "residency:\n  - {tenant: a, storage_countries: DE}\n", "KV-POL-002", "storage_countries"),
        (HEAD + "entities:\n  - {name: A, country: fr}\n", "KV-POL-003", "line 3 (entities[0]): 'fr' is no country"),
        (HEAD + "entities:\n  - {name: A, country: FR, controlled_by: EU}\n", "KV-POL-003", "'EU' is no country"),
        (HEAD + "places:\n  - {store: s, site: p, tier: tape}\n", "KV-POL-003", "'tape' is no tier"),
        (HEAD + "retention:\n  - {tenant: a, class: agent, idle: 5 days}\n", "KV-POL-003", "is no duration"),
        (HEAD + "retention:\n  - {tenant: a, class: agent, minimum: never}\n", "KV-POL-003", "without end"),
        (HEAD + "retention:\n  - {tenant: a, class: agent}\n  - {tenant: a, class: agent}\n", "KV-POL-003", "line 4"),
        (HEAD + "subprocessors:\n  - {tenant: a, entity: X, country: FR, notified: soon}\n", "KV-POL-003", "line 3"),
    ],
)
def test_what_no_policy_says_is_refused_with_its_place(text, code, where):
    error = wrong(text)
    assert error.code == code
    assert where in str(error)


def test_every_problem_is_told_at_once():
    error = wrong(HEAD + BASE + "places:\n  - {store: s, site: mars}\n  - {store: t, site: venus}\n")
    assert "mars" in error.why
    assert "venus" in error.why


@given(st.text(max_size=200) | st.text(alphabet="abc:[]{}-*& \n#'\"!|>%@", max_size=60).map(lambda text: HEAD + text))
def test_any_text_is_a_policy_or_refused_with_a_code(text):
    assert outcome(text) in ("in force", "KV-POL-001", "KV-POL-002", "KV-POL-003")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["entities", "sites", "places", "residency", "retention"]), VALUES))
def test_any_document_is_a_policy_or_refused_with_a_code(document):
    text = yaml.safe_dump({"schema": "kvctl.policy/1", **document})
    assert outcome(text) in ("in force", "KV-POL-001", "KV-POL-002", "KV-POL-003")


@pytest.mark.parametrize(
    ("text", "count"),
    [("0s", 0), ("90s", 90), ("15m", 900), ("12h", 43200), ("30d", 2592000), ("2w", 1209600), ("1y", 31536000),
     ("never", None)],
)  # fmt: skip
def test_durations_are_seconds(text, count):
    assert seconds(text) == count


@pytest.mark.parametrize("text", ["", "5", "d", "-1d", "1.5h", "1D", "1d ", "٣d", "101y", "999999999y", "Never"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"no duration|longer than"):
        seconds(text)


def test_countries_are_two_capitals():
    assert len(COUNTRIES) == 249
    assert all(len(code) == 2 and code.isupper() and code.isalpha() for code in COUNTRIES)
    assert {"DE", "NO", "GB"} <= COUNTRIES
    assert not {"EU", "UK", "XK"} & COUNTRIES
