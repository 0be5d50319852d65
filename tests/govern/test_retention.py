"""Retention: the rules in their order, and that millions are judged in SQL as one is judged here."""

from datetime import datetime, timedelta

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.govern.retention import Copy, Hold, Version, considered, judge
from kvctl.state.governance import SCHEMA
from kvctl.state.retention import ruled

NOW = datetime(2026, 3, 1, 12)
DAY = timedelta(days=1)


def version(**fields):
    plain = {"minimum_s": 0, "maximum_s": None, "idle_s": None, "valid_from": NOW - 100 * DAY}
    return Version("acme", "conversation", 1, **{**plain, **fields})


def copy(age, **fields):
    return Copy("acme", "user", "conversation", "m", NOW - age, **fields)


def hold(name="h1", **fields):
    plain = {"domain": None, "subject": None, "model": None, "from_at": NOW - DAY}
    return Hold(name, "acme", **{**plain, **fields})


def rule(*arguments):
    outcome = judge(*arguments, NOW)
    return outcome.rule, outcome.go


def test_a_copy_goes_when_its_maximum_age_has_passed_and_not_before():
    policy = [version(maximum_s=86400)]
    assert rule(copy(DAY - timedelta(seconds=1)), policy, []) == ("within", False)
    assert rule(copy(DAY), policy, []) == ("maximum", True)


def test_the_end_that_was_fixed_when_it_was_stored_counts_when_it_is_earlier():
    policy = [version(maximum_s=7 * 86400)]
    assert rule(copy(DAY, expires_at=NOW - timedelta(hours=1)), policy, []) == ("maximum", True)
    assert rule(copy(8 * DAY, expires_at=NOW + DAY), policy, []) == ("maximum", True)


def test_a_hold_keeps_what_every_other_rule_would_take():
    outcome = judge(copy(9 * DAY), [version(maximum_s=86400)], [hold("h2"), hold("h1", until_at=NOW + DAY)], NOW)
    assert not outcome.go
    assert outcome.until is None  # h2 has no end
    assert "h1, h2" in outcome.text


def test_a_hold_of_a_user_keeps_blocks_that_the_user_shared():
    held = [hold(subject="bob")]
    policy = [version(maximum_s=1)]
    assert rule(copy(DAY, subjects=frozenset({"alice", "bob"})), policy, held) == ("hold", False)
    assert rule(copy(DAY, subjects=frozenset({"alice"})), policy, held) == ("maximum", True)


def test_lifted_and_ended_holds_keep_nothing():
    policy = [version(maximum_s=1)]
    for over in (hold(lifted_at=NOW), hold(until_at=NOW)):
        assert rule(copy(DAY), policy, [over]) == ("maximum", True)


def test_a_hold_that_is_younger_than_a_clock_that_was_put_back_keeps():
    assert rule(copy(DAY), [version(maximum_s=1)], [hold(from_at=NOW + DAY)]) == ("hold", False)


def test_the_minimum_keeps_an_unused_copy_but_not_one_past_its_maximum():
    policy = [version(minimum_s=2 * 86400, idle_s=60)]
    assert rule(copy(DAY), policy, []) == ("minimum", False)
    assert rule(copy(DAY, expires_at=NOW), policy, []) == ("maximum", True)
    assert rule(copy(3 * DAY), policy, []) == ("idle", True)
    assert rule(copy(3 * DAY, used_at=NOW), policy, []) == ("within", False)


def test_a_later_policy_does_not_change_what_was_stored_before_it():
    changed = NOW - 5 * DAY
    old = version(maximum_s=30 * 86400, valid_to=changed)
    new = Version("acme", "conversation", 2, 0, 86400, None, changed)
    assert rule(copy(6 * DAY), [old, new], []) == ("within", False)
    assert rule(copy(4 * DAY), [old, new], []) == ("maximum", True)


def test_an_end_further_away_than_any_calendar_is_no_end():
    policy = [version(minimum_s=0, maximum_s=10**17, idle_s=10**17)]
    assert rule(copy(DAY), policy, []) == ("within", False)


def test_every_rule_is_considered_and_the_last_one_always_answers():
    found = list(considered(copy(9 * DAY), [version(maximum_s=86400, minimum_s=10 * 86400, idle_s=60)], [hold()], NOW))
    assert [outcome and outcome.rule for outcome in found] == ["hold", "maximum", "minimum", "idle", "within"]


# --- the same in SQL ------------------------------------------------------------------------------------------------
MOMENTS = st.integers(-40, 10).map(lambda hours: NOW + timedelta(hours=hours))
TENANTS, DOMAINS, SUBJECTS, MODELS = (st.sampled_from(names) for names in ("ab", "xy", "pqr", "mn"))
SECONDS = st.integers(0, 50).map(lambda hours: hours * 3600) | st.just(10**17)
KINDS = st.sampled_from(["common", "conversation"])
CHUNKS = st.tuples(
    TENANTS, DOMAINS, KINDS, MODELS, MOMENTS, st.none() | MOMENTS, st.none() | MOMENTS, st.none() | SUBJECTS,
    st.frozensets(SUBJECTS),
)  # fmt: skip
HOLDS = st.tuples(
    TENANTS, st.none() | DOMAINS, st.none() | SUBJECTS, st.none() | MODELS, MOMENTS, st.none() | MOMENTS,
    st.none() | MOMENTS,
)  # fmt: skip
AGES = st.tuples(SECONDS, st.none() | SECONDS, st.none() | SECONDS)


@st.composite
def versions(draw):
    """Versions that follow each other, as policies do."""
    made = []
    for tenant in "ab":
        for kind in ("common", "conversation"):
            starts = sorted(draw(st.lists(MOMENTS, unique=True, max_size=3)))
            for number, start in enumerate(starts, 1):
                end = starts[number] if number < len(starts) else draw(st.none() | st.just(NOW + DAY))
                made.append(Version(tenant, kind, number, *draw(AGES), start, end))
    return made


TABLES = duckdb.connect(config={"threads": "1"})
TABLES.execute(SCHEMA.read_text())


@settings(max_examples=150, deadline=None)
@given(st.lists(CHUNKS, max_size=12), versions(), st.lists(HOLDS, max_size=5))
def test_sql_judges_as_the_pure_rules_do(chunks, policies, holds):
    db = TABLES.cursor()
    db.begin()
    made_holds = [Hold(f"h{i}", *given) for i, given in enumerate(holds)]
    for h in made_holds:
        values = [h.id, h.tenant, h.domain, h.subject, h.model, "r", "me", h.from_at, h.until_at, h.lifted_at, None]
        db.execute(f"INSERT INTO holds VALUES ({', '.join('?' * 11)})", values)  # noqa: S608
    for v in policies:
        values = [v.tenant, v.kind, v.version, v.minimum_s, v.maximum_s, v.idle_s, v.valid_from, v.valid_to, "", ""]
        db.execute(f"INSERT INTO retention_policies VALUES ({', '.join('?' * 10)}, NULL)", values)  # noqa: S608
    expected = {}
    for i, (tenant, domain, kind, model, stored, expires, used, subject, users) in enumerate(chunks):
        key = bytes([i]) * 32
        values = ["s", "flash", tenant, domain, "e", key, 1, subject, model, kind, stored, expires, stored, used]
        db.execute(f"INSERT INTO chunks VALUES ({', '.join('?' * 14)}, NULL, NULL, 'x')", values)  # noqa: S608
        for user in users:
            db.execute("INSERT INTO lineage VALUES (?, ?, ?, ?, ?)", [tenant, domain, user, key, stored])
        everybody = users | ({subject} if subject else frozenset())
        outcome = judge(Copy(tenant, domain, kind, model, stored, expires, used, everybody), policies, made_holds, NOW)
        expected[key] = (outcome.rule, outcome.go)
    found = db.execute(f"SELECT key, rule, go FROM ({ruled(db, NOW)})", {"now": NOW, "tenant": None}).fetchall()  # noqa: S608
    assert {key: (rule, go) for key, rule, go in found} == expected
    assert len(found) == len(chunks)
    db.rollback()


def test_idle_time_counts_from_the_last_use_and_says_so_when_none_was_told_of():
    policy = [version(idle_s=86400)]
    assert rule(copy(5 * DAY, used_at=NOW - DAY / 2), policy, []) == ("within", False)
    used = judge(copy(5 * DAY, used_at=NOW - 2 * DAY), policy, [], NOW)
    assert (used.rule, "not used since 2026-02-27" in used.text) == ("idle", True)
    never = judge(copy(5 * DAY), policy, [], NOW)
    assert (never.rule, "the store reports no use of it" in never.text) == ("idle", True)
