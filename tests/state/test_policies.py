"""Policies, places and copies through time, against a model that keeps everything in lists."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.state import copies, policies, tenants
from kvctl.state.appliers import APPLIERS
from kvctl.state.governance import GovernanceState
from kvctl.types.events import Recorded

START = datetime(2026, 1, 1, tzinfo=UTC)
TENANTS, STORES, SITES = ("t1", "t2"), ("s1", "s2"), ("a", "b", "c")
COUNTRIES = ("DE", "FR", "US")


def clock(tick):
    return (START + timedelta(milliseconds=tick)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


residency = st.tuples(
    st.just("residency"), st.sampled_from(TENANTS), st.none() | st.lists(st.sampled_from(COUNTRIES), max_size=3)
)  # fmt: skip
retention = st.tuples(st.just("retention"), st.sampled_from(TENANTS), st.none() | st.integers(0, 9))
place = st.tuples(st.just("places"), st.sampled_from(STORES), st.none() | st.sampled_from(SITES))
site = st.tuples(st.just("sites"), st.sampled_from(SITES), st.sampled_from(COUNTRIES))
entity = st.tuples(st.just("entities"), st.just("E"), st.sampled_from(COUNTRIES))
# Several changes of one moment, then a step of the clock that may be none.
scripts = st.lists(st.tuples(residency | retention | place | site | entity, st.integers(0, 3)), max_size=25)


def row(section, key, value):
    if value is None:
        return None
    return {
        "residency": lambda: {
            "tenant": key, "storage_countries": value, "processing_countries": value, "support_countries": [],
            "controlled_by": "any",
        },
        "retention": lambda: {"tenant": key, "kind": "agent", "minimum": 0, "maximum": value, "idle": None},
        "places": lambda: {"store": key, "tier": "*", "site": value},
        "sites": lambda: {"name": key, "country": value, "entity": "E"},
        "entities": lambda: {"name": key, "country": value, "controlled_by": value, "role": "processor"},
    }[section]()  # fmt: skip


class Model:
    """Every state that there ever was, by tick."""

    def __init__(self):
        self.now = {"residency": {}, "retention": {}, "places": {}, "sites": {}, "entities": {}}
        self.versions = Counter()
        self.past = []

    def change(self, tick, section, key, value):
        name = {"residency": key, "retention": f"{key}/agent", "places": f"{key}/*"}.get(section, key)
        after = row(section, key, value)
        version = None
        if section in ("residency", "retention") and after is not None:
            self.versions[section, key] += 1
        if section in ("residency", "retention"):
            version = self.versions[section, key]
        if after is None:
            self.now[section].pop(key, None)
        else:
            self.now[section][key] = (after, version)
        self.past.append((tick, {section: dict(rows) for section, rows in self.now.items()}))
        return {
            "section": section,
            "key": name,
            "before": None,
            "after": after,
            "change": "initial",
            "version": version,
        }

    def at(self, tick):
        found = [state for when, state in self.past if when <= tick]
        return found[-1] if found else {section: {} for section in self.now}


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    made = GovernanceState(tmp_path_factory.mktemp("state") / "governance.duckdb", APPLIERS)
    yield made
    made.close()


def play(state, script):
    model, tick, events = Model(), 0, []
    for (section, key, value), step in script:
        data = {"changes": [model.change(tick, section, key, value)], "approval": None, "sha256": ""}
        events.append(Recorded(len(events), clock(tick), "x", None, "policy.activated", None, "ok", data))
        tick += step
    state.empty()
    state.apply(events)
    return model, tick


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scripts)
def test_what_was_in_force_at_any_time_is_what_the_model_says(state, script):
    model, last = play(state, script)
    with state.reading() as db:
        for tick in range(-1, last + 2):
            then, found = model.at(tick), policies.in_force(db, clock(tick))
            for section, by in (("residency", "tenant"), ("retention", "tenant"), ("places", "store")):
                assert {one[by]: one for one in found[section]} == {k: r for k, (r, _) in then[section].items()}
            assert policies.versions(db, clock(tick)) == {k: v for k, (_, v) in then["residency"].items()}
            known = then["sites"] if "E" in then["entities"] else {}
            assert {one["name"]: one["country"] for one in found["sites"]} == {
                key: site["country"] for key, (site, _) in known.items()
            }
            for one in found["entities"]:
                assert one["country"] == then["entities"]["E"][0]["country"]
        now = policies.in_force(db)
        assert {one["tenant"] for one in now["residency"]} == set(model.now["residency"])
        gone = {one["tenant"] for one in policies.withdrawn(db)["residency"]}
        assert gone == {key for section, key in model.versions if section == "residency"} - set(model.now["residency"])
        for tenant in TENANTS:
            assert policies.next_version(db, "residency", tenant) == model.versions["residency", tenant] + 1


def test_what_is_newest_on_record_holds_on_a_clock_that_was_put_back(state):
    model, events = Model(), []
    for tick, section, key, value in (
        (90_000, "residency", "t1", ["FR"]), (90_000, "retention", "t1", 9), (90_000, "places", "s1", "a"),
        (95_000, "residency", "t1", None), (95_000, "places", "s1", None),
        (30_000, "residency", "t1", ["DE"]), (30_000, "retention", "t1", 5), (30_000, "places", "s1", "b"),
    ):  # fmt: skip
        data = {"changes": [model.change(tick, section, key, value)], "approval": None, "sha256": ""}
        events.append(Recorded(len(events), clock(tick), "x", None, "policy.activated", None, "ok", data))
    state.empty()
    state.apply(events)
    with state.reading() as db:
        assert policies.withdrawn(db) == {"places": [], "residency": [], "retention": []}
        assert [one["site"] for one in policies.in_force(db)["places"]] == ["b"]
        assert tenants.limits(db) == {"t1": {"processing_countries": ["DE"], "retention": {"agent": 5}}}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TENANTS), st.sampled_from(STORES), st.sampled_from(["flash", "disk"]), st.integers(0, 9),
            st.none() | st.integers(0, 9), st.integers(1, 99),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_where_copies_were_is_what_the_model_says(state, found):
    state.empty()
    with state.writing() as db:
        db.execute("DELETE FROM chunks")
        for i, (tenant, store, tier, placed, stay, size) in enumerate(found):
            db.execute(
                """INSERT INTO chunks BY NAME SELECT $store AS store, $tier AS tier, $tenant AS tenant, 'd' AS domain,
                   'e' AS epoch, $i::VARCHAR::BLOB AS key, $size AS bytes, 'm' AS model, 'common' AS class,
                   $placed::TIMESTAMP AS stored_at, $placed::TIMESTAMP AS placed_at, $gone::TIMESTAMP AS removed_at,
                   'x' AS sealed""",
                {"store": store, "tier": tier, "tenant": tenant, "i": i, "size": size, "placed": clock(placed),
                 "gone": None if stay is None else clock(placed + stay)},
            )  # fmt: skip

    def counted(rows):
        return {(r["tenant"], r["store"], r["tier"]): (r["chunks"], r["bytes"]) for r in rows}

    def model(tenant, tick):
        sums = {}
        for one, store, tier, placed, stay, size in found:
            there = placed <= tick and (stay is None or placed + stay > tick)
            if there and tenant in (None, one):
                chunks, total = sums.get((one, store, tier), (0, 0))
                sums[one, store, tier] = (chunks + 1, total + size)
        return sums

    with state.reading() as db:
        for tick in range(-1, 20):
            for tenant in TENANTS:
                assert counted(copies.held_at(db, tenant, clock(tick))) == model(tenant, tick)
        live = [one for one in found if one[4] is None]
        assert sum(row["chunks"] for row in copies.held(db)) == len(live)
        assert copies.known_since(db) == (clock(min(one[3] for one in found)) if found else None)
