"""Whether a model's directory is the one that was pinned: `python3 -m kvctl.connector.modelpin DIRECTORY`.

Reads every byte of it. Exit code 0 when weights, tokenizer and configuration have the digests given.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from kvctl.connector.fingerprint import canonical
from kvctl.connector.modelfiles import read_model
from kvctl.types.errors import KvctlError

PARTS = ("weights", "tokenizer", "config")


def digests(directory: Path) -> dict[str, str]:
    """As a pin has them. Errors as in `read_model`."""
    found = read_model(directory)
    config = hashlib.sha256(canonical(found.config).encode()).hexdigest()
    return {"weights": found.weights, "tokenizer": found.tokenizer, "config": f"sha256:{config}"}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.connector.modelpin", description=__doc__)
    parser.add_argument("directory", type=Path)
    for part in PARTS:
        parser.add_argument(f"--{part}", required=True, metavar="sha256:DIGEST")
    asked = parser.parse_args(argv)
    try:
        found = digests(asked.directory)
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    other = [part for part in PARTS if found[part] != getattr(asked, part)]
    for part in other:
        sys.stderr.write(f"{asked.directory}: its {part} is {found[part]}, pinned is {getattr(asked, part)}\n")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
