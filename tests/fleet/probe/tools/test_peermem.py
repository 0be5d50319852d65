from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, peermem

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nvidia_peermem"


def test_loaded_but_not_registered() -> None:
    found = peermem.parse((SAMPLES / "lsmod_and_missing_version.txt").read_text())
    assert (found.loaded, found.registered) == (True, False)


@pytest.mark.parametrize(
    ("text", "loaded", "registered"),
    [
        ("nvidia_peermem         16384  0\n", True, None),
        ("nv_peer_mem 13163 0\n1.3-0\n", True, True),
        ("/sys/kernel/mm/memory_peers/nv_mem_nc/version:1.1\n", None, True),
        ("cat: /sys/kernel/mm/memory_peers/nv_mem/version: Permission denied\n", None, None),
        ("Module                  Size  Used by\nib_core  434176  9 rdma_cm,nvidia_peermem\n", False, None),
        ("ib_core               434176  9 rdma_cm,nvidia_peermem\n", None, None),
    ],
)
def test_what_each_source_proves(text: str, loaded: bool | None, registered: bool | None) -> None:
    found = peermem.parse(text)
    assert (found.loaded, found.registered) == (loaded, registered)


@pytest.mark.parametrize("text", ["", "bash: lsmod: command not found"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        peermem.parse(text)
