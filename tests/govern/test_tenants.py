"""Names, limits and states of tenants."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.govern import tenants as rules
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.requests import TenantCreate

GOOD = TenantCreate("acme", "Acme SAS", entity_country="FR", domains=["common", "user"])
NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)


@given(NAMES)
def test_a_good_name_is_a_file_name_of_its_own(name):
    assert rules.check_name(name) == name
    assert "." not in name
    assert "/" not in name


@given(st.text(max_size=70))
def test_what_is_no_name_is_refused(text):
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    good = 0 < len(text) < 64 and set(text) <= allowed and text[0] != "-"
    if good:
        rules.check_name(text)
    else:
        with pytest.raises(UsageError) as caught:
            rules.check_name(text)
        assert caught.value.code == "KV-TEN-001"


@pytest.mark.parametrize("name", ["", "-a", "a" * 64, "a.b", "../a", "a/b", "A", "a\n", "ä", "a b", "a_b", "a\0"])
def test_names_that_would_be_trouble(name):
    with pytest.raises(UsageError):
        rules.check_name(name)


@given(NAMES, st.from_regex("[a-z2-7]{8}", fullmatch=True), st.from_regex("[a-z2-7]{52}", fullmatch=True))
def test_a_key_has_one_meaning(tenant, identifier, secret):
    head, i, s = rules.key_text(tenant, identifier, secret).rsplit("-", 2)
    assert (head.removeprefix("kv-"), i, s) == (tenant, identifier, secret)


def test_a_whole_tenant_passes():
    rules.check_new(GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"domains": []}, {"domains": ["user", "user"]}, {"domains": ["a b"]}, {"domains": [f"d{i}" for i in range(17)]},
        {"entity": ""}, {"entity": "x\ny"}, {"entity": "x" * 201}, {"entity_country": "fr"}, {"entity_country": "FRA"},
        {"sla": "platinum"}, {"require_subject": "maybe"}, {"quota_bytes": 0}, {"quota_bytes": -1},
        {"max_concurrent": 0}, {"tokens_per_day": 2**60}, {"requests_per_minute": 0}, {"tenant": "Acme"},
    ],
)  # fmt: skip
def test_each_field_is_judged(change):
    with pytest.raises(UsageError) as caught:
        rules.check_new(dataclasses.replace(GOOD, **change))
    assert caught.value.code in ("KV-TEN-001", "KV-TEN-002")


def test_a_name_is_given_once():
    rules.check_free(None)
    for state in ("active", "suspended", "offboarding", "offboarded"):
        with pytest.raises(RefusedError) as caught:
            rules.check_free({"tenant": "acme", "state": state})
        assert caught.value.code == "KV-TEN-003"


def test_a_tenant_must_be_there_and_in_the_state():
    row = {"tenant": "acme", "state": "suspended"}
    assert rules.require(row, "acme") is row
    assert rules.require(row, "acme", "active", "suspended") is row
    with pytest.raises(UsageError, match="KV-TEN-004"):
        rules.require(None, "acme")
    with pytest.raises(RefusedError, match="KV-TEN-005"):
        rules.require(row, "acme", "active")


@pytest.mark.parametrize(
    ("hold", "domains", "refused"),
    [
        (None, ["user"], True), ("user", ["user"], True), ("user", None, True), ("common", ["user"], False),
        ("common", ["user", "common"], True), (None, None, True),
    ],
)  # fmt: skip
def test_a_hold_keeps_the_keys_that_it_covers(hold, domains, refused):
    held = {"id": "h1", "tenant": "acme", "domain": hold, "reason": "case 7"}
    if not refused:
        rules.check_holds([held], domains)
        return
    with pytest.raises(RefusedError) as caught:
        rules.check_holds([held], domains)
    assert "h1" in str(caught.value)
    assert "case 7" in str(caught.value)


def test_an_entity_has_one_country():
    known = {"entity": "Acme SAS", "country": "FR"}
    rules.check_entity("Acme SAS", "FR", known)
    rules.check_entity("Acme SAS", "", known)
    rules.check_entity("Acme SAS", "DE", None)
    with pytest.raises(KvctlError, match="KV-TEN-006"):
        rules.check_entity("Acme SAS", "DE", known)
