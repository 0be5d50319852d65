"""The queue's order, by hand and by property: nothing here has a clock."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.gateway.fair import Fair, Flow


def anything(flow: Flow, item: object) -> bool:
    return True


GOLD, BRONZE = Flow("g", "m"), Flow("b", "m")


def drained(fair: Fair[str]) -> list[str]:
    found = []
    while (item := fair.next(anything)) is not None:
        found.append(item)
    return found


def test_gold_is_served_by_its_weight_while_bronze_floods():
    fair: Fair[str] = Fair()
    for number in range(50):
        fair.add(BRONZE, 1, 1, f"b{number}")
    for number in range(8):
        fair.add(GOLD, 4, 1, f"g{number}")
    first = drained(fair)[:10]
    assert sum(item.startswith("g") for item in first) >= 7
    assert "b0" in first, "the others are not starved"


def test_a_gold_request_waits_for_one_bronze_at_most():
    fair: Fair[str] = Fair()
    for number in range(500):
        fair.add(BRONZE, 1, 1, f"b{number}")
    for _ in range(100):
        fair.next(anything)
    fair.add(GOLD, 16, 1, "g")
    assert "g" in [fair.next(anything), fair.next(anything)]


def test_one_that_was_idle_has_no_credit():
    """A flow that comes late shares from then on; it does not make up for the time in which it asked for nothing."""
    fair: Fair[str] = Fair()
    for number in range(100):
        fair.add(BRONZE, 1, 1, f"b{number}")
    for _ in range(50):
        fair.next(anything)
    for number in range(50):
        fair.add(Flow("c", "m"), 1, 1, f"c{number}")
    first = drained(fair)[:20]
    assert 8 <= sum(item.startswith("c") for item in first) <= 12


def test_what_may_not_go_yet_holds_up_nobody_else():
    fair: Fair[str] = Fair()
    fair.add(BRONZE, 1, 1, "b")
    fair.add(GOLD, 1, 1, "g")
    assert fair.next(lambda flow, item: item != "b") == "g"
    assert fair.next(lambda flow, item: item != "b") is None
    assert fair.next(anything) == "b"


def test_one_that_left_costs_its_tenant_nothing():
    fair: Fair[str] = Fair()
    items = [f"b{number}" for number in range(20)]
    for item in items:
        fair.add(BRONZE, 1, 1, item)
    for item in items[:19]:
        assert fair.remove(BRONZE, item)
    assert not fair.remove(BRONZE, "b0")
    fair.add(GOLD, 1, 1, "g")
    assert len(fair) == 2
    assert fair.of_tenant("b") == 1
    assert set(drained(fair)) == {"b19", "g"}
    assert len(fair) == fair.of_tenant("b") == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.floats(0.5, 50)), min_size=1, max_size=60),
    st.lists(st.integers(0, 59), max_size=20),
)
def test_everything_goes_once_and_in_its_flows_order(asked, leaving):
    fair: Fair[tuple[int, Flow]] = Fair()
    items = [(number, Flow(tenant, model)) for number, (tenant, model, _) in enumerate(asked)]
    for item, (_, _, cost) in zip(items, asked, strict=True):
        fair.add(item[1], {"a": 1, "b": 4, "c": 16}[item[1].tenant], cost, item)
    gone = {number for number in leaving if number < len(items)}
    for number in gone:
        assert fair.remove(items[number][1], items[number])
    assert len(fair) == len(items) - len(gone)
    found = drained(fair)
    assert sorted(number for number, _ in found) == [number for number, _ in items if number not in gone]
    for flow in {flow for _, flow in items}:
        mine = [number for number, one in found if one == flow]
        assert mine == sorted(mine)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8))
def test_shares_are_as_the_weights(one: int, other: int):
    fair: Fair[str] = Fair()
    for _ in range(400):
        fair.add(Flow("a", "m"), one, 1, "a")
        fair.add(Flow("b", "m"), other, 1, "b")
    first = [fair.next(anything) for _ in range(200)]
    assert abs(first.count("a") - 200 * one / (one + other)) <= 3
