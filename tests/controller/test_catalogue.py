"""The catalogue follows its stores: each delta once, gaps on record, and nothing taken for gone that was not asked."""

import pytest

from kvctl.controller.catalogue import compare, compare_all, sync
from kvctl.state.governance import rows
from kvctl.types.errors import UsageError
from kvctl.types.requests import Nothing, StoreNamed
from tests.controller import people
from tests.controller.stores import ALICE, BOB, EPOCH, Store, key, serving


@pytest.fixture
def store(tmp_path):
    with serving(Store(tmp_path / "s"), tmp_path / "s") as made:
        yield made


@pytest.fixture
def ctl(tmp_path, store):
    with people.controller(tmp_path, stores={"s1": store.settings}) as made:
        yield made


def query(ctl, sql):
    with ctl.books.state.reading() as db:
        return rows(db, sql)


def live(ctl):
    found = query(ctl, "SELECT tier, key, bytes FROM chunks WHERE removed_at IS NULL ORDER BY ALL")
    return sorted((row["tier"], row["key"], row["bytes"]) for row in found)


def there(store):
    return sorted((row["tier"], row["key"], row["length"]) for row in store.chunks.values())


def test_first_reading_takes_the_whole_listing_and_is_no_gap(ctl, store, monkeypatch):
    monkeypatch.setattr("kvctl.controller.catalogue.PAGE", 2)
    for name in "abcde":
        store.put(name)
    done = sync(ctl, "s1")
    assert done["read"] == {"untracked": 5, "missing": 0, "found": 5}
    assert live(ctl) == there(store)
    assert query(ctl, "SELECT * FROM gaps") == []
    assert people.kinds(ctl) == []


def test_deltas_are_taken_once_in_their_order(ctl, store):
    sync(ctl, "s1")
    gone = store.put("a")
    store.lose(gone)
    again = store.put("a", length=200)
    store.put("b")
    moved = store.put("c")
    store.put("c", tier="disk")
    store.lose(moved, "moved")
    done = sync(ctl, "s1")
    assert done["taken"] == {"put": 5, "removed": 2, "removed_scope": 0, "seen": 0}
    assert live(ctl) == there(store)
    assert sync(ctl, "s1")["taken"]["put"] == 0
    assert live(ctl) == there(store)
    past = query(
        ctl, "SELECT key, tier, bytes, removed_why FROM chunks WHERE removed_at IS NOT NULL ORDER BY removed_why"
    )
    assert [(row["removed_why"], row["bytes"]) for row in past] == [("evicted", 100), ("moved", 100)]
    store.lose(again)
    sync(ctl, "s1")
    assert live(ctl) == there(store)


def test_a_put_of_a_known_copy_replaces_it(ctl, store):
    sync(ctl, "s1")
    store.put("a")
    sync(ctl, "s1")
    store.put("a", length=300)
    sync(ctl, "s1")
    assert live(ctl) == [("flash", key("a"), 300)]


def test_a_scope_that_went_is_gone_and_what_stayed_comes_behind_it(ctl, store):
    sync(ctl, "s1")
    store.put("a")
    kept = store.put("b")
    other = store.put("c", domain="common")
    sync(ctl, "s1")
    store.tell("removed_scope", {"tenant": "acme", "domain": "user", "epoch": EPOCH, "tier": None}, "erased")
    store.tell("put", kept)
    sync(ctl, "s1")
    assert live(ctl) == sorted([("flash", kept["key"], 100), ("flash", other["key"], 100)])


def test_another_user_of_a_chunk_is_kept_once_as_its_lineage(ctl, store):
    sync(ctl, "s1")
    row = store.put("a", subject=ALICE)
    store.seen(row, BOB)
    sync(ctl, "s1")
    store.seen(row, BOB)
    sync(ctl, "s1")
    found = query(ctl, "SELECT tenant, domain, subject, key FROM lineage")
    assert found == [{"tenant": "acme", "domain": "user", "subject": BOB, "key": row["key"]}]
    assert query(ctl, "SELECT 1 FROM chunks WHERE used_at IS NOT NULL")


@pytest.mark.parametrize(("happens", "cause"), [("forget", "let go"), ("restart", "another run")])
def test_a_gap_is_read_again_counted_and_on_record(ctl, store, happens, cause):
    for name in "ab":
        store.put(name)
    sync(ctl, "s1")
    store.lose(next(iter(store.chunks.values())), silently=True)
    store.put("c")
    getattr(store, happens)()
    done = sync(ctl, "s1")
    assert (done["gap"], done["read"]) == (cause, {"untracked": 1, "missing": 1, "found": 2})
    assert live(ctl) == there(store)
    assert [row["cause"] for row in query(ctl, "SELECT cause FROM gaps")] == [cause]
    assert people.kinds(ctl) == ["catalogue.gap"]
    (why,) = query(ctl, "SELECT removed_why FROM chunks WHERE removed_at IS NOT NULL")
    assert why["removed_why"] == "unknown"


def test_a_delta_that_is_missing_in_between_is_a_gap(ctl, store):
    sync(ctl, "s1")
    for name in "abc":
        store.put(name)
    del store.deltas[1]
    assert sync(ctl, "s1")["gap"] == "numbers are missing"
    assert live(ctl) == there(store)


def test_a_store_that_does_not_answer_is_said_to_be_so_and_loses_nothing(ctl, store):
    store.put("a")
    sync(ctl, "s1")
    store.broken.add("deltas")
    done = sync(ctl, "s1")
    assert done["state"] == "unreachable"
    (row,) = ctl.call("store.ls", people.OPERATOR, Nothing())["stores"]
    assert (row["state"], row["copies"]) == ("unreachable", 1)
    assert row["why"].startswith("KV-STORE-030")
    store.broken.clear()
    store.put("b")
    assert sync(ctl, "s1")["gap"] is None
    assert live(ctl) == there(store)


def test_a_store_that_was_never_read_has_unknown_numbers_not_zero(ctl, store):
    (row,) = ctl.call("store.ls", people.OPERATOR, Nothing())["stores"]
    assert (row["state"], row["copies"], row["bytes"]) == ("never read", None, None)


def test_a_failed_transaction_moves_neither_counter_nor_rows(ctl, store, monkeypatch):
    sync(ctl, "s1")
    store.put("a")
    with monkeypatch.context() as patch:
        patch.setattr("kvctl.state.catalogue.keep_source", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sync(ctl, "s1")
    assert live(ctl) == []
    sync(ctl, "s1")
    assert live(ctl) == there(store)


def test_comparison_finds_what_no_delta_told_of(ctl, store):
    for name in "abc":
        store.put(name)
    sync(ctl, "s1")
    store.chunks[("flash", "acme", "user", EPOCH, key("stray"))] = {**store.put("d"), "key": key("stray")}
    for row in query(ctl, "SELECT key FROM chunks LIMIT 1"):
        with ctl.books.state.writing() as db:  # placed longer ago than clocks are apart
            db.execute("UPDATE chunks SET placed_at = placed_at - INTERVAL 1 HOUR")
        name = next(name for name in store.chunks if name[4] == row["key"])
        del store.chunks[name]
    found = compare(ctl, "s1")
    assert (found["untracked"], found["missing"], found["finding"]) == (1, 1, True)
    assert people.kinds(ctl) == ["inventory.compared"]
    assert live(ctl) == there(store)
    again = compare(ctl, "s1")
    assert (again["untracked"], again["missing"], again["finding"]) == (0, 0, False)
    assert len(query(ctl, "SELECT * FROM comparisons")) == 2


def test_comparison_of_a_store_that_is_away_says_so(ctl, store):
    sync(ctl, "s1")
    store.broken.add("deltas")
    (found,) = compare_all(ctl)
    assert found["state"] == "unreachable"
    assert query(ctl, "SELECT * FROM comparisons") == []


def test_a_store_that_goes_away_while_it_is_compared_holds_up_no_other(ctl, store):
    sync(ctl, "s1")
    store.broken.add("ls")
    found = ctl.call("store.compare", people.AUDITOR, StoreNamed("s1"))["stores"]
    assert [(one["store"], one["state"]) for one in found] == [("s1", "unreachable")]
    assert query(ctl, "SELECT * FROM comparisons") == []


def test_a_comparison_that_was_asked_for_names_who_asked(ctl, store):
    store.put("a")
    (found,) = ctl.call("store.compare", people.AUDITOR, StoreNamed())["stores"]
    assert (found["catalogued"], found["untracked"], found["finding"]) == (1, 0, False)
    assert query(ctl, "SELECT actor FROM events WHERE kind = 'inventory.compared'") == [{"actor": "unix:olga"}]


def test_the_distance_of_clocks_is_kept(ctl, store):
    store.ahead = 120.0
    sync(ctl, "s1")
    (row,) = ctl.call("store.ls", people.OPERATOR, Nothing())["stores"]
    assert abs(row["clock_ms"] - 120_000) < 5000


def test_deltas_are_handed_on_after_they_were_taken_in(ctl, store):
    sync(ctl, "s1")
    store.put("a")
    heard = []
    sync(ctl, "s1", lambda name, boot, deltas: heard.append((name, boot, [d["op"] for d in deltas], live(ctl))))
    assert heard == [("s1", "boot1", ["put"], there(store))]


def test_a_store_that_is_not_configured_is_a_usage_error(ctl):
    with pytest.raises(UsageError) as error:
        ctl.call("store.sync", people.OPERATOR, StoreNamed("nope"))
    assert error.value.code == "KV-RET-001"


def test_dry_run_reads_nothing(ctl, store):
    store.put("a")
    assert ctl.call("store.sync", people.OPERATOR, StoreNamed(dry_run=True))["would"] == [{"store": "s1"}]
    assert live(ctl) == []
    assert store.asked == []
