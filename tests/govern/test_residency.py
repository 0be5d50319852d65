"""One answer, with its rule: default deny."""

from hypothesis import given
from hypothesis import strategies as st

from kvctl.govern.policy import EMPTY, Entity, Place, Policy, Residency, Site
from kvctl.govern.residency import decide, decide_at

CODES = st.sampled_from(["DE", "FR", "US", "CN"])
SETS = st.lists(CODES, max_size=3).map(tuple)


def world(site="DE", entity="DE", owner="DE", rules=None):
    return Policy(
        {"E": Entity("E", entity, owner)}, {"x": Site("x", site, "E")}, {"s/*": Place("s", "x")},
        {"t": rules} if rules else {}, {}, {},
    )  # fmt: skip


def test_what_nobody_declared_is_denied_by_name():
    verdict = decide(world(rules=Residency("t", ("DE",))), "t", "s9", "flash", home="DE", version=3)
    assert (verdict.allowed, verdict.rule, verdict.country, verdict.version) == (
        False, "s9/flash is at no declared site", None, 3,
    )  # fmt: skip
    assert not decide(EMPTY, "t", "s", "flash", home="DE").allowed
    assert not decide_at(EMPTY, "t", "x", home="DE").allowed


def test_without_a_policy_only_home_is_allowed():
    assert decide(world("DE"), "t", "s", "flash", home="DE").allowed
    assert not decide(world("FR"), "t", "s", "flash", home="DE").allowed
    nowhere = decide(world("DE"), "t", "s", "flash", home="")
    assert (nowhere.allowed, "nobody named the controller" in nowhere.rule) == (False, True)


def test_the_rule_names_the_version_the_country_and_the_list():
    rules = Residency("t", ("DE", "FR"), ("US",), ())
    verdict = decide(world("US", rules=rules), "t", "s", "flash", home="US", version=2)
    assert verdict.rule == "residency t v2: US is not in storage_countries [DE, FR]"
    assert decide(world("US", rules=rules), "t", "s", "flash", home="DE", purpose="processing").allowed
    assert not decide(world("US", rules=rules), "t", "s", "flash", home="DE", purpose="support").allowed


@given(CODES, CODES, CODES, SETS, st.sampled_from(["any", "same"]), CODES)
def test_allowed_is_exactly_what_the_page_says(site, entity, owner, allowed, control, home):
    rules = Residency("t", allowed, controlled_by=control)
    found = decide(world(site, entity, owner, rules), "t", "s", "disk", home=home)
    bound = {site, entity, owner} if control == "same" else {site}
    assert found.allowed == (bound <= set(allowed))
    assert (found.country, found.entity_country, found.controlled_by) == (site, entity, owner)
    assert found.document()["verdict"] == ("allow" if found.allowed else "deny")
