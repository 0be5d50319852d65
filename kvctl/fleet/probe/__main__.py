"""`python3 -m kvctl.fleet.probe [--sysroot DIR] [--no-tools]`: prints the document as one line of JSON."""

from __future__ import annotations

import os
import sys

from .collect import collect
from .document import dumps

_USAGE = "usage: python3 -m kvctl.fleet.probe [--sysroot DIR] [--no-tools] [--budget SECONDS]"


def main(argv: list[str]) -> int:
    """Exit status 0 when a document was printed, 2 for wrong arguments."""
    sysroot, run_tools, budget = "/", True, 20.0
    arguments = list(argv)
    while arguments:
        option = arguments.pop(0)
        if option == "--no-tools":
            run_tools = False
        elif option == "--sysroot" and arguments:
            sysroot = arguments.pop(0)
        elif option == "--budget" and arguments and arguments[0].replace(".", "", 1).isdigit():
            budget = float(arguments.pop(0))
        else:
            sys.stderr.write(_USAGE + "\n")
            return 2
    data = (dumps(collect(sysroot, run_tools, budget)) + "\n").encode("ascii")
    while data:
        data = data[os.write(1, data) :]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
