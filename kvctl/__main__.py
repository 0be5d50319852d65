"""`python -m kvctl`."""

import sys

from kvctl.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
