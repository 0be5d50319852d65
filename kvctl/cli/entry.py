"""The console script. The group's own help is a stored text: importing click alone takes as long as help may."""

import sys
from pathlib import Path
from typing import Any

HELP = Path(__file__).with_name("help.txt")  # written by `python -m kvctl.cli.docs`, held equal by a test


def main() -> Any:
    if sys.argv[1:] in (["--help"], ["-h"]):
        sys.stdout.write(HELP.read_text())
        return 0
    from kvctl.cli.main import main as run

    return run()
