import os
from pathlib import Path

import pytest

from kvctl.fleet.probe.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


def test_a_text_keeps_its_inner_blanks(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"  SAMSUNG  MZWLO \0\0\n")
    assert tree.text("/model") == {"v": "SAMSUNG  MZWLO", "src": "/model"}


def test_an_empty_file_is_an_empty_text(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "tc").write_text("\n")
    assert tree.text("/tc") == {"v": "", "src": "/tc"}


def test_a_missing_file_says_so_without_the_root(tree: Tree) -> None:
    assert tree.text("/sys/x") == {"unknown": "no such file", "src": "/sys/x"}


def test_a_pipe_does_not_block(tree: Tree, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert tree.text("/pipe") == {"v": "", "src": "/pipe"}


def test_no_more_than_the_limit_is_read(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 100_000)
    assert len(tree.bytes("/big", 1000)) == 1000


def test_a_link_is_resolved_below_the_root(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "sys/devices/a").mkdir(parents=True)
    (tmp_path / "sys/class").mkdir()
    (tmp_path / "sys/class/x").symlink_to("../devices/a")
    assert tree.real("/sys/class/x") == "/sys/devices/a"
    assert tree.target("/sys/class/x") == "a"
    assert tree.target("/sys/devices/a") is None


def test_the_live_root_is_the_root() -> None:
    assert Tree("/").live
    assert Tree("/").text("/proc/sys/kernel/ostype")["v"] == "Linux"
    assert not Tree("/tmp").live
