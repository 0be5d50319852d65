"""The process that holds Mooncake's bytes: `python -m kvctl.bench.store.holder HOST MASTER BYTES`."""

import sys
from collections.abc import Sequence

from kvctl.bench.store.client import private_stdout
from kvctl.bench.store.lanes.mooncake import opened


def main(argv: Sequence[str]) -> None:
    """Hold until standard input ends, that is, until the benchmark does."""
    said = private_stdout()
    store = opened(argv[0], argv[1], int(argv[2]))
    said.write("ready\n")
    said.flush()
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1:])
