"""A thousand nodes: only lines that changed are drawn."""

from tests.tui.driving import drive, shows
from tests.tui.stub import Stub, node


def test_of_a_thousand_nodes_only_changed_lines_on_the_screen_are_drawn_again():
    client = Stub()
    many = [node(f"n{number:04}") for number in range(1000)]
    client.answers["fleet.status"] = {"nodes": many}

    async def script(app, pilot):
        await shows(app, pilot, "n0000", "1/1000")
        await pilot.pause(0.3)
        before = app.grid.drawn
        changed = [*many]
        changed[3] = node("n0003", state="drained")
        changed[900] = node("n0900", state="drained")
        client.answers["fleet.status"] = {"nodes": changed}
        await shows(app, pilot, "!  drained")
        assert 1 <= app.grid.drawn - before <= 3
        await pilot.press("G")
        await shows(app, pilot, "n0999", "1000/1000", without=("n0003",))

    drive(client, script)
