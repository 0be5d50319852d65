"""The console by its keys, as a reader of its screen sees it."""

import time

import pytest
from rich.cells import cell_len
from textual import events

from kvctl.types.errors import RefusedError, UnreachableError
from tests.tui.driving import drive, screen, shows
from tests.tui.stub import RUN, Stub, event, node

DEAD = UnreachableError("KV-CTL-032", "the controller does not answer")


def at_cursor(app) -> str:
    return app.grid.current.key


def keys(app) -> list[str]:
    return [row.key for row in app.grid.rows]


def test_from_a_fault_to_its_cause_to_its_plan_in_three_keys():
    async def script(app, pilot):
        await shows(app, pilot, "!! qos.pfc enp65s0f0np0", "2 h", "read-only", "data 0 s old")
        await pilot.press("enter")
        await shows(app, pilot, "fleet > storage2", "> !! critical fail", without=("gpu9", "net.mtu"))
        await pilot.press("enter")
        cause = await shows(app, pilot, "read       off", "expected   priority 3", "read from  mlnx_qos", "role roce")
        assert "turn PFC on for priority 3" in cause
        await pilot.press("enter")
        plan = await shows(app, pilot, "plan p-1 of", "s01 storage2 role roce", "off -> 3", "--plan p-1")
        assert "s02" not in plan  # another node's
        await pilot.press("h", "escape", "left")
        await shows(app, pilot, "WORST FINDING", without=("fleet > storage2",))

    drive(Stub(), script)


def test_a_finding_without_a_step_says_so_and_a_refused_one_says_why():
    client = Stub()
    refusal = {
        "node": "storage2",
        "check": "host.clock",
        "subject": "",
        "code": "KV-PLAN-003",
        "why": "no NTP",
        "fix": "f",
    }
    client.answers["fleet.plan"]["plan"]["refusals"] = [refusal]

    async def script(app, pilot):
        await shows(app, pilot, "storage2")
        await pilot.press("enter")
        await shows(app, pilot, "host.clock")
        await pilot.press("j", "enter", "enter")
        await shows(app, pilot, "!! refused KV-PLAN-003: no NTP", "to do: f")
        client.answers["fleet.plan"]["plan"]["refusals"] = []
        await shows(app, pilot, "no step for it; kvctl plan --node storage2")

    drive(client, script)


def test_filter_inverse_faults_and_sorting():
    async def script(app, pilot):
        await shows(app, pilot, "storage1")
        await pilot.press("slash", *"storage", "enter")
        await shows(app, pilot, "filter storage", "1/2", without=("gpu1",))
        await pilot.press("slash", *"!storage", "enter")
        await shows(app, pilot, "gpu1", "filter !storage", without=("storage1",))
        await pilot.press("escape")
        await shows(app, pilot, "3/3", without=("filter !storage",))
        await pilot.press("f")
        await shows(app, pilot, "faults only", "1/1", without=("gpu1",))
        await pilot.press("f", "s")
        await shows(app, pilot, "NODE^", "by node")
        assert keys(app) == ["gpu1", "storage1", "storage2"]
        await pilot.press("S")
        assert keys(app) == ["storage2", "storage1", "gpu1"]
        await shows(app, pilot, "NODEv", "by node down")

    drive(Stub(), script)


def test_what_is_typed_at_once_behind_a_slash_is_text():
    async def script(app, pilot):
        await shows(app, pilot, "storage1")
        for key, letter in (("slash", "/"), ("s", "s"), ("slash", "/"), ("w", "w"), ("enter", None)):
            app.post_message(events.Key(key, letter))
        await shows(app, pilot, "filter s/w", "0/0", "read-only", without=("by node", "WRITABLE"))
        await pilot.press("escape", "question_mark")
        await shows(app, pilot, "this help")
        await pilot.press("slash", "escape")
        await shows(app, pilot, "1/3", without=("this help",))

    drive(Stub(), script)


def test_enter_before_the_rows_are_there_opens_when_they_are():
    client = Stub()
    client.hang = True

    async def script(app, pilot):
        await shows(app, pilot, "reading")
        await pilot.press("enter", "enter")
        await shows(app, pilot, "opens when it is read")
        client.released.set()
        await shows(app, pilot, "fleet > storage2 > qos.pfc", "expected   priority 3")
        await pilot.press("2", "1")
        await shows(app, pilot, "fleet > storage2 > qos.pfc")

    drive(client, script)


def test_a_page_that_comes_while_a_command_is_typed_leaves_the_keys_with_it():
    client = Stub()
    client.hang = True

    async def script(app, pilot):
        await shows(app, pilot, "reading")
        await pilot.press("enter", "colon", "r", "u")
        client.released.set()
        await shows(app, pilot, "fleet > storage2", ":ru")
        await pilot.press("n", "s", "enter")
        await shows(app, pilot, RUN, without=(":runs",))

    drive(client, script)


def test_a_page_that_is_left_opens_nothing_any_more():
    client = Stub()
    client.hang = True

    async def script(app, pilot):
        await shows(app, pilot, "reading")
        await pilot.press("enter", "3")
        client.released.set()
        await shows(app, pilot, RUN, without=("storage2",))
        await pilot.press("1")
        await shows(app, pilot, "WORST FINDING", "1/3")

    drive(client, script)


def test_an_empty_page_says_what_to_do():
    client = Stub()
    client.answers["fleet.status"]["nodes"] = []
    client.answers["run.ls"]["runs"] = []

    async def script(app, pilot):
        await shows(app, pilot, "no nodes: kvctl init writes an inventory")
        await pilot.press("3")
        await shows(app, pilot, "no runs yet: kvctl provision begins one")

    drive(client, script)


def test_a_node_name_of_wide_letters_keeps_the_columns_in_line():
    client = Stub()
    client.answers["fleet.status"]["nodes"] = [node("東京-ノード-01"), node("zürich-é")]

    async def script(app, pilot):
        seen = await shows(app, pilot, "東京-ノード-01", "zürich-é")
        first, second = (line for line in seen.split("\n") if "in-service" in line)
        assert cell_len(first[: first.index("+")]) == cell_len(second[: second.index("+")])

    drive(client, script, size=(60, 20))


def test_vim_keys_ends_and_marks():
    async def script(app, pilot):
        await shows(app, pilot, "1/3")
        await pilot.press("j")
        assert at_cursor(app) == "storage1"
        await pilot.press("G")
        assert at_cursor(app) == "gpu1"
        await pilot.press("k", "g", "space")
        await shows(app, pilot, " *storage2", "1 marked", ">")
        assert at_cursor(app) == "storage1"  # a mark moves on
        await pilot.press("up", "space")
        await shows(app, pilot, "storage2", without=("marked",))

    drive(Stub(), script)


def test_the_cursor_stays_on_its_row_when_others_come():
    client = Stub()

    async def script(app, pilot):
        await shows(app, pilot, "1/3")
        await pilot.press("j")
        client.answers["fleet.status"] = {"nodes": [node("aa"), node("ab"), *client.answers["fleet.status"]["nodes"]]}
        await shows(app, pilot, "4/5")
        assert at_cursor(app) == "storage1"

    drive(client, script)


def test_columns_are_chosen():
    async def script(app, pilot):
        await shows(app, pilot, "ROLE")
        await pilot.press("c")
        await shows(app, pilot, "columns of nodes")
        await pilot.press("j", "space", "escape")
        await shows(app, pilot, "NODE", without=("ROLE", "columns of"))

    drive(Stub(), script)


def test_pages_by_digit_and_by_command():
    async def script(app, pilot):
        await pilot.press("2")
        await shows(app, pilot, "flash 3.0 GiB", "not known", "m-1", "10 chunks, 1.0 MiB", "a-1", "1/2")
        await pilot.press("tab")
        assert at_cursor(app) == "m-1"
        await pilot.press("colon", *"runs", "enter")
        await shows(app, pilot, RUN, "[##......] 1/4", "!! failed", "1 running, 1 failed")
        await pilot.press("4")
        await shows(app, pilot, "run.cancelled", "!! denied")
        await pilot.press("colon", *"nope", "enter")
        await shows(app, pilot, "there is no page nope")
        await pilot.press("colon", "q", "enter")
        await pilot.pause()
        assert not app.is_running

    drive(Stub(), script)


def test_bytes_that_a_store_did_not_tell_are_not_zero():
    client = Stub()
    client.answers["usage.show"]["stores"] = [{"store": "s2", "state": "unreachable", "why": "", "seen_at": None}]

    async def script(app, pilot):
        await pilot.press("2")
        await shows(app, pilot, "? not all stores read")
        client.refused["usage.show"] = RefusedError("KV-API-003", "not yours")
        await shows(app, pilot, "not known: KV-API-003", "acme")

    drive(client, script, size=(100, 24))


def test_nothing_is_cancelled_while_read_only_and_nothing_without_a_yes():
    client = Stub()

    async def script(app, pilot):
        await pilot.press("3")
        await shows(app, pilot, RUN, without=("x cancel",))
        await pilot.press("x")
        await shows(app, pilot, "read-only: w makes it writable")
        await pilot.press("w")
        await shows(app, pilot, "WRITABLE", "x cancel")
        await pilot.press("x")
        await shows(app, pilot, "Cancel 1 run?", RUN, "done  s01 on storage2", "running  s02 on gpu1")
        await pilot.press("n")
        await shows(app, pilot, RUN, "nothing was changed", without=("Cancel",))
        assert client.count("run.cancel") == 0
        await pilot.press("x")
        await shows(app, pilot, "Cancel 1 run?")
        await pilot.press("y")
        await shows(app, pilot, f"{RUN}: asked to stop")
        assert [r.run for name, r in client.asked if name == "run.cancel"] == [RUN]

    drive(client, script)


def test_a_run_is_opened_to_its_steps():
    async def script(app, pilot):
        await pilot.press("3")
        await shows(app, pilot, RUN)
        await pilot.press("l")
        await shows(app, pilot, f"runs > {RUN}", "s02", ">  running")
        await pilot.press("enter")
        await shows(app, pilot, "node", "storage2", "roce", f"{RUN} > s01")

    drive(Stub(), script)


def test_a_controller_that_hangs_freezes_nothing_and_is_not_asked_again_and_again():
    client = Stub()

    async def script(app, pilot):
        await shows(app, pilot, "1/3")
        client.hang = True
        before = len(client.asked)
        for number in "2341234":
            await pilot.press(number)
        await shows(app, pilot, "not read yet")
        await pilot.press("1")
        await shows(app, pilot, "storage2")
        assert 0 < len(client.asked) - before <= 4  # one a page
        app.trail.here.asked_at -= 5
        await shows(app, pilot, "!! no answer for ", "stale since ")
        await pilot.press("question_mark")
        await shows(app, pilot, "this help")

    drive(client, script)


def test_a_dead_controller_is_named_and_what_was_read_stays_with_its_age():
    client = Stub()

    async def script(app, pilot):
        await shows(app, pilot, "1/3")
        client.error = DEAD
        await shows(app, pilot, "!! KV-CTL-032: the controller does not answer", "stale since ", "storage2")
        since = time.strftime("%H:%M:%S", time.localtime(app.trail.here.read_at))
        await shows(app, pilot, f"stale since {since}")
        client.error = None
        await shows(app, pilot, "data 0 s old", without=("KV-CTL-032",))

    drive(client, script)


def test_an_answer_of_another_shape_is_said():
    client = Stub()
    client.answers["fleet.status"] = {"nope": 1}

    async def script(app, pilot):
        await shows(app, pilot, "KV-TUI-001", "KeyError")

    drive(client, script)


def test_reading_that_is_recorded_is_not_repeated_by_itself():
    client = Stub()
    client.answers["audit.log"]["events"].insert(0, event(2, "audit.read"))

    async def script(app, pilot):
        await pilot.press("4")
        await shows(app, pilot, "audit.read", "r reads again")
        await pilot.pause(0.4)
        assert client.count("audit.log") == 1
        await pilot.press("r")
        await pilot.pause(0.2)
        assert client.count("audit.log") == 2

    drive(client, script)


def test_what_a_node_said_cannot_draw_on_the_terminal():
    client = Stub()
    client.answers["fleet.status"]["nodes"][0]["worst"] = "\x1b[31mred[bold]\n"

    async def script(app, pilot):
        seen = await shows(app, pilot, "?[31mred[bold]?")
        assert "\x1b" not in seen

    drive(client, script)


def test_ascii_alone():
    client = Stub()
    client.answers["fleet.status"]["nodes"][0]["worst"] = "café 東京"

    async def script(app, pilot):
        await shows(app, pilot, "caf? ????")
        for key in ("c", "escape", "question_mark", "escape", "2", "4", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause(0.1)
            assert screen(app).isascii(), screen(app)

    drive(client, script, ascii_only=True)


def test_the_palette_offers_no_change_while_read_only():
    async def script(app, pilot):
        found = [command.title for command in app.get_system_commands(app.screen)]
        assert "faults only" in found
        assert not any("cancel" in title for title in found)
        await pilot.press("w")
        assert any("cancel" in command.title for command in app.get_system_commands(app.screen))
        await pilot.press("ctrl+p", *"faults only", "enter")
        await shows(app, pilot, "1/1")

    drive(Stub(), script)


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
def test_the_help_says_how_to_leave_it_and_all_of_it_can_be_read(size):
    async def script(app, pilot):
        await shows(app, pilot, "storage2")
        await pilot.press("w", "question_mark")
        await shows(app, pilot, "what is behind a row", "esc back")
        await pilot.press(*["j"] * 30)
        await shows(app, pilot, "the pages", "* marked", "esc back")
        await pilot.press("escape")
        await shows(app, pilot, "WORST FINDING")

    drive(Stub(), script, size=size)


@pytest.mark.parametrize("size", [(80, 24), (132, 50), (40, 10)])
def test_every_line_fits(size):
    async def script(app, pilot):
        await shows(app, pilot, "storage2")
        for key in "1234?":
            await pilot.press("question_mark" if key == "?" else key)
            await pilot.pause(0.1)
            lines = screen(app).split("\n")
            assert len(lines) == size[1]
            assert max(map(len, lines)) <= size[0]

    drive(Stub(), script, size=size)
