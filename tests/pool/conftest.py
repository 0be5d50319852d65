from collections.abc import Iterator

import pytest

from tests.pool.site import Site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Five nodes that tests share: whoever stops one has it answer again at its end."""
    made = Site(tmp_path_factory.mktemp("five"))
    yield made
    made.close()
