"""How the tests are shared out: lab tests stay in one process, one after the other; the rest goes on beside them."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab") is not None:
            item.add_marker(pytest.mark.xdist_group("lab"))
