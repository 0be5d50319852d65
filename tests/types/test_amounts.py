import pytest

from kvctl.types.amounts import size


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (-2048, "-2.0 KiB"), (1 << 60, "1024.0 PiB")],
)
def test_bytes_are_said_in_a_binary_unit(count, words):
    assert size(count) == words
