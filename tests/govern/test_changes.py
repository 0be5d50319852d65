"""How grave a change is, against what can happen to a byte under the old and the new policy."""

from hypothesis import example, given
from hypothesis import strategies as st

from kvctl.govern.changes import Change, compare_residency, compare_retention, diff, votes
from kvctl.govern.policy import EMPTY, TIERS, Entity, Place, Policy, Residency, Retention, Site, Subprocessor
from kvctl.govern.residency import decide

CODES = ("DE", "FR", "US")
ENTITIES = {"E": Entity("E", "DE", "DE"), "U": Entity("U", "DE", "US")}
SITES = {
    name: Site(name, country, entity)
    for name, country, entity in zip("abcde", ("DE", "FR", "US", "DE", "DE"), "EEUEU", strict=True)
}  # fmt: skip
countries = st.sets(st.sampled_from(CODES)).map(lambda found: tuple(sorted(found)))
residency = st.builds(
    Residency, st.just("t"), countries, countries, countries, st.sampled_from(["any", "same"])
)  # fmt: skip
length = st.none() | st.integers(0, 3)
retention = st.builds(Retention, st.just("t"), st.just("agent"), st.integers(0, 3), length, length)
places = st.dictionaries(st.sampled_from([f"s/{tier}" for tier in TIERS]), st.sampled_from(sorted(SITES))).map(
    lambda found: {key: Place("s", site, key[2:]) for key, site in found.items()}
)
optional = st.none() | residency


def policy(places=None, residency=None, retention=None, sites=SITES, entities=ENTITIES, subprocessors=None):
    rules = {residency.tenant: residency} if residency else {}
    kept = {retention.key: retention} if retention else {}
    return Policy(entities, sites, places or {}, rules, kept, subprocessors or {})


def reach(rules, purpose):
    """Every jurisdiction that a byte may be in, of all there are."""
    found = set()
    for name in SITES:
        there = policy({"s/*": Place("s", name)}, rules)
        if decide(there, "t", "s", "flash", home="", purpose=purpose).allowed:
            found.add(name)
    return found


@given(residency, residency)
def test_a_policy_that_lets_a_byte_be_where_it_could_not_be_is_a_weakening(before, after):
    change = compare_residency(before, after)
    for purpose in ("storage", "processing", "support"):
        gained = reach(after, purpose) - reach(before, purpose)
        if gained:
            assert change is Change.WEAKENING
    if before == after:
        assert change is Change.NEUTRAL
    if change is Change.NEUTRAL:
        assert before == after


@given(residency, residency)
def test_there_and_back_weakens_once_at_least(before, after):
    signs = {compare_residency(before, after), compare_residency(after, before)}
    assert before == after or Change.WEAKENING in signs


@given(retention, retention)
def test_a_policy_that_keeps_longer_or_protects_shorter_is_a_weakening(before, after):
    end = 99

    def lasts(rule, used):
        """The last second at which the chunk may be there; `used`: when it was last used."""
        most = end if rule.maximum is None else rule.maximum
        idle = end if rule.idle is None else used + rule.idle
        return min(most, idle)

    change = compare_retention(before, after)
    longer = any(lasts(after, used) > lasts(before, used) for used in range(5))
    if longer or after.minimum < before.minimum:
        assert change is Change.WEAKENING
    if before == after:
        assert change is Change.NEUTRAL
    elif change is not Change.WEAKENING:
        assert change is Change.TIGHTENING


@given(places, places)
@example({"s/*": Place("s", "a")}, {"s/*": Place("s", "a"), "s/flash": Place("s", "c", "flash")})
@example({"s/*": Place("s", "c"), "s/flash": Place("s", "a", "flash")}, {"s/*": Place("s", "c")})
def test_a_tier_that_comes_under_another_law_is_a_weakening(before, after):
    now, new = policy(before), policy(after)
    changes = diff(now, policy({}), new)
    worst = votes(changes)
    for tier in TIERS[:-1]:
        old, fresh = now.where("s", tier), new.where("s", tier)
        if old and fresh and (fresh.country != old.country or fresh.countries - old.countries):
            assert worst == 2
        if old and fresh is None:
            assert worst >= 1
    assert bool(changes) == (before != after)


@given(optional, optional, optional)
def test_a_row_is_initial_only_when_there_never_was_one(now, past, new):
    changes = diff(policy(residency=now), policy(residency=past), policy(residency=new))
    if now == new:
        assert changes == []
        return
    (change,) = changes
    assert (change.change is Change.INITIAL) == (now is None and past is None)
    if new is None:
        assert change.change is Change.WEAKENING
    if now is None and past is not None:
        assert change.change in (Change.TIGHTENING, Change.WEAKENING)
    assert (change.before is None, change.after is None, change.tenant) == (now is None, new is None, "t")


def test_a_withdrawn_place_is_compared_with_where_it_was():
    past = policy({"s/flash": Place("s", "a", "flash")})
    abroad = diff(policy(), past, policy({"s/flash": Place("s", "c", "flash")}))
    same = diff(policy(), past, policy({"s/flash": Place("s", "d", "flash")}))
    assert ([c.change for c in abroad], [c.change for c in same]) == ([Change.WEAKENING], [Change.TIGHTENING])


def test_a_site_under_another_country_or_owner_is_a_weakening():
    for changed in (
        policy(sites={**SITES, "a": Site("a", "US", "E")}),
        policy(sites={**SITES, "a": Site("a", "DE", "U")}),
        policy(entities={**ENTITIES, "E": Entity("E", "DE", "US")}),
    ):
        assert votes(diff(policy(), EMPTY, changed)) == 2
    assert votes(diff(policy(), EMPTY, policy(entities={**ENTITIES, "E": Entity("E", "DE", "DE", "controller")}))) == 0
    # From an owner under two laws to one under the first of them alone: nothing is gained.
    assert votes(diff(policy(), EMPTY, policy(sites={**SITES, "e": Site("e", "DE", "E")}))) == 0


def test_a_subprocessor_s_line_that_is_changed_is_looked_at():
    one = {"t/X": Subprocessor("t", "X", "DE", "2026-01-01", "2026-03-01")}
    early = {"t/X": Subprocessor("t", "X", "DE", "2026-01-01", "2026-01-02")}
    assert votes(diff(policy(), EMPTY, policy(subprocessors=one))) == 0
    assert votes(diff(policy(subprocessors=one), EMPTY, policy(subprocessors=early))) == 2
