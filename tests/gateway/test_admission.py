"""Who gets slots when requests are of more than one sequence, and who has to go when too many wait."""

import asyncio
import io
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import yaml

from kvctl.bench.stub_engine import StubEngine
from kvctl.connector.keys import Identity
from kvctl.daemon.log import Log
from kvctl.gateway.admission import Admission, Ask
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import parse
from kvctl.gateway.engines import Engine, Engines
from kvctl.gateway.tenants import Caller
from tests.gateway.site import settings, tenant


class Desk:
    """An admission whose engines are up; each request is a task that holds its slots until it is told to go."""

    def __init__(self, folder, engines: dict[str, int], **changes) -> None:
        stubs = {name: StubEngine() for name in engines}
        slots = {name: {"slots": count} for name, count in engines.items()}
        config = parse(yaml.safe_dump(settings(folder, stubs, Identity.generate(), **slots, **changes)).encode(), "f")
        self.engines = Engines(config, Log(io.StringIO()))
        for engine in self.engines.all:
            engine.up = True
        self.admission = Admission(config, self.engines)
        self.at: dict[str, Engine] = {}  # who is at an engine
        self.order: list[str] = []  # in which they came there
        self.refused: dict[str, Refused] = {}
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, view, sequences: int = 1, size: int = 0) -> None:
        caller = Caller(view, view.domains[0], view.keys[0])
        wanted = Ask(caller, "tiny", name.encode().ljust(32), size, 1, sequences)
        self.ends[name] = asyncio.Event()

        async def whole() -> None:
            try:
                engine = await self.admission.enter(wanted)
            except Refused as refused:
                self.refused[name] = refused
                return
            self.at[name] = engine
            self.order.append(name)
            try:
                await self.ends[name].wait()
            finally:
                del self.at[name]
                self.admission.leave(wanted, engine)

        self.tasks[name] = asyncio.create_task(whole())
        await settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
            await settle()

    async def leave(self, name: str) -> None:
        self.tasks[name].cancel()
        await settle()

    def classes(self, engine: str = "e1") -> dict[str, int]:
        return dict(+self.engines.by_name[engine].running)


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def played(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(whole())


GOLD, SILVER = tenant("g", "g-1", sla="gold"), tenant("s", "s-1", sla="silver")
BRONZE = tenant("b", "b-1", sla="bronze", max_concurrent=8)
OTHERS = [tenant(f"b{number}", f"b{number}-1", sla="bronze") for number in range(6)]


def test_a_request_takes_a_slot_for_each_of_its_sequences(tmp_path):
    async def work():
        desk = Desk(tmp_path, {"e1": 16})
        for name in ("b1", "b2", "b3"):
            await desk.ask(name, BRONZE, 4)
        assert list(desk.at) == ["b1", "b2"], "bronze has 8 of the 16 slots"
        assert desk.classes() == {"bronze": 8}
        assert desk.admission.running == {"b": 8}
        await desk.ask("g1", GOLD, 8)
        assert desk.classes() == {"bronze": 8, "gold": 8}
        await desk.end("b1")
        assert set(desk.at) == {"b2", "b3", "g1"}
        await desk.end("b2", "b3", "g1")
        assert desk.classes() == {}
        assert desk.admission.running == {}

    played(work)


@pytest.mark.parametrize(
    ("view", "sequences", "most"), [(BRONZE, 9, 8), (OTHERS[0], 9, 8), (SILVER, 13, 12), (GOLD, 1 << 62, 16)]
)
def test_what_never_fits_is_refused_at_once(tmp_path, view, sequences: int, most: int):
    """Against the tenant's own limit, and against the largest engine's share of its class."""

    async def work():
        desk = Desk(tmp_path, {"e1": 16, "e2": 2})
        await desk.ask("big", view, sequences)
        refused = desk.refused["big"]
        assert (refused.status, refused.code) == (400, "KV-GATE-037")
        assert f"{sequences} sequences" in refused.message
        assert f"{most} at once" in refused.message
        await desk.ask("fits", view, most)
        assert desk.at["fits"].name == "e1"

    played(work)


def test_sequences_cost_as_requests_do(tmp_path):
    """One tenant's requests of four sequences and another's of one: each is given the same number of sequences."""

    async def work():
        desk = Desk(tmp_path, {"e1": 4})
        await desk.ask("first", GOLD, 4)
        wide, narrow = (tenant(name, f"{name}-1", sla="gold", max_concurrent=4) for name in ("wide", "narrow"))
        for number in range(16):
            await desk.ask(f"narrow{number}", narrow)
            if number < 8:
                await desk.ask(f"wide{number}", wide, 4)
        await desk.end("first")
        while len(desk.order) < 17:
            await desk.end(*list(desk.at))
        given = Counter()
        for name in desk.order[1:16]:
            given[name.rstrip("0123456789")] += 4 if name.startswith("wide") else 1
        assert abs(given["wide"] - given["narrow"]) <= 4

    played(work)


def test_a_long_prompt_costs_more(tmp_path):
    async def work():
        desk = Desk(tmp_path, {"e1": 1})
        await desk.ask("first", GOLD)
        long, short = (tenant(name, f"{name}-1", sla="gold") for name in ("long", "short"))
        for number in range(4):
            await desk.ask(f"long{number}", long, size=64 << 10)
            await desk.ask(f"short{number}", short)
        await desk.end("first")
        for _ in range(5):
            await desk.end(desk.order[-1])
        assert desk.order[1:6] == ["long0", "short0", "short1", "short2", "short3"]

    played(work)


def test_a_request_of_many_sequences_is_not_overtaken_for_ever(tmp_path):
    """Slots that come free one by one gather for it when it is its turn; its tenant's class-mates wait so long."""

    async def work():
        desk = Desk(tmp_path, {"e1": 8})
        for number in range(4):
            await desk.ask(f"a{number}", OTHERS[0])
        await desk.ask("wide", OTHERS[1], 4)
        for number in range(4, 20):
            await desk.ask(f"a{number}", OTHERS[0])
        for _ in range(4):
            assert "wide" not in desk.at
            await desk.end(next(iter(desk.at)))
        assert "wide" in desk.at
        await desk.end("wide")
        assert len(desk.at) == 4

    played(work)


def test_what_is_kept_for_one_holds_up_no_better_class_and_no_other_engine(tmp_path):
    async def work():
        desk = Desk(tmp_path, {"e1": 8, "e2": 8})
        for number in range(2):
            await desk.ask(f"a{number}", OTHERS[0], 3)
        assert (desk.classes("e1"), desk.classes("e2")) == ({"bronze": 3}, {"bronze": 3})
        await desk.ask("wide", OTHERS[1], 3)
        await desk.ask("c1", OTHERS[2])
        assert "wide" not in desk.at, "no engine has three"
        assert "c1" in desk.at, "the other engine's slot is nobody's"
        await desk.ask("c2", OTHERS[3])
        assert "c2" not in desk.at, "the last one is kept"
        await desk.ask("g1", GOLD, 4)
        assert "g1" in desk.at
        await desk.leave("wide")
        assert "c2" in desk.at, "nobody is waited for who has left"

    played(work)


def test_a_tenant_at_its_limit_holds_up_nobody(tmp_path):
    async def work():
        one = tenant("one", "one-1", sla="bronze", max_concurrent=2)
        desk = Desk(tmp_path, {"e1": 16})
        for number in range(4):
            await desk.ask(f"one{number}", one)
        await desk.ask("b0", OTHERS[0])
        assert list(desk.at) == ["one0", "one1", "b0"]
        await desk.end("one1")
        assert list(desk.at) == ["one0", "b0", "one2"]
        await desk.leave("one3")
        await desk.end("one0", "one2", "b0")
        assert desk.at == {}
        assert len(desk.admission) == 0

    played(work)


@pytest.mark.parametrize("tenants", [2, 100])
def test_a_turn_costs_no_more_when_more_tenants_wait(tmp_path, tenants: int):
    async def work():
        desk = Desk(tmp_path, {"e1": 4})
        for number in range(2):
            await desk.ask(f"first{number}", OTHERS[0])
        for number in range(tenants):
            await desk.ask(f"t{number}", tenant(f"t{number}", "t-1", sla="bronze", weight=number + 1))
        engine, looks = desk.engines.all[0], 0
        place = engine.place

        def looked(*what):
            nonlocal looks
            looks += 1
            return place(*what)

        engine.place = looked
        desk.admission.dispatch()
        assert looks == 1
        await desk.end("first0")
        assert len(desk.at) == 2
        assert looks <= 4

    played(work)


def test_a_full_queue_takes_the_better_class_in(tmp_path):
    """The newest of the tenant with the most waiting has to go, of the lowest class."""

    async def work():
        desk = Desk(tmp_path, {"e1": 2}, limits={"queue": 6})
        await desk.ask("g0", GOLD, 2)
        for number in range(4):
            await desk.ask(f"greedy{number}", OTHERS[0])
        for number in range(2):
            await desk.ask(f"modest{number}", OTHERS[1])
        await desk.ask("g1", GOLD)
        assert set(desk.refused) == {"greedy3"}
        assert (desk.refused["greedy3"].status, desk.refused["greedy3"].code) == (429, "KV-GATE-032")
        assert desk.refused["greedy3"].retry_after
        await desk.ask("s1", SILVER)
        await desk.ask("new", OTHERS[2])
        assert set(desk.refused) == {"greedy3", "greedy2", "greedy1"}, "two of each wait then: of the older"
        for number in range(2, 5):
            await desk.ask(f"g{number}", GOLD)
        assert set(desk.refused) == {f"greedy{number}" for number in range(4)} | {"modest0", "modest1"}
        assert desk.admission.waiting == Counter(gold=4, silver=1, bronze=1)
        await desk.ask("again", OTHERS[2])
        assert "again" in desk.refused
        await desk.end("g0", *(f"g{number}" for number in range(1, 5)), "s1", "new")
        assert len(desk.admission) == desk.admission.waiting.total() == 0

    played(work)
