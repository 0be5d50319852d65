from kvctl.fleet.inventory.load import load_text
from kvctl.fleet.inventory.reference import INTRO, markdown
from kvctl.fleet.inventory.schema import schema


def test_every_field_has_a_row() -> None:
    page = markdown()
    for part in [schema(), *schema()["$defs"].values()]:
        for name in part.get("properties", {}):
            assert f"| `{name}` |" in page


def test_the_five_lines_on_the_page_are_an_inventory() -> None:
    text = INTRO.split("```yaml\n")[1].split("```")[0]
    assert text.count("\n") == 5
    assert len(load_text(text).inventory.nodes) == 3
