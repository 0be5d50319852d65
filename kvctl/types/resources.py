"""Where the files that are not Python live: in the wheel under kvctl/data, in a checkout beside the package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def resource(name: str) -> Path:
    """`playbooks`, `web`, `audits` or `inventory.example.yaml`. FileNotFoundError when the install is broken."""
    for base in (PACKAGE / "data", PACKAGE.parent):
        if (base / name).exists():
            return base / name
    raise FileNotFoundError(f"{name} is neither in {PACKAGE / 'data'} nor in {PACKAGE.parent}: reinstall kvctl")
