"""The terminal console by its keys: a fault to its cause to its plan, narrowing, and a controller that hangs."""

import asyncio
import threading

import pytest
from textual.widgets import DataTable, Static

from kvctl.tui.app import Console, Detail
from kvctl.types.errors import UnreachableError

FINDING = {
    "node": "storage2", "check": "qos.pfc", "subject": "enp65s0f0np0", "verdict": "fail", "severity": "critical",
    "observed": "off", "expected": "3", "remedy": {"role": "roce"},
}  # fmt: skip
STEP = {
    "id": "s01", "node": "storage2", "role": "roce", "reboot": False,
    "changes": [{"subject": "enp65s0f0np0", "name": "qos.pfc", "before": "off", "after": "3"}],
}  # fmt: skip
PLAN = {"plan": {"id": "p-1", "created": "2026-01-01T00:00:00Z", "steps": [STEP]}}


class Answers:
    """A controller with these answers; `hang` makes it one that never does."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", "."): found for name, found in answers.items()}
        self.asked, self.hang, self.error = [], threading.Event(), None
        self.released = threading.Event()

    def call(self, name, request):
        self.asked.append(name)
        if self.hang.is_set():
            self.released.wait(30)
        if self.error:
            raise self.error
        return self.answers.get(name, {})


@pytest.fixture
def client():
    nodes = [FINDING | {"node": f"storage{n}", "verdict": "fail" if n == 2 else "pass"} for n in (3, 1, 2)]
    made = Answers(
        fleet_findings={"findings": nodes},
        fleet_plan=PLAN,
        tenant_ls={"tenants": [{"tenant": "acme", "state": "active"}]},
    )
    yield made
    made.released.set()


def drive(client, script):
    async def run():
        app = Console(client, refresh=0.05)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: client.asked)
            await until(pilot, lambda: app.query_one(DataTable).row_count or client.error or client.hang.is_set())
            await script(app, pilot)

    asyncio.run(run())


async def until(pilot, condition):
    for _ in range(400):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("it did not come")


def first_column(app):
    table = app.query_one(DataTable)
    return [table.get_row_at(n)[0] for n in range(table.row_count)]


def line(app):
    return str(app.query_one("#line", Static).render())


def over(app):
    assert isinstance(app.screen, Detail)
    return str(app.screen.query_one(Static).render())


def test_a_fault_its_cause_and_its_plan_in_five_keys(client):
    async def script(app, pilot):
        await pilot.press("f")
        assert first_column(app) == ["storage2"]
        await pilot.press("enter")
        assert "observed" in over(app)
        assert "off" in over(app)
        await pilot.press("escape", "p")
        await until(pilot, lambda: isinstance(app.screen, Detail))
        assert "s01 storage2 roce" in over(app)
        assert "qos.pfc: off -> 3" in over(app)

    drive(client, script)


def test_filter_inverse_and_sort(client):
    async def script(app, pilot):
        await pilot.press("s")
        assert first_column(app) == ["storage1", "storage2", "storage3"]
        await pilot.press("slash", *"storage1", "enter")
        assert first_column(app) == ["storage1"]
        await pilot.press("slash", *"!storage1", "enter")
        assert first_column(app) == ["storage2", "storage3"]
        assert "filter !storage1" in line(app)

    drive(client, script)


def test_pages_by_number_and_by_command(client):
    async def script(app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: first_column(app) == ["acme"])
        await pilot.press("colon", *"find", "enter")
        await until(pilot, lambda: len(first_column(app)) == 3)
        assert "[findings]" in line(app)

    drive(client, script)


def test_a_controller_that_hangs_freezes_nothing_and_is_asked_once(client):
    async def script(app, pilot):
        client.hang.set()
        await until(pilot, lambda: app._asking)
        before = len(client.asked)
        await pilot.press("j", "f", "question_mark")
        assert "faults only" in over(app)
        await pilot.press("escape")
        assert first_column(app) == ["storage2"]
        assert "s old" in line(app)
        assert len(client.asked) - before <= 1

    drive(client, script)


def test_a_dead_controller_is_named_and_old_rows_stay(client):
    async def script(app, pilot):
        client.error = UnreachableError("KV-CTL-032", "the controller does not answer")
        await until(pilot, lambda: "KV-CTL-032" in line(app))
        assert len(first_column(app)) == 3

    drive(client, script)


def test_nothing_is_cancelled_while_it_is_read_only(client):
    client.answers["run.ls"] = {"runs": [{"id": "r-1", "state": "running"}]}

    async def script(app, pilot):
        await pilot.press("7")
        await until(pilot, lambda: first_column(app) == ["r-1"])
        await pilot.press("x")
        assert "run.cancel" not in client.asked
        await pilot.press("w", "x")
        await until(pilot, lambda: "run.cancel" in client.asked)
        assert "WRITABLE" in line(app)

    drive(client, script)
