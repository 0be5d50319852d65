"""Changes from the console: shown before a yes, on what was looked at, and refused in words."""

from kvctl.types.errors import RefusedError
from tests.tui.driving import drive, shows
from tests.tui.stub import RUN, Stub

ROLE = RefusedError(
    "KV-API-001", "ann may not tier.propose", why="that is for the roles operator, tenant-admin", fix="ask somebody"
)


def sent(client: Stub, name: str) -> list:
    return [request for asked, request in client.asked if asked == name]


def test_a_move_is_proposed_after_what_it_would_touch_was_shown():
    client = Stub()

    async def script(app, pilot):
        await pilot.press("2")
        await shows(app, pilot, "acme", "suspended")
        await pilot.press("p")
        await shows(app, pilot, "read-only: w makes it writable")
        assert sent(client, "tier.propose") == []
        await pilot.press("w", "p")
        await shows(app, pilot, "tenant:", "acme", "from tier (flash, disk, object, archive):")
        await pilot.press("enter", "enter", *["backspace"] * 6, *"disc", "enter")
        await shows(app, pilot, "! one of flash, disk")
        await pilot.press("backspace", "k", "enter", *"quarter end", "enter")
        await shows(app, pilot, "move acme from flash to disk", "10 chunks, 2.0 KiB", "s1/object: allow: eu-only")
        assert [request.dry_run for request in sent(client, "tier.propose")] == [True]
        await pilot.press("y")
        await shows(app, pilot, "m-2 waits for approval a-2")
        asked = sent(client, "tier.propose")[-1]
        assert (asked.tenant, asked.target, asked.reason, asked.dry_run) == ("acme", "disk", "quarter end", False)

    drive(client, script)


def test_a_role_that_is_missing_is_said_in_whole():
    client = Stub()
    client.refused["tier.propose"] = ROLE

    async def script(app, pilot):
        await pilot.press("2")
        await shows(app, pilot, "acme")
        await pilot.press("w", "p", "enter", "enter", "enter", "enter")
        await shows(app, pilot, "KV-API-001", "ann may not tier.propose", "that is for the roles operator,", "ask some")
        await pilot.press("escape")
        await shows(app, pilot, "acme", without=("ask some",))

    drive(client, script)


def test_a_vote_is_on_the_payload_that_was_shown():
    client = Stub()

    async def script(app, pilot):
        await pilot.press("7")
        await shows(app, pilot, "a-1")
        await pilot.press("w", "enter")
        await shows(app, pilot, "payload sha256", "target", "object", "a approve", "d deny")
        await pilot.press("d", *"wrong tenant", "enter")
        await shows(app, pilot, "Vote no?", "ab" * 20)
        await pilot.press("n")
        await shows(app, pilot, "nothing was changed")
        assert sent(client, "approve.vote") == []
        await pilot.press("a", "enter")
        await shows(app, pilot, "Vote yes?")
        await pilot.press("y")
        await shows(app, pilot, "a-1 is approved")
        (ballot,) = sent(client, "approve.vote")
        assert (ballot.approval, ballot.decision, ballot.payload_sha256) == ("a-1", "yes", "ab" * 32)

    drive(client, script)


def test_a_run_that_failed_is_resumed_by_this_machine_alone():
    client = Stub()
    client.answers["run.show"]["state"] = "failed"
    resumed = []

    def resume(request):
        resumed.append(request.run)
        return {"said": f"{request.run} is under way"}

    async def script(app, pilot):
        await pilot.press("3")
        await shows(app, pilot, RUN)
        await pilot.press("w", "R")
        await shows(app, pilot, f"Resume {RUN}?", "Done steps are left out")
        await pilot.press("y")
        await shows(app, pilot, "is under way")
        assert resumed == [RUN]
        assert sent(client, "run.resume") == []

    drive(client, script, local={"run.resume": resume})


def test_marked_runs_are_cancelled_together_and_one_refusal_stops_no_other():
    client = Stub()
    client.refused["run.cancel"] = RefusedError("KV-API-001", "no")

    async def script(app, pilot):
        await pilot.press("3")
        await shows(app, pilot, RUN)
        await pilot.press("w", "space", "space", "x")
        await shows(app, pilot, "Cancel 2 runs?")
        await pilot.press("y")
        await shows(app, pilot, f"!! {RUN}: KV-API-001: no")

    drive(client, script)
