"""kvctl whose probe runs no vendor tool: `python -m kvctl.bench.without_tools check`.

A lab's vendor tools are scripts that stand in for the real ones, so what they cost says nothing about kvctl. This is
the whole of kvctl all the same; only the argument that the node's probe is started with differs.
"""

import sys

from kvctl.fleet.probe import bundle
from kvctl.fleet.remote import collect


def probe() -> collect.Program:
    data = bundle.zip_bytes()
    return collect.Program(bundle.bootstrap_command(len(data), "--no-tools"), data)


if __name__ == "__main__":
    from kvctl.cli.main import main

    collect.probe = probe
    sys.exit(main())
