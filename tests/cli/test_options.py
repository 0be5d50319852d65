"""Which nodes --limit and --role mean."""

from pathlib import Path

import pytest

from kvctl.cli.options import choose, expand
from kvctl.types.errors import UsageError

NODES = {"storage1": "storage", "storage2": "storage", "gpu1": "gpu"}


@pytest.mark.parametrize(
    ("limit", "roles", "chosen"),
    [
        ((), (), ("storage1", "storage2", "gpu1")),
        (("storage*",), (), ("storage1", "storage2")),
        (("gpu1, storage2",), (), ("storage2", "gpu1")),
        (("gpu1", "storage?"), ("storage",), ("storage1", "storage2")),
        ((), ("gpu",), ("gpu1",)),
    ],
)
def test_a_selection_in_the_inventorys_order(
    limit: tuple[str, ...], roles: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    assert choose(NODES, limit, roles) == chosen


@pytest.mark.parametrize(
    ("limit", "roles", "code"),
    [
        (("storage9",), (), "KV-CLI-002"),
        (("storage1,nope*",), (), "KV-CLI-002"),
        ((), ("switch",), "KV-CLI-003"),
        (("gpu1",), ("storage",), "KV-CLI-002"),
    ],
)
def test_a_selection_that_means_nothing_is_an_error_and_never_all(
    limit: tuple[str, ...], roles: tuple[str, ...], code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(NODES, limit, roles)
    assert caught.value.code == code
    assert caught.value.fix


def test_a_file_holds_a_pattern_a_line_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("# the rack\nstorage1\n\n  gpu*  # all of them\n")
    assert expand((f"@{file}", "x,y")) == ("storage1", "gpu*", "x", "y")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "nodes").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        expand((f"@{tmp_path / 'nodes'}",))
    assert caught.value.code == "KV-CLI-001"


@pytest.mark.parametrize("content", ["", "# only a comment\n"])
def test_a_file_without_a_name_selects_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "nodes").write_text(content)
    with pytest.raises(UsageError) as caught:
        choose(NODES, (f"@{tmp_path / 'nodes'}",), ())
    assert caught.value.code == "KV-CLI-002"
