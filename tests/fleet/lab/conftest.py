"""A node's simulated hardware without a node: the stand-ins work on it as they do on a lab host."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.lab import cards, layout, nodes
from kvctl.fleet.lab.standins import store

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
State = dict[str, Any]


@pytest.fixture
def storage() -> nodes.LabNode:
    return nodes.lab_node(layout.from_environment({}), "storage", 1)


@pytest.fixture
def hardware(tmp_path: Path, storage: nodes.LabNode, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hardware folder with one card and two drives, in which nothing is wrong."""
    smi, functions = cards.gpus(nodes.lab_node(layout.from_environment({}), "gpu", 1))
    state = {
        "schema": 1,
        "boot_mtu": 9000,
        "nics": [cards.nic(storage)],
        "drives": [cards.drive(storage, 0, 4), cards.drive(storage, 1, 5)],
        "smi": smi,
        "gpus": functions,
        "modules": ["mlx5_core"],
        "hostnqn": "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001",
        "hostid": "00000000-0000-4000-8000-000000000002",
    }
    store.save(state, str(tmp_path))
    monkeypatch.setenv("KVCTL_LAB_HW", str(tmp_path))
    return tmp_path


@pytest.fixture
def change(hardware: Path) -> Callable[[Callable[[State], None]], None]:
    """Change the state as a test wants it."""

    def apply(edit: Callable[[State], None]) -> None:
        with store.changing(str(hardware)) as state:
            edit(state)

    return apply


@pytest.fixture
def nic(hardware: Path) -> Callable[[], State]:
    """The card as it is now."""
    return lambda: store.load(str(hardware))["nics"][0]


@pytest.fixture
def sample() -> Callable[[str], str]:
    return lambda name: (SAMPLES / name).read_text()
