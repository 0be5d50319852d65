"""The queue's order, by hand and by property: nothing here has a clock."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.gateway.fair import ASIDE, SLACK, Fair, Flow, Verdict


def anything(flow: Flow, item: object) -> Verdict:
    return Verdict.GO


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

    def not_bronze(flow: Flow, item: str) -> Verdict:
        return Verdict.LATER if item == "b" else Verdict.GO

    assert fair.next(not_bronze) == "g"
    assert fair.next(not_bronze) is None
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
    assert set(drained(fair)) == {"b19", "g"}
    assert len(fair) == 0


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


class Plain:
    """The same rule without heaps: every flow is looked at, in the order of its head's tag."""

    def __init__(self) -> None:
        self.lines: dict[Flow, list[tuple[float, float, object]]] = {}
        self.finish: dict[Flow, float] = {}
        self.now = 0.0

    def add(self, flow: Flow, weight: float, cost: float, item: object) -> None:
        start = max(self.now, self.finish.setdefault(flow, 0.0))
        self.lines.setdefault(flow, []).append((start, cost / weight, item))
        self.finish[flow] = start + cost / weight

    def remove(self, flow: Flow, item: object) -> None:
        line = self.lines[flow]
        at = next(at for at, (_, _, one) in enumerate(line) if one == item)
        _, price, _ = line.pop(at)
        line[at:] = [(start - price, cost, one) for start, cost, one in line[at:]]
        self.finish[flow] -= price
        self.forget()

    def next(self, barred: set[Flow]) -> object | None:
        order = sorted((line[0][0], at, flow) for at, (flow, line) in enumerate(self.lines.items()) if line)
        for start, _, flow in order:
            if flow not in barred:
                self.now = max(self.now, start)
                item = self.lines[flow].pop(0)[2]
                self.forget()
                return item
        return None

    def forget(self) -> None:
        everything = not any(self.lines.values())
        for flow in [flow for flow, line in self.lines.items() if not line]:
            if everything or self.finish[flow] <= self.now:
                del self.lines[flow], self.finish[flow]
        if everything:
            self.now = 0.0


FLOWS = [Flow(tenant, model, lane) for tenant in "abcd" for model, lane in (("x", "l1"), ("y", "l2"), ("z", "l1"))]
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(FLOWS), st.sampled_from([1, 4, 16]), st.integers(1, 64)),
    st.tuples(st.just("remove"), st.integers(0, 99)),
    st.tuples(st.just("next"), st.sets(st.sampled_from(FLOWS))),
    st.tuples(st.just("wake"), st.sampled_from("abcd")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=120))
def test_the_order_is_that_of_a_look_at_every_flow(steps):
    """Whatever is added, leaves, is passed over, or waits to be woken."""
    fair: Fair[int] = Fair()
    plain, waiting, asleep = Plain(), {}, set()
    weights = dict(zip("abcd", (1, 4, 16, 1), strict=True))
    for number, (kind, *what) in enumerate(steps):
        if kind == "add":
            flow, _, cost = what
            for one in (fair, plain):
                one.add(flow, weights[flow.tenant], cost, number)
            waiting[number] = flow
        elif kind == "remove" and waiting:
            item = list(waiting)[what[0] % len(waiting)]
            flow = waiting.pop(item)
            if plain.lines[flow][0][2] == item:
                asleep.discard(flow)
            assert fair.remove(flow, item)
            plain.remove(flow, item)
        elif kind == "wake":
            fair.wake(what[0])
            asleep = {flow for flow in asleep if flow.tenant != what[0]}
        elif kind == "next":
            barred, told = what[0], set()

            def judge(flow: Flow, item: int, barred=barred, told=told) -> Verdict:
                if flow not in barred:
                    return Verdict.GO
                if flow.tenant in "ab":
                    told.add(flow)
                    return Verdict.FLOW
                return Verdict.LATER

            item = fair.next(judge)
            assert item == plain.next(barred | asleep)
            asleep |= told
            waiting.pop(item, None)
        assert len(fair) == len(waiting)
    for tenant in "abcd":
        fair.wake(tenant)
    while (item := plain.next(set())) is not None:
        assert fair.next(anything) == item
    assert fair.next(anything) is None


def test_a_turn_looks_at_no_more_flows_when_more_wait():
    for flows in (10, 1000):
        fair: Fair[int] = Fair()
        for number in range(flows):
            for lane in ("one", "two"):
                fair.add(Flow(f"t{number}", lane, lane), 1, 1, number)
        asked: list[Flow] = []

        def judge(verdict: Verdict, asked=asked):
            def told(flow: Flow, item: int) -> Verdict:
                asked.append(flow)
                return verdict

            return told

        assert fair.next(judge(Verdict.LANE)) is None
        assert len(asked) == 2
        asked.clear()
        assert fair.next(judge(Verdict.LATER)) is None
        assert len(asked) == 2 * min(flows, ASIDE)
        asked.clear()
        assert fair.next(judge(Verdict.FLOW)) is None
        assert len(asked) == 2 * flows, "each once"
        assert fair.next(judge(Verdict.GO)) is None, "they wait to be woken"
        fair.wake("t3")
        assert {fair.next(anything), fair.next(anything)} == {3}
        assert fair.next(anything) is None


def test_those_who_come_and_leave_fill_no_memory():
    fair: Fair[object] = Fair()
    for number in range(20):
        fair.add(Flow("b", "m"), 1, 1.1, number)
    fair.next(anything)
    for turn in range(20_000):
        item = object()
        flow = Flow(f"c{turn % 3}", "m")
        fair.add(flow, 3, 0.7, item)
        fair.remove(flow, item)
    held = len(fair._idle) + sum(len(heap) for heap in fair._lanes.values())
    assert held <= 2 * (2 * len(fair._lines) + SLACK + 1)
    assert len(fair._lines) <= 4
